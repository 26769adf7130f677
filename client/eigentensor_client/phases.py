"""Running work as people see it: what it does now, and each phase that is over."""

import re
import time
from dataclasses import dataclass, field, replace
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from eigentensor_client.tables import folded

_BAR = 24  # columns
_OTHERS = 12  # columns beside the words and the bar: a spinner, the time, and what lies between
_CHANGES = re.compile(r" \([^()]*\)")


class Bar(Protocol):
    """A running piece of work: `text` says what it does now, `done` of `total` how far it is.

    Another text is another phase, but for what stands in it in brackets: that may change as the phase goes on.
    """

    def __call__(self, text: str, done: float | None = None, total: float | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class Phase:
    """What is being done since when, what the library does for it now, and how far that is."""

    text: str = ""
    detail: str = ""
    done: float | None = None
    total: float | None = None
    since: float = field(default_factory=time.monotonic)

    @property
    def name(self) -> str:
        """Its text, without what changes as it goes on."""
        return _CHANGES.sub("", self.text)

    @property
    def seconds(self) -> float:
        """How long it has been going on."""
        return time.monotonic() - self.since

    @property
    def words(self) -> str:
        """What is done now."""
        return ": ".join(filter(None, (self.text, self.detail)))

    @property
    def part(self) -> str:
        """How much of it is done, as a percentage; empty where that is unknown."""
        return f" {self.done / self.total:.0%}" if self.done is not None and self.total else ""

    def then(self, text: str, done: float | None, total: float | None) -> "Phase":
        """The phase that this one is from now on, or the one that follows it."""
        after = Phase(text, "", done, total)
        return replace(after, since=self.since) if after.name == self.name else after


class _Shown:
    """Work by its phases; what is called says what the verb does, `doing` what the library does for that."""

    def __init__(self) -> None:
        self._phase = Phase()

    def __call__(self, text: str, done: float | None = None, total: float | None = None) -> None:
        self._go_on(self._phase.then(text, done, total))

    def doing(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """Shows what the library does in this phase."""
        self._go_on(replace(self._phase, detail=text, done=done, total=total))

    def _go_on(self, phase: Phase) -> None:
        """Shows what is done from now on."""
        raise NotImplementedError


class Drawn(_Shown):
    """In a terminal: a line that moves, with a bar where it is known how far the work is; each phase that is over
    leaves a line with its seconds."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        columns = (
            SpinnerColumn(table_column=Column(no_wrap=True)),
            _Words(console),
            _KnownBar(bar_width=_BAR),
            TimeElapsedColumn(table_column=Column(no_wrap=True)),
        )
        self._progress = Progress(*columns, console=console, transient=True)
        self._task = self._progress.add_task("", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        self._progress.stop()

    def _go_on(self, phase: Phase) -> None:
        if phase.name != self._phase.name:
            self._leave()
            self._progress.reset(self._task)
        self._phase = phase
        self._progress.tasks[0].total = phase.total
        self._progress.update(self._task, description=phase.words, completed=phase.done or 0)

    def _leave(self) -> None:
        if self._phase.name:
            for line in folded(f"{self._phase.name} ({self._phase.seconds:.1f} s)", self._progress.console.width):
                self._progress.console.print(line)


class _Words(ProgressColumn):
    """What is done now, in lines that leave room for the others."""

    def __init__(self, console: Console) -> None:
        super().__init__(Column(no_wrap=True))
        self._console = console

    def render(self, task: Task) -> Text:
        width = self._console.width - _OTHERS - (0 if task.total is None else _BAR)
        return Text("\n".join(folded(task.description, max(1, width))))


class _KnownBar(BarColumn):
    def render(self, task: Task) -> Text:  # type: ignore[override]
        return Text() if task.total is None else super().render(task)  # type: ignore[return-value]


class Printer(Protocol):
    """What prints a line."""

    def print(self, line: str, /) -> None:
        """Prints it, and what ends a line."""


class Written(_Shown):
    """Elsewhere: a line for each phase as it begins, and one every few seconds while it does not poll, but works."""

    each = 4.0  #: seconds

    def __init__(self, console: Printer) -> None:
        super().__init__()
        self._console = console
        self._last, self._over, self._lock = time.monotonic(), Event(), Lock()

    def __enter__(self) -> Self:
        Thread(target=self._beat, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:  # what is being printed is printed
            self._over.set()

    def _go_on(self, phase: Phase) -> None:
        with self._lock:
            before, self._phase = self._phase, phase
            if phase.name != before.name:
                self._print(phase.words)
            elif not phase.detail and phase.done is None:
                self._last = time.monotonic()  # it polls, and nothing is new

    def _beat(self) -> None:
        while not self._over.wait(self.each / 5):
            with self._lock:
                if self._phase.name and time.monotonic() - self._last >= self.each and not self._over.is_set():
                    self._print(f"{self._phase.words}{self._phase.part} ({self._phase.seconds:.0f} s)")

    def _print(self, text: str) -> None:
        self._console.print(text)
        self._last = time.monotonic()
