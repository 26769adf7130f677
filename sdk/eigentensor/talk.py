"""How a command talks beside its data: what all parts of the command line ask, and what the library says for them."""

import re
import shlex
import shutil
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

Item = TypeVar("Item")

#: Whether talk is left out: `--quiet`. Data and errors are said nevertheless, and what logs say from warnings on.
QUIET: ContextVar[bool] = ContextVar("QUIET", default=False)
#: Called with what a long computation does now, how much of it is done, and of how much; whoever shows that sets it.
DOING: ContextVar[Callable[[str, float | None, float | None], None] | None] = ContextVar("DOING", default=None)

NAME = "eigentensor"
_CALLED = re.compile(rf"(`|  ){NAME} (?=[a-z-])")


def doing(text: str, done: float | None = None, total: float | None = None) -> None:
    """Says what a long computation does now to whoever shows that."""
    if (show := DOING.get()) is not None:
        show(text, done, total)


def each(text: str, items: Collection[Item]) -> Iterator[Item]:
    """The items, saying of each that it is its turn now."""
    for number, item in enumerate(items):
        doing(text, number, len(items))
        yield item


def command() -> str:
    """The command as this user calls it: by its name where the shell finds it."""
    return command_of(shutil.which(NAME), sys.argv[0], sys.orig_argv[0])


def command_of(on_path: str | None, script: str, python: str) -> str:
    """The command by its name if it is on the path; else as the running script or Python, as these were called."""
    if on_path:
        return NAME
    if Path(script).name == NAME:
        return shlex.quote(script)
    return f"{shlex.quote(python or 'python')} -m eigentensor_client"


def callable_here(text: str) -> str:
    """The same text, in which commands, behind a backtick or two spaces, can be called as they stand."""
    return _CALLED.sub(lambda match: f"{match[1]}{command()} ", text)


#: Seconds without an answer after which somebody wants to hear why nothing happens.
SOON = 2.0


class Waits:
    """Whom a command waits for now: each who does not answer soon is named once, by `say`."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._whom: list[str] = []
        self._named: set[str] = set()

    @property
    def whom(self) -> str:
        """Who is waited for now; empty: nobody."""
        return self._whom[-1] if self._whom else ""

    @contextmanager
    def waiting(self, whom: str) -> Iterator[None]:
        """While the block waits for somebody."""
        timer = threading.Timer(SOON, self._wait, (whom,))
        timer.daemon = True
        timer.start()
        self._whom.append(whom)
        try:
            yield
        finally:
            self._whom.pop()
            timer.cancel()

    def _wait(self, whom: str) -> None:
        if whom not in self._named:
            self._named.add(whom)
            self._say(f"waits for {whom}")


#: Of a command that says whom it waits for.
WAITS: ContextVar[Waits | None] = ContextVar("WAITS", default=None)


@contextmanager
def waiting_for(whom: str) -> Iterator[None]:
    """While the block waits for somebody who may not answer: a command says so."""
    waits = WAITS.get()
    if waits is None:
        yield
    else:
        with waits.waiting(whom):
            yield


def say(line: str) -> None:
    """A line of talk to stderr, unless talk is left out."""
    if not QUIET.get():
        sys.stderr.write(f"{line}\n")
