"""Bodies that write a box of a tensor and keep the rest of what it was: run over the box alone, in the old memory.

Such a body stores WHERE(c, new, old), old being the element of another tensor of the same shape that is stored, and c
bounds output axes by values that depend on no loop. Outside of those bounds the result is the old tensor.
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import product
from math import prod
from typing import NamedTuple

from eigentensor.numerics.dtypes import DType
from eigentensor.program.bounds import Prover
from eigentensor.program.conditions import facts_of
from eigentensor.program.forms import Form, atom
from eigentensor.program.model import Body, Instruction
from eigentensor.program.ops import NO_GUARD, REDUCTIONS, Op
from eigentensor.program.structure import cone
from eigentensor.runtime.bodies.part import Part
from eigentensor.runtime.bodies.rewriting import Rewriting

SHARE = 2  #: a box is at most the tensor's elements divided by this
WIDE = 1 << 60  #: what bounds are computed from is smaller


class Append(NamedTuple):
    """A body whose result is what `parameter` was, but for a box: `part` computes that, and reads only there.

    If the parameter lies in the memory of the result, a call of `part` gives what a call of the body does. The whole
    tensor must have been stored by a call: what comes from outside may have NaNs that a store would make canonical.
    """

    parameter: int
    part: Part


@lru_cache(maxsize=4096)
def append(body: Body) -> Append | None:
    """The append that a valid body is, if it is one; None also if its box may be more than a share of the tensor."""
    last, elements = body.instructions[-1], body.parameters[0].elements
    if last.op is not Op.WHERE or not elements:
        return None
    boxes = _Boxes(body)
    for new, old, holds in ((last.b, last.c, True), (last.c, last.b, False)):
        if new != old and boxes.is_kept(old):
            box = boxes.box(last.a, holds)
            extents = tuple(box[a].extent if a in box else extent for a, extent in enumerate(body.output_ranges))
            if prod(extents) * SHARE <= elements:
                with suppress(ValueError):
                    part = _Restriction(body, extents, box).body(place=body.instructions[old].b)
                    assert isinstance(part, Part)
                    return Append(body.instructions[old].a, part)
    return None


class _Side(NamedTuple):
    """The elements of an axis that a box has: so many from `start` on, moved to where they are inside of the axis."""

    start: Form[int]
    extent: int


class _Boxes:
    """What conditions say about the elements of a result."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.prover = Prover(body, [True] * len(body.instructions))
        self.prover.run()
        #: Which values depend on no loop, not even one that is over.
        self.fixed: list[bool] = []
        for i in body.instructions:
            self.fixed.append(i.op is not Op.RANGE and i.op not in REDUCTIONS and all(self.fixed[v] for v in i.values))

    def is_kept(self, old: int) -> bool:
        """Whether a value is the only load of a tensor like the result, at the element that is stored."""
        body, load = self.body, self.body.instructions[old]
        if load.op is not Op.LOAD or load.c != NO_GUARD or body.parameters[load.a] != body.parameters[0]:
            return False
        loads = sum(i.op is Op.LOAD and i.a == load.a for i in body.instructions)
        stored = {a: prod(body.output_ranges[a + 1 :]) for a, extent in enumerate(body.output_ranges) if extent > 1}
        form = self.prover.forms[load.b]
        counters = {body.instructions[atom]: c for atom, c in form.terms}
        strides = {i.a: c for i, c in counters.items() if i.op is Op.RANGE}
        return loads == 1 and not form.constant and len(strides) == len(form.terms) and strides == stored

    def box(self, condition: int, holds: bool) -> dict[int, _Side]:
        """The axes that a condition bounds to fewer elements than they have, where it holds, or where it does not."""
        of, bounds = self.body.instructions, dict[int, tuple[list[Form[int]], list[Form[int]]]]()
        for fact in facts_of(of, self.prover.forms, condition, holds):
            counters = [(of[atom].a, c) for atom, c in fact.terms if of[atom].op is Op.RANGE]
            rest = Form(fact.most, tuple((atom, -c) for atom, c in fact.terms if of[atom].op is not Op.RANGE))
            if len(counters) == 1 and self._is_small(rest):
                ((axis, sign),) = counters
                lows, highs = bounds.setdefault(axis, ([], []))
                if sign == 1:
                    highs.append(rest)
                elif sign == -1:
                    lows.append(rest.times(-1))
        extents = self.body.output_ranges
        sides = {axis: self._side(extents[axis], *of) for axis, of in bounds.items() if axis < len(extents)}
        return {axis: side for axis, side in sides.items() if side.extent < extents[axis]}

    def _side(self, extent: int, lows: list[Form[int]], highs: list[Form[int]]) -> _Side:
        """The shortest of what is between a lower and an upper bound."""
        pairs = product([*lows, Form[int](0)], [*highs, Form[int](extent - 1)])
        sizes = ((low, 1 + high.plus(low, -1).interval(self.prover.box)[1]) for low, high in pairs)
        return min((_Side(low, max(1, size)) for low, size in sizes), key=lambda side: side.extent)

    def _is_small(self, form: Form[int]) -> bool:
        """Whether a sum can be computed before any loop, and never grows large on the way."""
        sizes = (abs(c) * max(map(abs, self.prover.box[atom])) for atom, c in form.terms)
        return all(self.fixed[atom] for atom, _ in form.terms) and sum(sizes) < WIDE


class _Restriction(Rewriting):
    """A body whose output loops run over a box."""

    def __init__(self, old: Body, extents: tuple[int, ...], box: Mapping[int, _Side]) -> None:
        super().__init__(old, extents)
        self.starts = {axis: self.start(side, old.output_ranges[axis]) for axis, side in box.items()}

    def counter(self, instruction: Instruction) -> Form[int]:
        counted, start = super().counter(instruction), self.starts.get(instruction.a)
        return counted if start is None else counted.plus(atom(start))

    def start(self, side: _Side, extent: int) -> int:
        """The first element of a box along an axis of this extent; the box is always inside."""
        total: Form[int] = Form(side.start.constant)
        for of, count in side.start.terms:
            self.take(cone(self.old, [of]))
            total = total.plus(self.index_of(of), count)
        value = self.index(Op.MAX, self.written(total), self.constant(0))
        return self.index(Op.MIN, value, self.constant(extent - side.extent))

    def index_of(self, number: int) -> Form[int]:
        """An old value, which may be an integer, as an index."""
        if self.old.instructions[number].dtype is DType.INDEX:
            return self.forms[number]
        return atom(self.put(Instruction(Op.CAST, DType.INDEX, self.value(number))))
