"""The local network without a clone: from a wheel, in an empty folder, for a user who has nothing yet."""

import json
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from eigentensor_local import foundry

ROOT = Path(__file__).parents[2]
EXAMPLE = """
import runpy
from eigentensor_local.cli import matmul
from eigentensor_local.demo import EXAMPLES
print(len(runpy.run_path(str(EXAMPLES / "digits.py"))["load"]()[1].labels), EXAMPLES, matmul())
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the wheel has, in a folder."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


@pytest.fixture
def environment(installed: Path, tmp_path: Path) -> dict[str, str]:
    """Nothing of this user's but the programs, and `anvil` on the PATH."""
    for name in ("bin", "home", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin" / "anvil").symlink_to(foundry.anvil())
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(tmp_path / "home"), "PYTHONPATH": str(installed), "TMPDIR": str(tmp_path)}


def test_a_network_runs_and_leaves_nothing(environment: dict[str, str], tmp_path: Path) -> None:
    words = ["devnet", "--operators", "0", "--port", "0", "--gateway-port", "0", "--json"]
    command = [sys.executable, "-m", "eigentensor_client", *words]
    with subprocess.Popen(
        command, cwd=tmp_path / "empty", env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert json.loads(line)["deployment"]["network"] == "local"
    assert not list((tmp_path / "empty").iterdir())


def test_the_demo_has_what_it_reads(environment: dict[str, str], installed: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", EXAMPLE]
    done = subprocess.run(
        command, cwd=tmp_path / "empty", env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    count, place, program = done.stdout.split()
    assert count == "297" and Path(place).is_relative_to(installed)
    assert Path(program).is_relative_to(installed) and Path(program).exists()
