"""Texts and tables in lines of a width: broken between words in a terminal, one row one line where there is none."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from eigentensor.talk import callable_here

WIDE = 1_000_000  # columns where nobody's terminal limits them
_GAP = "  "
_WHOLE = 16  # characters of a cell that is not broken, if there is any other way
_LEAST = 8  # columns that are left to a cell, whatever its words are
_TOGETHER = re.compile(r"`[^`]*`|\((?:about )?[\d.]+ \w+\)")
_GLUE = "\N{NO-BREAK SPACE}"


def folded(text: str, width: int) -> list[str]:
    """A text in lines of at most `width` columns. Commands in backticks, which are copied, stay whole if they fit, and
    so do times; lines that are indented, listings and commands, stay as they are."""
    lines: list[str] = []
    for line in text.split("\n"):
        if len(line) <= width or line.startswith(_GAP):
            lines.append(line)
        else:
            parts = textwrap.wrap(_glued(line, width), width, break_on_hyphens=False)
            lines += [part.replace(_GLUE, " ") for part in parts]
    return lines


def _glued(text: str, width: int = WIDE) -> str:
    def whole(match: re.Match[str]) -> str:
        return match[0].replace(" ", _GLUE) if len(match[0]) <= width else match[0]

    return _TOGETHER.sub(whole, text)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under a head, if there is one, without frames; `least` is the width of the first column."""

    rows: Sequence[Sequence[str]]
    head: Sequence[str] = ()
    least: int = 0

    def lines(self, width: int = WIDE) -> list[str]:
        """The table's lines, the head's first: cells are broken only where the rows are wider than `width`."""
        return [line for part in self._parts(width) for line in part]

    def _parts(self, width: int) -> tuple[list[str], list[str]]:
        head = [[callable_here(cell) for cell in self.head]] if self.head else []
        rows = [[callable_here(cell) for cell in row] for row in self.rows]
        widths = _widths(head, rows, self.least, width)
        return list(_drawn(head, widths)), list(_drawn(rows, widths))

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text

        for lines, style in zip(self._parts(options.max_width), ("bold", ""), strict=True):
            yield from (Text(line, style, no_wrap=True, overflow="ignore") for line in lines)


def _widths(head: list[list[str]], rows: list[list[str]], least: int, width: int) -> list[int]:
    """A width for each column: the widest ones give way, first in long cells at the ends of words,
    and within words at last."""
    columns = list(zip_longest(*head, *rows, fillvalue=""))
    widths = [max(map(len, cells)) for cells in columns]
    widths[:1] = [max(least, first) for first in widths[:1]]
    room = width - len(_GAP) * (len(columns) - 1)
    words = [max(map(_longest, map(_glued, cells))) for cells in columns]
    whole = [max(word, *map(_short, cells[len(head) :]), 0) for word, cells in zip(words, columns, strict=True)]
    plain = [max(map(_longest, cells)) for cells in columns]
    for bounds in (whole, words, plain, [_LEAST] * len(columns)):
        while sum(widths) > room and (wide := [n for n, bound in enumerate(bounds) if widths[n] > bound]):
            widths[max(wide, key=lambda n: widths[n])] -= 1
    return widths


def _longest(text: str) -> int:
    return max(map(len, re.split("[ \n]", text)))


def _short(cell: str) -> int:
    return len(cell) if len(cell) <= _WHOLE else 0


def _drawn(rows: list[list[str]], widths: list[int]) -> Iterator[str]:
    for row in rows:
        cells = [folded(cell, width) for cell, width in zip(row, widths, strict=False)]
        for parts in zip_longest(*cells, fillvalue=""):
            yield _GAP.join(f"{part:<{width}}" for part, width in zip(parts, widths, strict=False)).rstrip()
