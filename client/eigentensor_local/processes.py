"""Processes that live exactly as long as a `with` block: started, known to be ready, ended with all their children.

Nothing is left behind: not after Ctrl-C, SIGTERM or a failure, and not after this process itself was killed
(Linux then tells the children; for that, start them from a thread that lives as long as they do).
"""

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Queue
from types import TracebackType
from typing import Self

import psutil

from eigentensor.errors import ProcessDied

PATIENCE = 10.0  # seconds between asking a process to end and ending it
READY = 120.0  # seconds in which a started process must say that it is ready
_PR_SET_PDEATHSIG = 1


class Running:
    """A child process. Its output goes to a file line by line."""

    def __init__(
        self, name: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str], ready: str
    ) -> None:
        self.name = name
        self.log = log
        self._ready = threading.Event()
        self._pattern = re.compile(ready) if ready else None
        self._matched: re.Match[str] | None = None
        self._asked = False
        self._relatives: list[psutil.Process] = []
        self._process = subprocess.Popen(
            list(arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=dict(environment),
            start_new_session=True,  # a Ctrl-C in the terminal reaches us alone: we decide who ends in which order
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )
        self._reader = threading.Thread(target=self._read, name=f"log-{name}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines, self.log.open("a") as log:
            for line in lines:
                log.write(line)
                log.flush()
                if self._pattern and not self._matched and (match := self._pattern.search(line)):
                    self._matched = match
                    self._ready.set()
        self._ready.set()

    def wait_ready(self) -> re.Match[str]:
        """What matched the pattern of readiness. ProcessDied if the process ended, or said nothing, before."""
        self._ready.wait(READY)
        if self._matched is None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(1)  # whoever has closed its output is about to end
            raise ProcessDied(self.name, self._process.poll(), self.tail())
        return self._matched

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end; the exit code, negative for a signal."""
        code = self._process.wait(timeout)
        self._reader.join()
        return code

    def tail(self, lines: int = 20) -> str:
        """The last lines of its output."""
        with suppress(FileNotFoundError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return ""

    def kill(self) -> None:
        """Ends the process as a power cut would: no clean-up of its own."""
        self._signal_all(signal.SIGKILL, self._family())
        self.wait()

    def terminate(self) -> None:
        """Asks the process to end, and notes its children while they can still be found."""
        if not self._asked:
            self._asked, self._relatives = True, self._family()
            if self.running:
                self._process.terminate()

    def stop(self) -> None:
        """Asks the process to end, waits, ends what is left of it and of its children."""
        self.terminate()
        if self.running:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(PATIENCE)
        self._signal_all(signal.SIGKILL, self._relatives)
        self.wait()

    def _family(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return [*psutil.Process(self.pid).children(recursive=True), psutil.Process(self.pid)]
        return []

    def _signal_all(self, number: signal.Signals, family: Sequence[psutil.Process]) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)  # its own session: whoever did not leave it
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Processes:
    """Starts processes; on leaving the block all end."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: dict[str, Running] = {}

    def __enter__(self) -> Self:
        self._logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        with _uninterrupted():
            for process in self._running.values():
                process.terminate()
            for process in reversed(self._running.values()):
                process.stop()

    def __getitem__(self, name: str) -> Running:
        return self._running[name]

    def __iter__(self) -> Iterator[Running]:
        return iter(self._running.values())

    def start(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None, *, ready: str = ""
    ) -> Running:
        """Starts a process, in place of an ended one of that name; `ready` is a pattern in a line that it prints."""
        log = self._logs / f"{name}.log"
        running = Running(name, arguments, log, os.environ if environment is None else environment, ready)
        self._running[name] = running
        return running

    def finish(self, name: str) -> None:
        """Waits for a process that ends by itself, and forgets it. ProcessDied if it failed."""
        process = self._running[name]
        if code := process.wait(READY):
            raise ProcessDied(name, code, process.tail())
        del self._running[name]

    def wait(self, **others: "subprocess.Popen[str]") -> None:
        """Blocks until one of the processes, or of others by name, ends: ProcessDied."""
        ended: Queue[tuple[str, int, str]] = Queue()

        def watch(name: str, process: "Running | subprocess.Popen[str]") -> None:
            code = process.wait()
            ended.put((name, code, process.tail() if isinstance(process, Running) else ""))

        for name, process in (*self._running.items(), *others.items()):
            threading.Thread(target=watch, args=(name, process), daemon=True).start()
        raise ProcessDied(*ended.get())


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Clean-up is bounded in time and runs to its end; a second Ctrl-C does not leave half of it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [(number, signal.signal(number, signal.SIG_IGN)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind the block as Ctrl-C does, so that its clean-up runs; the exit code is 128 + number."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = [(number, signal.signal(number, end)) for number in (signal.SIGTERM, signal.SIGHUP)]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
