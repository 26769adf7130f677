"""What a verb prints: talk goes to stderr, data to stdout; `--json` makes the data one versioned object.

Every verb imports this: Rich is imported when something is printed in a terminal.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from eigentensor.talk import DOING, QUIET, WAITS, Waits, callable_here
from eigentensor.version import VERSION
from eigentensor_client.tables import WIDE, Table, folded

if TYPE_CHECKING:
    from rich.console import Console

    from eigentensor_client.phases import Bar

_MOVES = dict.fromkeys(map(ord, "\a\b\v\f\r"))  # where a terminal shows it later they would move the cursor


class Plain:
    """Where there is no terminal: text as it is, a row of a table a line."""

    is_terminal = False

    def __init__(self, file: TextIO | None, *, stderr: bool, width: int, quiet: bool) -> None:
        """Writes to the file, or to what stdout or stderr is when something is printed."""
        self.width = width
        self._file, self._stderr, self._quiet = file, stderr, quiet

    def print(self, line: str | Table) -> None:
        """Writes a text, or the lines of a table, at once. Raises BrokenPipeError where nobody reads any more."""
        if self._quiet:
            return
        lines = line.lines(self.width) if isinstance(line, Table) else [line]
        stream = self._file or (sys.stderr if self._stderr else sys.stdout)
        _write(stream, "".join(f"{one.translate(_MOVES)}\n" for one in lines))


def console(*, stderr: bool = False, file: TextIO | None = None, width: int | None = None) -> "Console | Plain":
    """Prints text as it is, tables as wide as `width` or the terminal; where there is none, one row is one line."""
    quiet = stderr and QUIET.get()
    if not (file or (sys.stderr if stderr else sys.stdout)).isatty():
        return Plain(file, stderr=stderr, width=WIDE if width is None else width, quiet=quiet)
    from rich.console import Console  # who reads in no terminal does not wait for it

    class Piped(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # as every other write to it does

    return Piped(file=file, stderr=stderr, highlight=False, markup=False, soft_wrap=True, width=width, quiet=quiet)


def columns_of(stream: TextIO) -> int:
    """How many there are in the terminal that a stream leads to, or as many as one likes."""
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return WIDE


def short(name: str) -> str:
    """An address or uuid as people compare it: both ends."""
    return name if len(name) <= 14 else f"{name[:8]}…{name[-4:]}"


class View(Protocol):
    """What changes while one looks at it: `whole` as it is now, `news` since it was shown last; `doing` says why one
    waits."""

    def __call__(self, whole: Sequence[str | Table], news: Sequence[str], doing: str = "") -> None: ...


class Screen:
    """Where one verb prints."""

    def __init__(
        self, *, as_json: bool = False, talk: "Console | Plain | None" = None, data: "Console | Plain | None" = None
    ) -> None:
        """`talk` is where bars are drawn, stderr unless given: print to it what is printed beside a bar."""
        self.as_json = as_json
        self._talk = talk or console(stderr=True)
        self._data = data or console()

    def head(self, network: str, account: str | None) -> None:
        """The first line of every verb that meets a network."""
        who = short(account) if account else "none"
        self.say(f"eigentensor {VERSION} · network {network} · account {who}")

    def say(self, text: str | Table = "") -> None:
        """Prints talk, to stderr unless another console was named."""
        _put(self._talk, text)

    @contextmanager
    def names_waits(self) -> Iterator[None]:
        """Says whom the block waits for, gateway or node, where one does not answer soon."""
        token = WAITS.set(Waits(self.say))
        try:
            yield
        finally:
            WAITS.reset(token)

    @contextmanager
    def goes_on(self, *words: str) -> Iterator[None]:
        """Says how to go on if Ctrl-C ends the block."""
        try:
            yield
        except KeyboardInterrupt:
            for text in words:
                self.say(text)
            raise

    def result(self, schema: str, fields: Mapping[str, Any], *lines: str | Table) -> None:
        """The verb's data: `fields` as one object of that schema, or the lines."""
        if self.as_json:
            _write(sys.stdout, json.dumps({"schema": schema, **fields}) + "\n")
            return
        for line in lines:
            _put(self._data, line)

    @contextmanager
    def work(self) -> "Iterator[Bar]":
        """A bar in a terminal, which leaves a line for each phase; elsewhere a line of talk for each. What the library
        does meanwhile is shown, too."""
        from eigentensor_client.phases import Drawn, Written

        talk = self._talk
        bar = Written(console(stderr=True)) if isinstance(talk, Plain) or not talk.is_terminal else Drawn(talk)
        with bar:
            shown = DOING.set(bar.doing)
            try:
                yield bar
            finally:
                DOING.reset(shown)

    @contextmanager
    def view(self) -> Iterator[View]:
        """Data that is drawn anew in a terminal; elsewhere, unless it is told as JSON, its news, a line each."""
        if self.as_json or isinstance(self._data, Plain) or not self._data.is_terminal:
            last = [""]

            def report(whole: Sequence[str | Table], news: Sequence[str], doing: str = "") -> None:
                for line in () if self.as_json else news:
                    _put(self._data, line)
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

                def draw(whole: Sequence[str | Table], news: Sequence[str], doing: str = "") -> None:
                    spinner.update(text=doing)
                    live.update(Group(*whole, *([spinner] if doing else [])))

                yield draw


def _write(stream: TextIO, text: str) -> None:
    """Writes at once. A broken pipe raises BrokenPipeError without a number: at that of the system Typer exits."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        raise BrokenPipeError from None


def _put(console: "Console | Plain", line: str | Table) -> None:
    """Prints for people: commands can be called as they stand, lines of a terminal end between words."""
    if isinstance(line, Table):
        console.print(line)
    else:
        for part in folded(callable_here(line), console.width):
            console.print(part)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Rows under a head, without frames: what `ps` and its like show."""
    return Table(rows, columns if any(columns) else ())


def facts(rows: Sequence[Sequence[str]]) -> Table:
    """Names and what they stand for: long values break within their own column."""
    return Table(rows, least=10)
