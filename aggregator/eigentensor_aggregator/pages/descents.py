"""The way down of a game as levels: what the executor opened on each, and what the challenger says of it. Pure.

A challenger publishes no hashes of its own. It names the first part that it rejects: with that it says that it agrees
with all before, and nothing of those after.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from eigentensor.abi import decode
from eigentensor.chain.transcript import Value, typed
from eigentensor.dispute.encoding import unpacked
from eigentensor.dispute.entries import Shown, elements_of, reduction_types
from eigentensor.dispute.judged import Judged
from eigentensor.dispute.position import FINAL, Phase, Position
from eigentensor.dispute.rules import borders_of
from eigentensor.numerics.dtypes import DType
from eigentensor.task.events import Moved, Opened


class Stance(StrEnum):
    """What the challenger says of a part that the executor claims."""

    OPEN = "open"  # nothing yet
    AGREES = "agrees"
    REJECTS = "rejects"
    SILENT = "silent"  # it named one before


@dataclass(frozen=True, slots=True)
class Cell:
    """A part of a level: its name, and what the executor claims of it, a hash or a value."""

    label: str
    claim: bytes | Value
    stance: Stance = Stance.OPEN


@dataclass(frozen=True, slots=True)
class Level:
    """Parts that were opened at once, in order; `chosen` is the place of the one that the challenger rejects."""

    title: str
    cells: tuple[Cell, ...]
    chosen: int | None = None

    def with_choice(self, place: int | None) -> "Level":
        """The level once the challenger has named the first part that it rejects."""
        if place is None or not 0 <= place < len(self.cells):
            return self
        stances = [Stance.AGREES] * place + [Stance.REJECTS] + [Stance.SILENT] * (len(self.cells) - place - 1)
        cells = tuple(replace(cell, stance=stance) for cell, stance in zip(self.cells, stances, strict=True))
        return replace(self, cells=cells, chosen=place)


def levels(claimed: bytes, happened: Sequence[Opened | Moved], judged: Judged | None = None) -> list[Level]:
    """The levels of a game, from the outputs root that the executor `claimed` down to what is disputed now.

    `happened` are the opening and the moves so far; with the step that was `judged` the way goes down to it.
    """
    found = [Level("the result", (Cell("outputs root", claimed),)).with_choice(0)]
    before, leaf = happened[0].position, b""
    for move in happened[1:]:
        assert isinstance(move, Moved)
        if move.data:
            found.append(_opened(before, move.position, move.data))
            leaf = move.data if before.phase is Phase.LEAF else leaf
        else:
            found[-1:] = _picked(found[-1], before, move.position, leaf)
        before = move.position
    if judged is not None and before.phase is not Phase.VERDICT:
        found[-1:] = _picked(found[-1], before, judged.position, leaf)
    return found


def _opened(before: Position, after: Position, data: bytes) -> Level:
    match before.phase:
        case Phase.PUBLISH | Phase.TRACE:
            return _of_trace(after, decode(["bytes32[]"], data)[0])
        case Phase.TREE:
            return _of_tensor(after, decode(["bytes32[]"], data)[0])
        case Phase.OUTPUTS:
            outputs, states = decode(["bytes32[]", "bytes32[]"], data)
            cells = [Cell(f"output {n}", root) for n, root in enumerate(outputs)]
            return Level("the results by name", (*cells, *(Cell(f"state {n}", root) for n, root in enumerate(states))))
        case Phase.LEAF:
            return _of_leaf(_shown(after, data))
        case _:
            return _of_borders(before, decode(["bytes"], data)[0])


def _of_trace(p: Position, nodes: Sequence[bytes]) -> Level:
    bottom, last = p.level - p.opened, p.elements - 1  # the last leaf is the outputs root
    first = p.index << p.opened
    labels = (_numbers("call", n << bottom, min((n + 1 << bottom) - 1, last)) for n in range(first, first + len(nodes)))
    cells = [Cell(label, node) for label, node in zip(labels, nodes, strict=True)]
    if not bottom and first + len(nodes) > last:
        cells[-1] = replace(cells[-1], label="outputs root")
    return Level("results of executed calls" if not bottom else "executed calls, by parts", tuple(cells))


def _of_tensor(p: Position, nodes: Sequence[bytes]) -> Level:
    bottom, first = p.level - p.opened, p.index << p.opened
    each = 1024 // DType(p.dtype).size
    last = -(-p.elements // each) - 1
    cells = [
        Cell(_numbers("leaf", n << bottom, min((n + 1 << bottom) - 1, last)), node)
        for n, node in enumerate(nodes, first)
    ]
    return Level(f"the tensor of call {p.number:,}, by parts", tuple(cells))


def _shown(p: Position, data: bytes) -> Shown:
    leaf, results = decode(["bytes", "bytes"], data)
    return Shown(p, leaf, results)


def _of_leaf(shown: Shown) -> Level:
    dtype = DType(shown.position.dtype)
    cells = [Cell(f"[{element:,}]", typed(dtype, shown.pattern(element))) for element in shown.elements]
    return Level(f"elements of leaf {shown.position.index:,}", tuple(cells))


def _of_borders(p: Position, values: bytes) -> Level:
    dtype, borders = reduction_types(p)[p.reduction], borders_of(p)
    ends = [*borders, p.high]
    claims = [*unpacked([dtype] * len(borders), values), p.high_value]
    cells = [Cell(f"after {end:,}", typed(dtype, claim)) for end, claim in zip(ends, claims, strict=True)]
    return Level(f"reduction {p.reduction}, steps {p.low:,} to {p.high:,}: the accumulator", tuple(cells))


def _picked(level: Level, before: Position, after: Position, leaf: bytes) -> Iterator[Level]:
    """The level with what the challenger picked on it, and those below which that opens."""
    below = before.level - before.opened  # levels below the nodes that are open
    match before.phase:
        case Phase.CALL if after.phase is Phase.OUTPUTS:
            yield level
        case Phase.NODE | Phase.CALL if before.phase is Phase.NODE or after.phase is Phase.TRACE:
            yield level.with_choice((after.index << after.level >> below) - (before.index << before.opened))
        case Phase.CALL:
            yield level.with_choice((after.number >> below) - (before.index << before.opened))
            if after.phase is Phase.VERDICT:
                yield from _elements(after)
        case Phase.ELEMENT:
            yield level.with_choice(after.element - elements_of(before).start)
            yield from _reductions(_shown(before, leaf), after)
        case Phase.SPAN:
            yield level.with_choice([*borders_of(before), before.high].index(after.high))
        case _:
            yield level


def _elements(p: Position) -> Iterator[Level]:
    """One element of a leaf that the challenger showed itself, with the value that the executor gave out."""
    yield Level(f"leaf {p.index:,} of call {p.number:,}", (Cell(f"[{p.element:,}]", _claim(p)),)).with_choice(0)


def _reductions(shown: Shown, p: Position) -> Iterator[Level]:
    """What of an element is disputed, where there are reductions: the first wrong one, or what was made of them."""
    types = reduction_types(p)
    if not types:
        return
    claims = zip(types, unpacked(types, shown.results_of(p.element)), strict=True)
    cells = [Cell(f"reduction {n}", typed(dtype, claim)) for n, (dtype, claim) in enumerate(claims)]
    stored = Cell("the element", typed(DType(p.dtype), shown.pattern(p.element)))
    chosen = len(types) if p.reduction == FINAL else p.reduction
    yield Level(f"element [{p.element:,}]", (*cells, stored)).with_choice(chosen)


def _claim(p: Position) -> Value:
    """What the executor claims at the disputed point."""
    dtype = DType(p.dtype) if p.reduction == FINAL else reduction_types(p)[p.reduction]
    return typed(dtype, p.high_value)


_PLURALS = {"call": "calls", "leaf": "leaves"}


def _numbers(word: str, first: int, last: int) -> str:
    return f"{word} {first:,}" if first == last else f"{_PLURALS[word]} {first:,}–{last:,}"
