"""The two trees of a game as drawings: levels as rows, and lines from what is rejected to what lies below it. Pure.

Units are those of an SVG's view box; templates draw them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from eigentensor.chain.transcript import Value
from eigentensor_aggregator.pages.descents import Cell, Level, Stance

WIDTH, ROW, BOX = 440, 92, 48  #: of a drawing, from row to row, and of the boxes in one
TITLE = 18  #: from the top of a row to its boxes
GAP, SPACE = 26, 6  #: where parts are left out, and between two boxes
LETTERS = 10  #: of a value in a box
BOXES = 5  #: in a row at most: the first, the last, and those around what is rejected

Tree = Literal["executor", "challenger"]


@dataclass(frozen=True, slots=True)
class Box:
    """A part as it is drawn: `whole` is what it says to who points at it."""

    x: float
    width: float
    label: str
    text: str
    detail: str
    whole: str
    stance: Stance


@dataclass(frozen=True, slots=True)
class Left:
    """Parts that are left out between two boxes."""

    x: float
    many: int


@dataclass(frozen=True, slots=True)
class Row:
    """A level as it is drawn; `way` is the middle of what is rejected, None where nothing is."""

    y: float
    title: str
    boxes: tuple[Box, ...]
    left_out: tuple[Left, ...]
    way: float | None

    @property
    def ends(self) -> tuple[float, float]:
        """Where the row begins and ends."""
        return self.boxes[0].x, self.boxes[-1].x + self.boxes[-1].width


@dataclass(frozen=True, slots=True)
class Drawing:
    """A tree of one side, and what it says in words."""

    tree: Tree
    rows: tuple[Row, ...]
    words: str
    width: float = field(default=WIDTH, init=False)

    @property
    def height(self) -> float:
        """Of all rows."""
        return ROW * len(self.rows) - (ROW - TITLE - BOX) + 4

    @property
    def fans(self) -> Iterator[tuple[float, float, float, float, float]]:
        """From what is rejected in a row to the one below: x and y above, y below, and the ends there."""
        for above, below in pairwise(self.rows):
            if above.way is not None:
                yield above.way, above.y + TITLE + BOX, below.y + TITLE, *below.ends


def drawing(tree: Tree, levels: Sequence[Level], own: bytes | None = None, computed: Value | None = None) -> Drawing:
    """The tree that the executor opened, or what its challenger says of it: `own` is the outputs root that the
    challenger itself revealed, if it did, and `computed` what a referee found where the challenger was right."""
    last = len(levels) - 1
    others = [own, *[None] * (last - 1), computed] if last else [own]
    rows = tuple(_row(n, level, tree, other) for n, (level, other) in enumerate(zip(levels, others, strict=True)))
    return Drawing(tree, rows, _words(tree, levels))


def _row(number: int, level: Level, tree: Tree, other: bytes | Value | None) -> Row:
    chosen = _shown(len(level.cells), level.chosen)
    gaps = sum(b - a > 1 for a, b in pairwise(chosen))
    width = min(108.0, (WIDTH - GAP * gaps - SPACE * (len(chosen) - 1)) / len(chosen))
    whole = width * len(chosen) + SPACE * (len(chosen) - 1) + GAP * gaps
    x, boxes, left, before, way = (WIDTH - whole) / 2, list[Box](), list[Left](), -1, None
    for place in chosen:
        if boxes:
            x += SPACE
        if place - before > 1:
            left.append(Left(x + (GAP - SPACE) / 2, place - before - 1))
            x += GAP
        boxes.append(_box(x, width, level.cells[place], tree, other))
        if place == level.chosen:
            way = x + width / 2
        x, before = x + width, place
    return Row(2 + ROW * number, level.title, tuple(boxes), tuple(left), way)


def _shown(count: int, chosen: int | None) -> list[int]:
    """The places that are drawn."""
    if count <= BOXES:
        return list(range(count))
    middle = 1 if chosen is None else chosen
    around = range(max(0, min(middle - 1, count - 3)), min(count, max(middle + 2, 3)))
    return sorted({0, *around, count - 1})


def _box(x: float, width: float, cell: Cell, tree: Tree, other: bytes | Value | None) -> Box:
    if tree == "challenger":
        return Box(x, width, cell.label, *_said(cell, other), cell.stance)
    return Box(x, width, cell.label, *_claimed(cell.claim), cell.stance)


def _claimed(claim: bytes | Value) -> tuple[str, str, str]:
    if isinstance(claim, bytes):
        name = f"0x{claim.hex()}"
        return f"{name[:8]}…", "", name
    return _fit(claim["value"]), claim["bits"], f"{claim['value']}, {claim['dtype']} {claim['bits']}"


def _fit(value: str) -> str:
    """A value so that a box has room for it."""
    return value if len(value) <= LETTERS else f"{float(value):.4g}"


def _said(cell: Cell, other: bytes | Value | None) -> tuple[str, str, str]:
    match cell.stance:
        case Stance.AGREES:
            return "the same", "", f"{cell.label}: the challenger has the same"
        case Stance.REJECTS if other is not None:
            return _claimed(other)
        case Stance.REJECTS:
            return "another", "", f"{cell.label}: the first that the challenger has otherwise"
        case Stance.SILENT:
            return "–", "", f"{cell.label}: the challenger named one before it"
        case _:
            return "?", "", f"{cell.label}: the challenger has not answered yet"


def _words(tree: Tree, levels: Sequence[Level]) -> str:
    verb = "opened" if tree == "executor" else "answered"
    parts = []
    for level in levels:
        what = f"{len(level.cells):,} parts" if len(level.cells) > 1 else "1 part"
        rejected = "" if level.chosen is None else f", of which {level.cells[level.chosen].label} is rejected"
        parts.append(f"{level.title}: {what}{rejected}")
    return f"What the {tree} {verb}. " + "; ".join(parts) + "."
