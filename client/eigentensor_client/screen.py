"""What a verb prints: talk goes to stderr, data to stdout; `--json` makes the data one versioned object.

Every verb imports this: Rich is imported when something is printed.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from eigentensor.talk import ASKING, QUIET, Asking

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


class Bar(Protocol):
    """A running piece of work: `text` says what it does now, `done` of `total` how far it is."""

    def __call__(self, text: str, done: float | None = None, total: float | None = None) -> None: ...


def console(*, stderr: bool = False, file: TextIO | None = None, width: int | None = None) -> "Console":
    """Prints text as it is; tables are as wide as `width`, or the terminal, and wide where there is none."""
    from rich.console import Console

    class Piped(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # as every other write to it does

    if width is None and not (file or (sys.stderr if stderr else sys.stdout)).isatty():
        width = 160
    quiet = stderr and QUIET.get()
    return Piped(file=file, stderr=stderr, highlight=False, markup=False, soft_wrap=True, width=width, quiet=quiet)


def short(name: str) -> str:
    """An address or uuid as people compare it: both ends."""
    return name if len(name) <= 14 else f"{name[:8]}…{name[-4:]}"


class View(Protocol):
    """What changes while one looks at it: `whole` as it is now, `news` since it was shown last; `doing` says why one
    waits."""

    def __call__(self, whole: Sequence["str | Table"], news: Sequence[str], doing: str = "") -> None: ...


class Screen:
    """Where one verb prints."""

    def __init__(self, *, as_json: bool = False, talk: "Console | None" = None, data: "Console | None" = None) -> None:
        """`talk` is where bars are drawn, stderr unless given: print to it what is printed beside a bar."""
        self.as_json = as_json
        self._talk = talk or console(stderr=True)
        self._data = data or console()

    def head(self, network: str, account: str | None) -> None:
        """The first line of every verb that meets a network."""
        from importlib.metadata import version

        who = short(account) if account else "none"
        self.say(f"eigentensor {version('eigentensor')} · network {network} · account {who}")

    def say(self, text: "str | Table" = "") -> None:
        """Prints talk, to stderr unless another console was named."""
        self._talk.print(text)

    @contextmanager
    def hears(self) -> Iterator[None]:
        """Says whom the block waits for, gateway or node, where one does not answer soon."""
        token = ASKING.set(Asking(self.say))
        try:
            yield
        finally:
            ASKING.reset(token)

    @contextmanager
    def goes_on(self, *words: str) -> Iterator[None]:
        """Says how to go on if Ctrl-C ends the block."""
        try:
            yield
        except KeyboardInterrupt:
            for text in words:
                self.say(text)
            raise

    def result(self, schema: str, fields: Mapping[str, Any], *lines: "str | Table") -> None:
        """The verb's data: `fields` as one object of that schema, or the lines."""
        if self.as_json:
            sys.stdout.write(json.dumps({"schema": schema, **fields}) + "\n")
            sys.stdout.flush()
            return
        for line in lines:
            self._data.print(line)

    @contextmanager
    def work(self) -> Iterator[Bar]:
        """A bar in a terminal; elsewhere one line of talk whenever the text changes."""
        if self._talk.is_terminal:
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
            with Progress(*columns, console=self._talk, transient=True) as progress:
                task = progress.add_task("", total=None)

                def move(text: str, done: float | None = None, total: float | None = None) -> None:
                    progress.update(task, description=text, completed=done or 0, total=total)

                yield move
        else:
            last, lines = [""], console(stderr=True)

            def report(text: str, done: float | None = None, total: float | None = None) -> None:
                if text != last[0]:
                    last[0] = text
                    lines.print(text)

            yield report

    @contextmanager
    def view(self) -> Iterator[View]:
        """Data that is drawn anew in a terminal; elsewhere, unless it is told as JSON, its news, a line each."""
        if self.as_json or not self._data.is_terminal:
            last = [""]

            def report(whole: Sequence["str | Table"], news: Sequence[str], doing: str = "") -> None:
                for line in () if self.as_json else news:
                    self._data.print(line)
                if doing and doing != last[0]:
                    self.say(doing)
                last[0] = doing

            yield report
        else:
            from rich.console import Group
            from rich.live import Live
            from rich.spinner import Spinner

            spinner = Spinner("dots")
            with Live(console=self._data, refresh_per_second=8) as live:

                def draw(whole: Sequence["str | Table"], news: Sequence[str], doing: str = "") -> None:
                    spinner.update(text=doing)
                    live.update(Group(*whole, *([spinner] if doing else [])))

                yield draw


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> "Table":
    """Rows under a head, without frames: what `ps` and its like show."""
    from rich.table import Table

    shown = Table(*columns, box=None, pad_edge=False, header_style="bold", show_header=any(columns))
    for row in rows:
        shown.add_row(*row)
    return shown


def facts(rows: Sequence[Sequence[str]]) -> "Table":
    """Names and what they stand for: long values break within their own column."""
    from rich.table import Table

    shown = Table(box=None, pad_edge=False, show_header=False)
    shown.add_column(min_width=10, no_wrap=True)
    shown.add_column(overflow="fold")
    for row in rows:
        shown.add_row(*row)
    return shown
