"""Processes of a local network end with the block that started them, whatever happens."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from eigentensor.errors import ProcessDied
from eigentensor_local.processes import Processes

PARENT_AND_CHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
print("child", child.pid, flush=True)
time.sleep(1000)
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def wait_gone(*pids: int) -> None:
    end = time.monotonic() + 60
    while not all(gone(pid) for pid in pids):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_process_and_its_children_end_with_the_block(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        process = processes.start("parent", python(PARENT_AND_CHILD), ready=r"child (\d+)")
        child = int(process.wait_ready()[1])
        assert process.running and psutil.pid_exists(child)
    wait_gone(process.pid, child)


def test_all_end_when_the_block_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyError), Processes(tmp_path) as processes:
        process = processes.start("parent", python(PARENT_AND_CHILD), ready=r"child (\d+)")
        child = int(process.wait_ready()[1])
        raise KeyError
    wait_gone(process.pid, child)


def test_a_process_that_ignores_the_request_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eigentensor_local.processes.PATIENCE", 0.2)
    deaf = """
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print('up', flush=True)
    while True:
        signal.pause()
    """
    with Processes(tmp_path) as processes:
        process = processes.start("deaf", python(deaf), ready="up")
        process.wait_ready()
    assert process.wait() == -signal.SIGKILL


def test_a_process_that_dies_before_it_is_ready_is_an_error_with_its_last_lines(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes, pytest.raises(ProcessDied, match="no such thing") as caught:
        processes.start("broken", python("raise SystemExit('no such thing')"), ready="up").wait_ready()
    assert caught.value.code == 1


def test_waiting_ends_when_one_process_dies(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        processes.start("long", python("import time; time.sleep(1000)"))
        short = processes.start("short", python("import time; print('up', flush=True); time.sleep(1000)"), ready="up")
        short.wait_ready()
        os.kill(short.pid, signal.SIGKILL)
        with pytest.raises(ProcessDied, match="short ended with code -9"):
            processes.wait()


CODES = {signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGINT: -signal.SIGINT, signal.SIGKILL: -signal.SIGKILL}


@pytest.mark.parametrize("number", CODES)
def test_nothing_is_left_when_the_supervisor_gets_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    supervisor = f"""
    import sys
    from pathlib import Path
    from eigentensor_local.processes import Processes, ended_by_signals
    sleep = [sys.executable, "-c", "print('up', flush=True); import time; time.sleep(1000)"]
    with ended_by_signals(), Processes(Path({str(tmp_path)!r})) as processes:
        process = processes.start("sleeper", sleep, ready="up")
        process.wait_ready()
        print(process.pid, flush=True)
        processes.wait()
    """
    with subprocess.Popen(python(supervisor), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(number)
        assert parent.wait(30) == CODES[number]
    wait_gone(pid)
