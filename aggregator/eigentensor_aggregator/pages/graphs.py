"""The calls of a program as a drawing: a row for each level, a line from who writes to who reads. Pure.

Units are those of an SVG's view box. A program may have thousands of calls: some in a row are drawn at a time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eigentensor.program.model import Program
from eigentensor.program.text import summary

WINDOW = 120  #: calls that are drawn
WIDTH, HEIGHT = 184, 44  #: of a box
ACROSS, DOWN = 20, 34  #: between two boxes, and between two rows
COLUMNS = 6  #: boxes beside each other, before the next ones go below
_BOW = 0.78 * WIDTH  # of a curve that comes out beside a box
LETTERS = 25  #: of a line in a box


@dataclass(frozen=True, slots=True)
class Node:
    """A call as it is drawn: what it computes, which results of the program it gives, how many of its tensors come
    from outside the drawing."""

    number: int
    x: float
    y: float
    words: str
    results: tuple[str, ...]
    outside: int


@dataclass(frozen=True, slots=True)
class Edge:
    """From the bottom of who writes to the top of who reads; one that passes other rows makes a bow beside them."""

    x: float
    y: float
    to_x: float
    to_y: float

    @property
    def path(self) -> str:
        """As SVG draws it."""
        if self.to_y - self.y <= HEIGHT:
            middle = (self.y + self.to_y) / 2
            return f"M {self.x} {self.y} C {self.x} {middle}, {self.to_x} {middle}, {self.to_x} {self.to_y}"
        beside = max(self.x, self.to_x) + _BOW
        return f"M {self.x} {self.y} C {beside} {self.y + DOWN}, {beside} {self.to_y - DOWN}, {self.to_x} {self.to_y}"


@dataclass(frozen=True, slots=True)
class Graph:
    """Calls `first` to `last` of a program, and what they give to each other."""

    first: int
    last: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    width: float
    height: float


def graph(program: Program, first: int = 0) -> Graph:
    """The drawing of WINDOW calls of a valid program from one on."""
    last = min(first + WINDOW, len(program.calls)) - 1
    sources = {number: _sources(program, number) for number in range(first, last + 1)}
    within = {number: [s for s in of if s >= first] for number, of in sources.items()}
    places = dict(_places(within))
    nodes = tuple(
        Node(
            number,
            x,
            y,
            _fit(_words(program, number)),
            _results(program, number),
            len(sources[number]) - len(within[number]),
        )
        for number, (x, y) in places.items()
    )
    edges = tuple(_edge(places[source], places[number]) for number, of in within.items() for source in of)
    width = max((x for x, _ in places.values()), default=0.0) + WIDTH + DOWN
    height = max((y for _, y in places.values()), default=0.0) + HEIGHT + 2
    return Graph(first, last, nodes, edges, width, height)


def _sources(program: Program, number: int) -> list[int]:
    """The calls whose results a call reads."""
    buffers = len(program.buffers)
    return sorted({argument - buffers for argument in program.calls[number].arguments if argument >= buffers})


def _places(sources: dict[int, list[int]]) -> Iterator[tuple[int, tuple[float, float]]]:
    """Level by level; within one by where the sources stand, so that few lines cross."""
    levels: dict[int, int] = {}
    for number, of in sources.items():
        levels[number] = 1 + max((levels[source] for source in of), default=-1)
    rows: dict[int, list[int]] = {}
    for number, level in levels.items():
        rows.setdefault(level, []).append(number)
    y, across = 1.0, dict[int, float]()
    most = min(COLUMNS, max(map(len, rows.values()), default=1))
    for _, row in sorted(rows.items()):
        ordered = sorted(row, key=lambda n: (_mean([across[s] for s in sources[n]]), n))
        for start in range(0, len(ordered), COLUMNS):
            part = ordered[start : start + COLUMNS]
            left = 1 + (most - len(part)) * (WIDTH + ACROSS) / 2
            for place, number in enumerate(part):
                across[number] = left + place * (WIDTH + ACROSS)
                yield number, (across[number], y)
            y += HEIGHT + (DOWN if start + COLUMNS >= len(ordered) else 8)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _edge(source: tuple[float, float], reader: tuple[float, float]) -> Edge:
    return Edge(source[0] + WIDTH / 2, source[1] + HEIGHT, reader[0] + WIDTH / 2, reader[1])


def _words(program: Program, number: int) -> str:
    return summary(program.bodies[program.calls[number].body])


def _results(program: Program, number: int) -> tuple[str, ...]:
    own = len(program.buffers) + number
    return tuple(result.name for result in program.results if result.buffer == own)


def _fit(text: str) -> str:
    return text if len(text) <= LETTERS else f"{text[: LETTERS - 1]}…"
