"""Commands as somebody types them: what they print and when, how they end, and which page says their words."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil

from support.newcomer.machine import Machine
from support.newcomer.pages import calls_of, places_of, split, words_of

LONGEST = 900.0  #: seconds of one command
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def say(text: str) -> None:
    """Prints lines."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Wrong(Exception):
    """A step did not do what the pages promise."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a command: seconds after its start, and whether it is talk."""

    seconds: float
    text: str
    is_talk: bool


@dataclass
class Typed:
    """A command that was typed."""

    line: str
    process: "subprocess.Popen[str]"
    began: float
    lines: list[Line] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def out(self) -> str:
        """Its data."""
        return "".join(line.text for line in list(self.lines) if not line.is_talk)

    @property
    def err(self) -> str:
        """Its talk."""
        return "".join(line.text for line in list(self.lines) if line.is_talk)

    def find(self, pattern: str) -> "re.Match[str]":
        """What a pattern finds in all that it printed. Raises Wrong."""
        if match := re.search(pattern, "".join(line.text for line in list(self.lines)), re.MULTILINE):
            return match
        raise Wrong(f"`{self.line}` does not say {pattern!r}: {self.tail()}")

    def when(self, pattern: str) -> float:
        """Seconds until a line was printed that a pattern finds. Raises Wrong."""
        for line in list(self.lines):
            if re.search(pattern, line.text):
                return line.seconds
        raise Wrong(f"`{self.line}` does not say {pattern!r}: {self.tail()}")

    def tail(self) -> str:
        """Its last lines."""
        return "".join(line.text for line in list(self.lines)[-12:]).rstrip()


class Walk:
    """Somebody at a machine. `printed` is what its commands printed in this step."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.folder = Path()
        self.printed = ""
        self.unnamed: list[str] = []

    def write(self, name: str, text: str) -> None:
        """A Python file of somebody's own, whose calls a page must say."""
        places = places_of(calls_of(text))
        self._look(places)
        say(f"  {name}: {', '.join(places)} ({_pages(places)})")
        (self.machine.folder / self.folder / name).write_text(text)

    def knows(self, line: str) -> str:
        """The pages that say the words of a line, which are held against them."""
        places = places_of(words_of(line), self.printed)
        self._look(places, line)
        return _pages(places)

    def type(self, line: str, code: int = 0, *, quiet: bool = False) -> Typed:
        """A command, when it has ended. Raises Wrong where that is with another code, a traceback or an error that does
        not say what to do."""
        pages = self.knows(line)
        with self._started(line) as typed:
            try:
                typed.process.wait(LONGEST)
            except subprocess.TimeoutExpired:
                raise Wrong(f"`{line}` does not end in {LONGEST:.0f} s: {typed.tail()}") from None
        ended = typed.process.returncode
        if not quiet:
            say(f"  $ {line}    {typed.seconds:.1f} s, code {ended} ({pages})")
        self.printed += typed.out + typed.err
        if ended != code or "Traceback" in typed.err:
            raise Wrong(f"`{line}` ends with {ended}, not {code}: {typed.tail()}")
        if code and not re.search(r"^error  .+\n(.*\n)*  fix  .+", typed.err, re.MULTILINE):
            raise Wrong(f"`{line}` does not say what to do: {typed.tail()}")
        return typed

    @contextmanager
    def going_on(self, line: str, pattern: str, patience: float = 180.0) -> Iterator[Typed]:
        """A command in a terminal of its own, from when it says a pattern to Ctrl-C; it ends with the block."""
        pages = self.knows(line)
        with self._started(line) as typed:
            try:
                while not re.search(pattern, typed.out + typed.err):
                    if typed.process.poll() is not None or time.monotonic() - typed.began > patience:
                        raise Wrong(f"`{line}` does not say {pattern!r}: {typed.tail()}")
                    time.sleep(0.1)
                say(f"  $ {line}    goes on, ready after {time.monotonic() - typed.began:.1f} s ({pages})")
                self.printed += typed.out + typed.err
                yield typed
            finally:
                with suppress(psutil.NoSuchProcess):
                    for child in psutil.Process(typed.process.pid).children():  # of what hides the repository
                        child.send_signal(signal.SIGINT)
                try:
                    typed.process.wait(120)
                except subprocess.TimeoutExpired:
                    os.killpg(typed.process.pid, signal.SIGKILL)
                    raise Wrong(f"`{line}` does not end by Ctrl-C") from None

    def shown(self, line: str, columns: int, code: int = 0) -> list[str]:
        """The lines of a command in a terminal that is so many columns wide. Raises Wrong."""
        self.knows(line)
        leader, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        variables, words = split(line)
        process = subprocess.Popen(
            self.machine.command(*words, folder=self.folder),
            env={**self.machine.environment(), "TERM": "xterm-256color", **variables},
            stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
        )  # fmt: skip
        os.close(terminal)
        printed = b""
        with suppress(OSError), os.fdopen(leader, "rb", buffering=0) as screen:  # EIO: the last one closed it
            while piece := screen.read(65536):
                printed += piece
        if process.wait(LONGEST) != code:
            raise Wrong(f"`{line}` ends with {process.returncode} in a terminal, not {code}: {printed.decode()}")
        return re.split(r"[\r\n]+", _CONTROL.sub("", printed.decode()))

    @contextmanager
    def _started(self, line: str) -> Iterator[Typed]:
        """A command whose lines are read as they come; all of them are there after the block."""
        variables, words = split(line)
        began = time.monotonic()
        process = subprocess.Popen(
            self.machine.command(*words, folder=self.folder),
            env=self.machine.environment() | variables,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip
        typed = Typed(line, process, began)

        def read(stream: IO[str], is_talk: bool) -> None:
            for text in stream:
                typed.lines.append(Line(time.monotonic() - began, text, is_talk))

        assert process.stdout is not None and process.stderr is not None
        readers = [
            threading.Thread(target=read, args=(process.stdout, False), daemon=True),
            threading.Thread(target=read, args=(process.stderr, True), daemon=True),
        ]
        for reader in readers:
            reader.start()
        try:
            yield typed
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            typed.seconds = time.monotonic() - began
            for reader in readers:
                reader.join(10)

    def _look(self, places: Mapping[str, str], line: str = "") -> None:
        self.unnamed += [f"{word} (of `{line}`)" if line else word for word, place in places.items() if not place]


def _pages(places: Mapping[str, str]) -> str:
    return ", ".join(dict.fromkeys(place or "nowhere" for place in places.values())) or "no word of ours"
