"""Machines that are not here: pip finds wheels for them, and Python for arm64 does what it does here, under qemu."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from support import arm64

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
    lock = str(ROOT / "requirements.lock")
    ask(tmp_path, python, arm64.MANYLINUX, "--no-deps", "--require-hashes", "-r", lock)


#: What a node does that needs no other process: programs are decoded, roots are made of tensors, the processor's
#: instructions hash, and kernels that clang for arm64 has compiled give the committed bits.
ON_ARM = (
    "tests/unit/test_program_vectors.py", "tests/unit/test_merkle.py",
    "tests/unit/test_hashing.py::test_the_helper_gives_hashlibs_hashes_of_any_number_of_messages",
    "tests/differential/test_conformance.py::test_the_processor_gives_the_answers",
)  # fmt: skip
#: A compiler that is emulated needs a minute.
TRIED = f"""
import platform, sys, pytest
from eigentensor import hashing
hashing.SECONDS = 900
print(platform.machine(), hashing.chosen().helper.kind.name, flush=True)
sys.exit(pytest.main(["--noconftest", "-o", "addopts=", "-p", "no:cacheprovider", "-q", *{ON_ARM}]))
"""


def test_python_for_arm64_decodes_executes_and_hashes(tmp_path: Path) -> None:
    if lacking := [name for name in ("qemu-aarch64", "apt-get", "dpkg-deb") if shutil.which(name) is None]:
        pytest.skip(f"not installed: {', '.join(lacking)}")
    commands = arm64.install(tmp_path / "arm64")
    there = arm64.environment(commands, tmp_path / "cache")
    done = subprocess.run(
        [commands / "python", "-c", TRIED], env=there, capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.stdout.startswith("aarch64 SHA\n"), done.stderr
    assert done.returncode == 0, done.stdout
    shutil.rmtree(tmp_path)  # pytest would keep it
