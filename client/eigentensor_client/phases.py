"""Running work as people see it: what it does now, and each phase that is over."""

import re
import time
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

_CHANGES = re.compile(r" \([^()]*\)")


class Bar(Protocol):
    """A running piece of work: `text` says what it does now, `done` of `total` how far it is.

    Another text is another phase, but for what stands in it in brackets: that may change as the phase goes on.
    """

    def __call__(self, text: str, done: float | None = None, total: float | None = None) -> None: ...


def phase_of(text: str) -> str:
    """A text without what may change as its phase goes on."""
    return _CHANGES.sub("", text)


class Drawn:
    """In a terminal: a line that moves, with a bar where it is known how far the work is; each phase that is over
    leaves a line with its seconds."""

    def __init__(self, console: Console) -> None:
        columns = (
            SpinnerColumn(table_column=Column(no_wrap=True)),
            TextColumn("{task.description}", markup=False, table_column=Column(overflow="fold")),
            _KnownBar(bar_width=24),
            TimeElapsedColumn(table_column=Column(no_wrap=True)),
        )
        self._progress = Progress(*columns, console=console, transient=True)
        self._task = self._progress.add_task("", total=None)
        self._phase, self._since = "", time.monotonic()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        self._progress.stop()

    def __call__(self, text: str, done: float | None = None, total: float | None = None) -> None:
        if (phase := phase_of(text)) != self._phase:
            self._leave()
            self._phase, self._since = phase, time.monotonic()
            self._progress.reset(self._task)
        self._progress.update(self._task, description=text, completed=done or 0, total=total)

    def _leave(self) -> None:
        if self._phase:
            self._progress.console.print(f"{self._phase} ({time.monotonic() - self._since:.1f} s)", soft_wrap=False)
        self._phase = ""


class _KnownBar(BarColumn):
    def render(self, task: Task) -> Text:  # type: ignore[override]
        return Text() if task.total is None else super().render(task)  # type: ignore[return-value]


class Written:
    """Elsewhere: a line for each phase as it begins, and every few seconds how far it is, where that is known. Work
    that is too busy to speak is shown to go on."""

    each = 4.0  #: seconds

    def __init__(self, console: Console) -> None:
        self._console = console
        self._text, self._since, self._last = "", time.monotonic(), time.monotonic()
        self._over, self._lock = Event(), Lock()

    def __enter__(self) -> Self:
        Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:  # what is being printed is printed
            self._over.set()

    def __call__(self, text: str, done: float | None = None, total: float | None = None) -> None:
        with self._lock:
            if phase_of(text) != phase_of(self._text):
                self._since = time.monotonic()
                self._print(text)
            elif done is not None and total and time.monotonic() - self._last >= self.each:
                self._print(f"{text}: {done / total:.0%}")
            elif done is None:
                self._last = time.monotonic()  # it speaks: nothing new
            self._text = text

    def _beat(self) -> None:
        while not self._over.wait(self.each / 5):
            with self._lock:
                silent = time.monotonic() - self._last
                if self._text and silent >= self.each and not self._over.is_set():
                    self._print(f"{self._text} ({time.monotonic() - self._since:.0f} s)")

    def _print(self, text: str) -> None:
        self._console.print(text)
        self._last = time.monotonic()
