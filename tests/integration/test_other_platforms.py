"""pip finds wheels for machines that are not here: it is asked for them, and installs nothing."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
#: pip's names of platforms on which a client may be, and Python's name of the system. What packages need of each other
#: pip takes from this one.
CLIENTS = {"macosx_14_0_arm64": "darwin", "macosx_14_0_x86_64": "darwin", "win_amd64": "win32"}


def ask(folder: Path, python: str, platforms: list[str], *wanted: str) -> None:
    """Fails if pip cannot install this from wheels for one of these platforms."""
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--dry-run"]
    command += ["--only-binary=:all:", "--python-version", python, "--target", str(folder)]
    command += [f"--platform={platform}" for platform in platforms]
    done = subprocess.run([*command, *wanted], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("python", ["3.11", "3.13"])  # of coincurve 21 there are no wheels for 3.14
@pytest.mark.parametrize("platform", CLIENTS)
def test_a_client_needs_no_compiler(platform: str, python: str, tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = list[str]()
    for requirement in map(Requirement, project["dependencies"]):
        marker, requirement.marker = requirement.marker, None
        if marker is None or marker.evaluate({"sys_platform": CLIENTS[platform]}):
            wanted.append(str(requirement))
    ask(tmp_path, python, [platform], *wanted)


def test_every_package_of_the_lock_has_a_wheel_for_arm64(tmp_path: Path) -> None:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    platforms = [f"manylinux_2_{minor}_aarch64" for minor in (28, 27, 26, 24, 17)] + ["manylinux2014_aarch64"]
    lock = str(ROOT / "requirements.lock")
    ask(tmp_path, python, platforms, "--no-deps", "--require-hashes", "-r", lock)
