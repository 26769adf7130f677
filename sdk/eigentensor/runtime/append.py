"""Bodies that write a box of a tensor and keep the rest of what it was: run over the box alone, in the old memory.

Such a body stores WHERE(c, new, old), old being the element of another tensor of the same shape that is stored, and c
bounds output axes by values that depend on no loop. Outside of those bounds the result is the old tensor.
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property, lru_cache
from itertools import product
from math import prod
from typing import NamedTuple

from eigentensor.numerics.dtypes import DType
from eigentensor.program.bounds import TERMS
from eigentensor.program.conditions import facts_of
from eigentensor.program.forms import Form
from eigentensor.program.model import Body, Instruction
from eigentensor.program.ops import NO_GUARD, REDUCTIONS, Op
from eigentensor.program.structure import cone
from eigentensor.runtime.analysis import ANYTHING, INTEGERS, Analysis, signed
from eigentensor.runtime.joining import with_operands
from eigentensor.runtime.part import Part

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
    affine = _Affine(body)
    for new, old, holds in ((last.b, last.c, True), (last.c, last.b, False)):
        if new != old and affine.is_kept(old):
            box = affine.box(last.a, holds)
            extents = tuple(box[a].extent if a in box else extent for a, extent in enumerate(body.output_ranges))
            if prod(extents) * SHARE <= elements:
                with suppress(ValueError):
                    return Append(body.instructions[old].a, _Restriction(body, box, extents).part(old))
    return None


class _Side(NamedTuple):
    """The elements of an axis that a box has: so many from `start` on, moved to where they are inside of the axis."""

    start: Form
    extent: int


class _Affine(Analysis):
    """What is known of the indices of a body as sums of multiples of other values."""

    @cached_property
    def forms(self) -> list[Form]:
        """Of indices, and of integers that indices were cast to; any other value is one of its own."""
        forms: list[Form] = []
        for number in range(len(self.body.instructions)):
            form = self._sum(number, forms)
            few = (
                form is not None and len(form.terms) <= TERMS and max(map(abs, (0, *dict(form.terms).values()))) < WIDE
            )
            forms.append(form if form is not None and few else Form(0, ((number, 1),)))
        return forms

    def _sum(self, number: int, forms: list[Form]) -> Form | None:
        i = self.body.instructions[number]
        of = [forms[v] for v in i.values]
        if i.op is Op.CONST and (i.dtype.is_integer or i.dtype is DType.INDEX):
            return Form(signed(i))
        if i.op is Op.CAST and self._is_exact(number):
            return of[0]
        if i.dtype is DType.INDEX and i.op in (Op.ADD, Op.SUB):
            return of[0].plus(of[1], 1 if i.op is Op.ADD else -1)
        if i.dtype is DType.INDEX and i.op is Op.MUL and not (of[0].terms and of[1].terms):
            one, other = of if not of[0].terms else reversed(of)
            return other.times(one.constant)
        return None

    def _is_exact(self, cast: int) -> bool:
        """Whether a CAST keeps an integer as it is."""
        target, source = (self.body.instructions[n].dtype for n in (cast, self.body.instructions[cast].a))
        (low, high), inside = INTEGERS.get(target, ANYTHING), self.intervals[self.body.instructions[cast].a]
        integers = all(t.is_integer or t is DType.INDEX for t in (target, source))
        return integers and low <= inside[0] and inside[1] <= high

    def is_kept(self, old: int) -> bool:
        """Whether a value is the only load of a tensor like the result, at the element that is stored."""
        body, load = self.body, self.body.instructions[old]
        if load.op is not Op.LOAD or load.c != NO_GUARD or body.parameters[load.a] != body.parameters[0]:
            return False
        loads = sum(i.op is Op.LOAD and i.a == load.a for i in body.instructions)
        stored = {a: prod(body.output_ranges[a + 1 :]) for a, extent in enumerate(body.output_ranges) if extent > 1}
        form = self.forms[load.b]
        counters = {body.instructions[atom]: c for atom, c in form.terms}
        found = {i.a: c for i, c in counters.items() if i.op is Op.RANGE}
        return loads == 1 and not form.constant and len(found) == len(form.terms) and found == stored

    def box(self, condition: int, holds: bool) -> dict[int, _Side]:
        """The axes that a condition bounds to fewer elements than they have, where it holds, or where it does not."""
        of, bounds = self.body.instructions, dict[int, tuple[list[Form], list[Form]]]()
        for fact in facts_of(of, self.forms, condition, holds):
            counters = [(of[atom].a, c) for atom, c in fact.terms if of[atom].op is Op.RANGE]
            rest = Form(fact.most, tuple((atom, -c) for atom, c in fact.terms if of[atom].op is not Op.RANGE))
            if len(counters) == 1 and self._is_small(rest):
                ((axis, sign),) = counters
                lows, highs = bounds.setdefault(axis, ([], []))
                if sign == 1:
                    highs.append(rest)
                elif sign == -1:
                    lows.append(rest.times(-1))
        sides = {axis: self._side(axis, *of) for axis, of in bounds.items() if axis < self.outputs}
        return {axis: side for axis, side in sides.items() if side.extent < self.extents[axis]}

    def _side(self, axis: int, lows: list[Form], highs: list[Form]) -> _Side:
        """The shortest of what is between a lower and an upper bound."""
        pairs = product([*lows, Form(0)], [*highs, Form(self.extents[axis] - 1)])
        sizes = ((low, 1 + high.plus(low, -1).interval(self.intervals)[1]) for low, high in pairs)
        return min((_Side(low, max(1, size)) for low, size in sizes), key=lambda side: side.extent)

    def _is_small(self, form: Form) -> bool:
        """Whether a sum can be computed before any loop, and never grows large on the way."""
        sizes = (abs(c) * max(map(abs, self.intervals[atom])) for atom, c in form.terms)
        return all(self._fixed[atom] for atom, _ in form.terms) and sum(sizes) < WIDE

    @cached_property
    def _fixed(self) -> list[bool]:
        """Which values depend on no loop, not even one that is over."""
        fixed: list[bool] = []
        for i in self.body.instructions:
            fixed.append(i.op is not Op.RANGE and i.op not in REDUCTIONS and all(fixed[v] for v in i.values))
        return fixed


class _Restriction:
    """A body whose output loops run over a box."""

    def __init__(self, body: Body, box: Mapping[int, _Side], extents: tuple[int, ...]) -> None:
        self.old, self.extents = body, extents
        self.instructions: list[Instruction] = []
        self.places: dict[int, int] = {}
        starts = {axis: self.start(side, body.output_ranges[axis]) for axis, side in box.items()}
        for number, instruction in enumerate(body.instructions[:-1]):
            self.take(number)
            if instruction.op is Op.RANGE and instruction.a in starts:
                self.places[number] = self.index(Op.ADD, self.places[number], starts[instruction.a])
        self.put(with_operands(body.instructions[-1], self.places))

    def part(self, old: int) -> Part:
        body = self.old
        ranges = tuple(r._replace(extent=self.places[r.extent]) for r in body.reduce_ranges)
        place = self.places[body.instructions[old].b]
        return Part(body.parameters, tuple(self.instructions), self.extents, ranges, body.variables, place)

    def start(self, side: _Side, extent: int) -> int:
        """The first element of a box along an axis of this extent; the box is always inside."""
        total = self.constant(side.start.constant)
        for atom, count in side.start.terms:
            for number in cone(self.old, [atom]):
                self.take(number)
            value = self.places[atom]
            if self.old.instructions[atom].dtype is not DType.INDEX:
                value = self.put(Instruction(Op.CAST, DType.INDEX, value))
            total = self.index(Op.ADD, total, self.index(Op.MUL, value, self.constant(count)))
        total = self.index(Op.MAX, total, self.constant(0))
        return self.index(Op.MIN, total, self.constant(extent - side.extent))

    def take(self, number: int) -> None:
        """Gives a value its new number; those that it is computed from have theirs."""
        if number not in self.places:
            self.places[number] = self.put(with_operands(self.old.instructions[number], self.places))

    def index(self, op: Op, a: int, b: int) -> int:
        return self.put(Instruction(op, DType.INDEX, a, b))

    def constant(self, value: int) -> int:
        if not -(1 << 31) <= value < 1 << 31:
            raise ValueError("an index needs a constant of more than 32 bits")
        return self.put(Instruction(Op.CONST, DType.INDEX, 0, value & 0xFFFF, value >> 16 & 0xFFFF))

    def put(self, instruction: Instruction) -> int:
        self.instructions.append(instruction)
        return len(self.instructions) - 1
