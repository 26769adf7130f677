"""Whether a command talks beside its data, and who hears that it waits: what all parts of the command line ask."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Whether talk is left out: `--quiet`. Data and errors are said nevertheless, and what logs say from warnings on.
QUIET: ContextVar[bool] = ContextVar("QUIET", default=False)
#: Seconds without an answer after which somebody wants to hear why nothing happens.
SOON = 2.0


class Asking:
    """Whom a command asks now, and what hears of each of them, once, that does not answer soon."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._asked: list[str] = []
        self._heard: set[str] = set()

    @property
    def whom(self) -> str:
        """Who is asked now; empty: nobody."""
        return self._asked[-1] if self._asked else ""

    @contextmanager
    def ask(self, whom: str) -> Iterator[None]:
        """While the block asks somebody."""
        timer = threading.Timer(SOON, self._wait, (whom,))
        timer.daemon = True
        timer.start()
        self._asked.append(whom)
        try:
            yield
        finally:
            self._asked.pop()
            timer.cancel()

    def _wait(self, whom: str) -> None:
        if whom not in self._heard:
            self._heard.add(whom)
            self._say(f"waits for {whom}")


#: Of a command that says whom it waits for.
ASKING: ContextVar[Asking | None] = ContextVar("ASKING", default=None)


@contextmanager
def asking(whom: str) -> Iterator[None]:
    """While the block asks somebody that may not answer: a command says so."""
    hears = ASKING.get()
    if hears is None:
        yield
    else:
        with hears.ask(whom):
            yield
