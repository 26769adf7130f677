"""The local network as a command: it says where everything is, and leaves nothing behind."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from eigentensor_local.devnet import Devnet
from support.screens.readme import ROOT

NETWORK = ["devnet", "--operators", "0", "--port", "0", "--gateway-port", "0", "--json"]


@contextmanager
def start(words: list[str], home: Path) -> Iterator["subprocess.Popen[str]"]:
    """A command that is ended with the block, also where a test fails in it."""
    environment = os.environ | {"XDG_STATE_HOME": str(home / "state"), "TMPDIR": str(home)}
    command = [sys.executable, "-m", "eigentensor_client", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_network_ends_with_all_its_processes_and_files(home: Path, tmp_path: Path, number: int, code: int) -> None:
    with start(NETWORK, tmp_path) as process:
        assert process.stdout is not None
        announcement = json.loads(process.stdout.readline())
        family = psutil.Process(process.pid).children(recursive=True)
        assert {"rpc_url", "gateway_url", "deployment"} <= announcement.keys()
        assert len(family) == 2  # the chain and the aggregator
        assert Path(announcement["network"]).exists() and Path(announcement["logs"]).exists()
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in err
    assert not psutil.wait_procs(family, timeout=60)[1]
    assert not Path(announcement["network"]).exists()
    assert not Path(announcement["logs"]).parent.exists()


def test_the_death_of_one_process_ends_the_network_with_a_reason(home: Path, tmp_path: Path) -> None:
    with start(NETWORK, tmp_path) as process:
        assert process.stdout is not None
        json.loads(process.stdout.readline())
        family = psutil.Process(process.pid).children(recursive=True)
        next(child for child in family if child.name() == "anvil").kill()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 10
    assert "error  chain ended with code -9" in err
    assert not psutil.wait_procs(family, timeout=60)[1]


def test_a_second_network_of_the_same_name_is_refused(net: Devnet) -> None:
    command = [sys.executable, "-m", "eigentensor_client", *NETWORK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    assert "a local network runs already" in done.stderr


@pytest.mark.slow
def test_a_network_with_a_liar_says_how_to_see_it_convicted(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lines are typed as they stand, in the folder of the project."""
    words = [*NETWORK[:-1], "--operators", "2", "--cheat", "1", "--block-time", "0.5"]
    with start(words, tmp_path) as network:
        assert network.stdout is not None
        head = list(iter(network.stdout.readline, "Ctrl-C ends everything.\n"))
        assert any(line.startswith("liar-1 ") for line in head)
        lines = [network.stdout.readline() for _ in range(7)]
        commands = [shlex.split(line) for line in lines if line.startswith("  ")]
        (tmp_path / "client").symlink_to(ROOT / "client")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        ended = [typed(*command) for command in commands]
        (logs,) = (Path(line.split()[1]) for line in head if line.startswith("logs "))
        log = (logs / "aggregator.log").read_text()[-4000:]
        network.send_signal(signal.SIGINT)
        network.communicate(timeout=60)
    assert [done.returncode for done in ended] == [0, 0, 12, 0, 0], [*(done.stderr for done in ended), log]
    assert "the referee computes another value than the executor claims" in ended[-1].stdout


@pytest.mark.slow
def test_a_channel_is_opened_and_concluded_on_a_network_as_it_is_started(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*NETWORK, "--operators", "2", "--block-time", "0.5"]
    with start(words, tmp_path) as network:
        assert network.stdout is not None
        url = json.loads(network.stdout.readline())["calls"]
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        opened = typed("eigentensor", "channel", "open", url, "--deposit", "0.1", "--json")
        assert opened.returncode == 0, opened.stderr
        closed = typed("eigentensor", "channel", "close", json.loads(opened.stdout)["channel"][:10], "--json")
        network.send_signal(signal.SIGINT)
        network.communicate(timeout=60)
    assert closed.returncode == 0, closed.stderr
    assert json.loads(closed.stdout)["stage"] == "ended" and "concludes nothing" not in closed.stderr


def typed(program: str, *words: str) -> "subprocess.CompletedProcess[str]":
    module = ["-m", "eigentensor_client"] if program == "eigentensor" else []
    return subprocess.run([sys.executable, *module, *words], capture_output=True, text=True, timeout=240)


def test_nobody_lies_where_nobody_honest_is_there_to_find_it(home: Path) -> None:
    done = typed("eigentensor", "devnet", "--operators", "1", "--cheat", "1")
    assert done.returncode == 2 and "an honest operator is needed" in done.stderr


@pytest.mark.slow
def test_the_demo_shows_everything_and_leaves_nothing(home: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "eigentensor_client", "demo"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr
    for text in (
        "final, checked(1)",
        "bits equal to the local run",
        "accuracy 9",
        "the referee computes another value than the executor claims",
        "was convicted",
        "gave no result",
        "burned",
        "1,000 digits, a call each: ",
        "one transaction commits to ",
        "call 617 is wrong, as this machine computes it: challenged",
        "what all calls of the batch cost",
        "Nothing is left of it",
    ):
        assert text in done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_demo_shows_a_dispute_on_its_pages_until_it_is_told_to_end(home: Path, tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "eigentensor_client", "demo", "--web"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as demo:
        assert demo.stdout is not None
        said = iter(demo.stdout.readline, "")
        url = next(line for line in said if "/games/1" in line).split()[-1]
        assert "Dispute 1" in httpx.get(url, headers={"Accept": "text/html"}).text
        next(line for line in said if "stays until Ctrl-C" in line)
        wanted = ("the executor lost", "They differ in 1 bit", "the executor&#39;s stake")
        while not all(words in httpx.get(url, headers={"Accept": "text/html"}).text for words in wanted):
            time.sleep(0.2)  # the gateway may be a block behind the chain
        family = psutil.Process(demo.pid).children(recursive=True)
        demo.send_signal(signal.SIGINT)
        assert demo.wait(60) == 130
    assert not psutil.wait_procs(family, timeout=10)[1]
    assert not list(tmp_path.iterdir())
