"""Ctrl-C and SIGTERM in the middle of a run: everybody ends at once, says one line, and leaves nothing behind."""

import _thread
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import psutil
import pytest
from tinygrad import Tensor

import eigentensor as et
from eigentensor.program.codec import encode
from eigentensor.store import save_safetensors
from eigentensor_client import clusters
from support.clusters import COMMAND, Processes, children, cluster
from support.programs import long_program

#: Of layers of 512 × 512 that the reference is minutes about, on workers that hold a part of them each.
LONG = long_program.example(layers=24)
SCRIPT = """
import sys, numpy as np, eigentensor as et
from tinygrad import Tensor
WEIGHT = Tensor(np.ones((512, 512), np.float32), device="CPU").realize()

@et.function()
def layers(x: Tensor) -> Tensor:
    for _ in range(40):
        x = (x + x @ WEIGHT).relu()
    return x

layers.on(sys.argv[1], sys.argv[2])(Tensor(np.ones((512, 512), np.float32)))
"""


@pytest.fixture
def processes() -> Iterator[Processes]:
    with TemporaryDirectory() as folder:  # a short one: paths of sockets are
        made = Processes(Path(folder))
        temporary = made.folder / "tmp"
        temporary.mkdir()
        made.environment["TMPDIR"] = str(temporary)
        yield made
        made.close()


def client(p: Processes) -> "subprocess.Popen[str]":
    """`cluster run` of the long program."""
    (p.folder / "program").write_bytes(encode(LONG.program))
    save_safetensors(p.folder / "tensors", LONG.tensors)
    words = ("run", str(p.folder / "program"), "-i", f"@{p.folder / 'tensors'}.safetensors")
    (p.folder / "tensors").rename(p.folder / "tensors.safetensors")
    token = ("--cluster", p.address, "--token", str(p.folder / "client"))
    return begun(p, *COMMAND, *words, *token)


def script(p: Processes) -> "subprocess.Popen[str]":
    """A function `.on` the cluster."""
    (p.folder / "script.py").write_text(SCRIPT)
    return begun(p, sys.executable, str(p.folder / "script.py"), p.address, str(p.folder / "client"))


def begun(p: Processes, *words: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen(words, env=p.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    p.started.append(process)
    return process


def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def busy(p: Processes) -> int:
    return sum(worker.busy for worker in p.status().workers)


def ends(process: "subprocess.Popen[str]", number: int) -> tuple[int, list[str]]:
    """Its exit code, and what it said since; nothing that it began is left."""
    own = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    code = process.wait(40)  # a run takes minutes, and a session that is lost outlives its connection by 50 seconds
    assert process.stderr is not None
    until(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in own))
    return code, process.stderr.read().splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("trust", [["--trust"], []], ids=["trusted", "confined"])
def test_whoever_is_ended_in_a_shared_run_ends_at_once_with_one_line_and_leaves_nothing(
    number: signal.Signals, trust: list[str], processes: Processes
) -> None:
    p = processes
    p.up("--workers", "0")
    there = [p.worker("--device", "PYTHON", "--memory", "32", *trust) for _ in range(2)]
    run = client(p)
    until(lambda: busy(p) == 2)
    assert ends(run, number) == (128 + number, ["the run is given up: nothing was written"])
    until(lambda: not p.status().sessions)
    if not trust:  # processes end with their session
        until(lambda: not busy(p), 20)
        function = script(p)
        until(lambda: busy(p) == 2)
        code, lines = ends(function, number)
        assert code == -number and (number == signal.SIGTERM) != ("KeyboardInterrupt" in lines[-1:])
        if number == signal.SIGINT:
            until(lambda: not p.status().sessions and not busy(p), 20)
    else:
        run = client(p)
        until(lambda: busy(p) == 2)
    code, lines = ends(there[0], number)
    assert code == 128 + number and len(lines) == 1 and lines[0].startswith("left cluster://127.0.0.1:")
    until(lambda: len(p.status().workers) == 1)
    assert ends(p.started[0], number) == (0, ["the cluster is down"])
    assert there[1].wait(60) == 10
    assert not any(path.is_socket() for path in p.folder.rglob("*"))
    assert not [path for path in (p.folder / "tmp").rglob("*") if path.is_file()]
    assert not [name for name in os.listdir("/dev/shm") if "eigentensor" in name]


def test_a_session_that_ends_in_the_middle_of_a_run_frees_its_slot_and_its_process(tmp_path: Path) -> None:
    with cluster(tmp_path / "c") as c:
        c.joined(is_trusting=False)
        (place,) = c.dispatcher.places.values()
        with c.session() as session:
            session.run(session.define(long_program.endless()), {}, {"y": 1})
            session.stats()
            c.until(lambda: place.free == 0 and bool(children()))
        c.until(lambda: place.free == 1 and not children())


@et.function()
def layers(x: Tensor) -> Tensor:
    for _ in range(12):
        x = (x + x @ x).relu()
    return x


def test_a_call_that_is_interrupted_ends_its_session_and_the_next_one_has_another(tmp_path: Path) -> None:
    with cluster(tmp_path / "c") as c:
        there = layers.on(str(c.address))
        value = Tensor(np.ones((4, 4), np.float32) / 8)
        ending = threading.Timer(0.5, _thread.interrupt_main)  # it wakes nobody, like a signal just before a wait
        c.here()
        expected = there(value).numpy()
        c.call(lambda: c.dispatcher.lose(next(iter(c.dispatcher.places))))  # nobody executes: it waits
        ending.start()
        with pytest.raises(KeyboardInterrupt):
            there(value)
        ending.join()
        c.until(lambda: not c.dispatcher.sessions)
        c.joined()
        assert np.array_equal(there(value).numpy(), expected)
        for one in clusters._open.values():
            one.close()
        clusters._open.clear()
