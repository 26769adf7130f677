"""How far down a game is: which part of a result is disputed, as numbers and as words. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from eigentensor.dispute.entries import reduction_types
from eigentensor.dispute.position import FINAL, Phase, Position
from eigentensor.merkle import LEAF, NOTHING
from eigentensor.numerics.dtypes import DType
from eigentensor.wire import Object

#: Parts of a result, from the whole down to a step of a reduction.
PARTS = ("calls", "call", "leaves", "leaf", "element", "reduction", "expression", "steps")
_SHOWN = (Phase.BORDERS, Phase.SPAN, Phase.VERDICT)


@dataclass(frozen=True, slots=True)
class Part(Object):
    """A part of a result that is disputed."""

    part: Literal["calls", "call", "leaves", "leaf", "element", "reduction", "expression", "steps"]
    """What the numbers count."""
    first: int
    """The first one."""
    last: int
    """The last one."""
    of: int | None = None
    """How many there are, where that is known."""
    elements: tuple[int, ...] | None = None
    """The first and the last element of these leaves; null for other parts."""


def descended(positions: Iterable[Position]) -> list[Part]:
    """The way down that a game's positions took, in order: a part appears once for each time that it got narrower."""
    first: dict[tuple[str, int, int], Part] = {}
    for position in positions:
        for part in parts(position):
            first.setdefault((part.part, part.first, part.last), part)
    way = sorted(first.values(), key=lambda part: PARTS.index(part.part))
    whole = {"call": "calls", "steps": "steps"}  # a position keeps how many there are only while all are disputed
    many = {name: next((part.last + 1 for part in way if part.part == all_), None) for name, all_ in whole.items()}
    return [replace(part, of=many.get(part.part, part.of)) for part in way]


def parts(position: Position) -> list[Part]:
    """What is disputed in a position, from the executed calls down; nothing before they were published."""
    if position.kernel == NOTHING:
        return [_calls(position)] if position.elements > 1 else []
    way = [Part("call", position.number, position.number)]
    if position.elements:
        way.append(_leaves(position))
    if position.phase not in _SHOWN:
        return way
    way.append(Part("element", position.element, position.element, position.elements))
    if position.reduction == FINAL:
        return [*way, Part("expression", 0, 0)]
    way.append(Part("reduction", position.reduction, position.reduction, len(reduction_types(position))))
    return [*way, Part("steps", position.low, position.high - 1)]


def about(position: Position) -> str:
    """What is disputed in a position, in words."""
    if position.kernel == NOTHING:
        calls = _calls(position)
        if position.phase is not Phase.TRACE and not calls.first:
            return "the whole result"
        return "the outputs root" if calls.first == calls.of else f"executed calls {calls.first} to {calls.last}"
    call = f"executed call {position.number}"
    if position.phase in (Phase.TREE, Phase.NODE):
        return f"{call}, node {position.index} at level {position.level} of its tensor"
    if position.phase not in _SHOWN:
        return f"{call}, leaf {position.index} of its tensor"
    element = f"{call}, element {position.element}"
    if position.reduction == FINAL:
        return f"{element}, the final expression"
    return f"{element}, reduction {position.reduction}, steps {position.low} to {position.high}"


def _calls(position: Position) -> Part:
    """Those below the disputed node of the trace; the leaf after the last one is the outputs root."""
    count = position.elements - 1
    first = position.index << position.level
    return Part("calls", first, max(first, min(first + (1 << position.level), count) - 1), count)


def _leaves(position: Position) -> Part:
    """The leaves below the disputed node, and the elements in them."""
    each = LEAF // DType(position.dtype).size
    count = -(-position.elements // each)
    first = position.index << position.level
    last = min(first + (1 << position.level), count) - 1
    elements = first * each, min((last + 1) * each, position.elements) - 1
    return Part("leaves" if position.level else "leaf", first, last, count, elements)
