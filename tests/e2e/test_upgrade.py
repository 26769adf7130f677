"""An operator changes its version, and goes back, with its journal. Nothing is pretended but systemd."""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from eigentensor_local.devnet import Devnet, Party
from eigentensor_local.ports import free_port
from support.screens.readme import ROOT

#: Starts and stops what the link leads to, as systemd does with the unit.
SYSTEMCTL = f"""#!{sys.executable}
import os, subprocess, sys, time
import psutil
pid = "pid"
if sys.argv[1] in ("stop", "restart") and os.path.exists(pid):
    try:
        unit = psutil.Process(int(open(pid).read()))
        unit.terminate()
        while unit.is_running() and unit.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.1)
    except psutil.NoSuchProcess:
        pass
if sys.argv[1] in ("start", "restart"):
    command = [os.environ["LINK"] + "/bin/eigentensor", "operator", "run"]
    unit = subprocess.Popen(command, stdout=open("log", "ab"), stderr=subprocess.STDOUT, start_new_session=True)
    open(pid, "w").write(str(unit.pid))
"""
GOOD = 'exec {python} -m eigentensor_client "$@"'
#: Knows its version, and brings the journal to a form that nobody else knows.
BAD = """[ "$1" = --version ] && exit
exec {python} -c 'import os, sqlite3
sqlite3.connect(os.environ["DATA"] + "/operator.sqlite").execute("PRAGMA user_version = 99")
raise SystemExit(1)'"""


def written(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o700)


@pytest.fixture
def party(net: Devnet, tmp_path: Path) -> Party:
    return net.party(tmp_path.name)


@pytest.fixture
def environment(net: Devnet, party: Party, tmp_path: Path) -> dict[str, str]:
    """That of the unit and of the script: three versions, of which the link leads to the first."""
    for name, text in (("one", GOOD), ("two", GOOD), ("bad", BAD)):
        written(tmp_path / name / "bin" / "eigentensor", "#!/bin/sh\n" + text.format(python=sys.executable) + "\n")
        written(tmp_path / name / "bin" / "python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    written(tmp_path / "bin" / "systemctl", SYSTEMCTL)
    (tmp_path / "current").symlink_to(tmp_path / "one")
    port = free_port()
    settings: dict[str, str | Path] = {
        "EIGENTENSOR_OPERATOR_DATA_DIR": party.folder,
        "EIGENTENSOR_OPERATOR_KEYSTORE": party.folder / "signer.json",
        "EIGENTENSOR_OPERATOR_PASSWORD_FILE": party.folder / "password",
        "EIGENTENSOR_OPERATOR_ADDRESS": party.address,
        "EIGENTENSOR_OPERATOR_PORT": str(port),
        "EIGENTENSOR_OPERATOR_POLL_SECONDS": "0.2",
    }
    script: dict[str, str | Path] = {
        "LINK": tmp_path / "current",
        "DATA": party.folder,
        "NODE": f"http://127.0.0.1:{port}",
    }
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    return net.environment(party.folder, settings | script | {"PATH": path, "PATIENCE": "100"})


@pytest.fixture
def unit(environment: dict[str, str], tmp_path: Path) -> Iterator[None]:
    """Runs the first version, which is ready."""

    def call(verb: str) -> None:
        subprocess.run(["systemctl", verb], check=True, cwd=tmp_path, env=environment, timeout=60)

    call("start")
    while " ready " not in (tmp_path / "log").read_text():
        time.sleep(0.5)
    yield
    call("stop")


def upgrade(version: Path, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    command = [str(ROOT / "operator" / "deploy" / "upgrade"), str(version)]
    return subprocess.run(command, cwd=version.parent, env=environment, capture_output=True, text=True, timeout=280)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_operator_changes_its_version_and_goes_back_from_one_that_does_not_get_ready(
    environment: dict[str, str], unit: None, party: Party, tmp_path: Path
) -> None:
    changed = upgrade(tmp_path / "two", environment)
    assert changed.returncode == 0, changed.stderr
    assert (tmp_path / "current").resolve() == tmp_path / "two"
    assert not (party.folder / "draining").exists()
    before = int((tmp_path / "pid").read_text())
    failed = upgrade(tmp_path / "bad", environment)
    assert (failed.returncode, failed.stdout.splitlines()[-1]) == (1, f"ready again: {tmp_path / 'two'}"), failed.stderr
    assert (tmp_path / "current").resolve() == tmp_path / "two"
    assert not (party.folder / "draining").exists()
    now = int((tmp_path / "pid").read_text())
    assert now != before and psutil.Process(now).is_running()
    with sqlite3.connect(party.folder / "operator.sqlite") as journal:
        assert journal.execute("PRAGMA user_version").fetchone()[0] < 99
        assert journal.execute("SELECT operator FROM owner").fetchone() == (party.address,)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_operator_that_accepted_nothing_before_accepts_nothing_afterwards(
    environment: dict[str, str], unit: None, party: Party, tmp_path: Path
) -> None:
    (party.folder / "draining").touch()
    assert upgrade(tmp_path / "two", environment).returncode == 0
    assert (party.folder / "draining").exists()
