"""Which elements of a call's result can differ where some elements of what it reads differ: boxes in, boxes out.

An element differs only through a load: down from the stored value, at each WHERE either the condition differs or the
chosen branch does, at each guarded load the guard, the index, or what is stored there. So with each load go the facts
that hold wherever its value reaches the result. To them come the box of the loaded tensor, as bounds of affine forms
along its axes, and what divisions mean; the loops' counters that satisfy all of this are narrowed down by interval
arithmetic. Nothing is assumed of what cannot be bounded: an index read from data may be any.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

from eigentensor.program.bounds import Prover
from eigentensor.program.conditions import facts_of
from eigentensor.program.forms import CONTRADICTION, Fact, Form, at_most
from eigentensor.program.intervals import Interval
from eigentensor.program.model import Body, Instruction, Program
from eigentensor.program.ops import COMPARISONS, NO_GUARD, DType, Op
from eigentensor.program.structure import operands
from eigentensor.regions.boxes import Box, Shape, merged, whole_box
from eigentensor.regions.narrowing import equal, meanings, narrow, quotient, quotients, replaced, settled


class Touch(NamedTuple):
    """Where one instruction can differ, and reach the result: counters of output ranges, and of reduce ranges."""

    instruction: int
    outputs: Box
    reduced: Box


def shape_of(program: Program, buffer: int) -> Shape:
    """The axes along which a buffer's boxes lie: those of its record, or the loops of the call that writes it."""
    first = len(program.buffers)
    if buffer < first:
        return program.buffers[buffer].shape or (1,)
    return program.bodies[program.calls[buffer - first].body].output_ranges or (1,)


def dirty(
    program: Program, changed: Mapping[int, Sequence[Box]], variables: Sequence[Interval] = ()
) -> dict[int, tuple[Box, ...]]:
    """Boxes outside of which no buffer of a valid program differs from a run before, in one iteration; by number.

    `changed` are boxes that contain all that differs in tensors that are given, `variables` the old and the new value
    of each of the program's variables, the smaller first.
    """
    regions = {number: tuple(boxes) for number, boxes in changed.items() if boxes}
    for number in range(len(program.calls)):
        if touches := touched(program, number, regions, variables):
            regions[len(program.buffers) + number] = merged(touch.outputs for touch in touches)
    return regions


def touched(
    program: Program, number: int, changed: Mapping[int, tuple[Box, ...]], variables: Sequence[Interval] = ()
) -> tuple[Touch, ...]:
    """What can differ in the result of one call, by the instruction through which it does."""
    call = program.calls[number]
    body = program.bodies[call.body]
    values = tuple(variables[v] for v in call.variables)
    boxes = tuple(changed.get(argument, ()) for argument in call.arguments)
    if not body.parameters[0].elements or not (any(boxes) or any(low != high for low, high in values)):
        return ()
    return _touched(body, tuple(shape_of(program, argument) for argument in call.arguments), boxes, values)


@lru_cache(maxsize=1024)
def _touched(
    body: Body, shapes: tuple[Shape, ...], changed: tuple[tuple[Box, ...], ...], values: tuple[Interval, ...]
) -> tuple[Touch, ...]:
    return tuple(Dependence.of(body, shapes).touches(changed, values))


class Axes(NamedTuple):
    """A form that is the place along some neighbouring axes of a tensor, in row-major order."""

    form: Form[int]
    first: int
    end: int


class Dependence:
    """What is known of a body whose parameters have these shapes, whatever differs."""

    def __init__(self, body: Body, shapes: tuple[Shape, ...]) -> None:
        self.body, self.shapes = body, shapes
        self.prover = Prover(body, [True] * len(body.instructions))
        self.prover.run()
        self.facts = meanings(self.prover)
        self.reached = self._reached()
        #: Of each load that has an influence, the facts that hold where it does, and its axes.
        self.read: dict[int, list[Fact]] = {}
        self.axes: dict[int, list[Axes]] = {}
        for n, i in enumerate(body.instructions):
            if i.op is Op.LOAD and (known := self.reached[n]) is not None:
                facts = [*known, *self._under_guard(i)]
                facts += quotients(self.prover, facts)
                meant = settled(self.prover, [*facts, *self.facts])
                elements = replaced(self.prover.forms[i.b], meant)
                self.axes[n] = max((self._along(e, shapes[i.a - 1], [*facts, *self.facts]) for e in elements), key=len)
                self.read[n] = [*facts, *(fact for v, of in meant.items() for fact in equal(self.prover.forms[v], of))]

    @staticmethod
    @lru_cache(maxsize=1024)
    def of(body: Body, shapes: tuple[Shape, ...]) -> "Dependence":
        """The same, found once."""
        return Dependence(body, shapes)

    def touches(self, changed: Sequence[Sequence[Box]], values: Sequence[Interval]) -> Iterable[Touch]:
        """Where the result can differ if the parameters differ in these boxes, and variables as `values` say."""
        moving = [low != high for low, high in values]
        for n, i in enumerate(self.body.instructions):
            reached = self.reached[n]
            if reached is None:
                continue
            if i.op is Op.LOAD:
                for box in changed[i.a - 1]:
                    yield from self._solve(n, [*self.read[n], *self._inside(n, box)], values)
            elif i.op is Op.VAR and moving[i.a]:
                yield from self._solve(n, reached, values)
            elif i.op in COMPARISONS and self._moves(difference := self._counted(i) or Form(0), moving):
                yield from self._solve(n, [*reached, *self._turning(i.op, difference, values)], values)

    def _solve(self, n: int, facts: Iterable[Fact], values: Sequence[Interval]) -> Iterable[Touch]:
        """Nothing if no counters satisfy the facts."""
        instructions, outputs = self.body.instructions, len(self.body.output_ranges)
        box = [values[i.a] if i.op is Op.VAR else known for i, known in zip(instructions, self.prover.box, strict=True)]
        if not narrow(box, [*facts, *self.facts]):
            return
        counters = list(whole_box(self.body.output_ranges))
        counters += [(0, max(0, self.prover.box[r.extent][1] - 1)) for r in self.body.reduce_ranges]
        for number, i in enumerate(instructions):
            if i.op is Op.RANGE:
                counters[i.a] = box[number]
        yield Touch(n, tuple(counters[:outputs]) or ((0, 0),), tuple(counters[outputs:]))

    def _reached(self) -> list[frozenset[Fact] | None]:
        """For each instruction the facts that hold wherever its value has an influence; None if it never has."""
        instructions = self.body.instructions
        facts: list[frozenset[Fact] | None] = [None] * len(instructions)
        facts[-1] = frozenset()
        for n in range(len(instructions) - 1, -1, -1):
            i, known = instructions[n], facts[n]
            if known is None or (i.op in COMPARISONS and self._counted(i) is not None):
                continue
            for place, value in enumerate(operands(self.body, i)):
                more: Sequence[Fact] = ()
                if i.op is Op.WHERE and place:
                    more = self._where(i.a, place == 1)
                elif i.op is Op.LOAD and place == 0:
                    more = self._under_guard(i)
                if CONTRADICTION not in more:
                    before = facts[value]
                    facts[value] = known.union(more) if before is None else before & known.union(more)
        return facts

    def _where(self, condition: int, holds: bool) -> list[Fact]:
        return facts_of(self.body.instructions, self.prover.forms, condition, holds)

    def _under_guard(self, load: Instruction) -> list[Fact]:
        return [] if load.c == NO_GUARD else self._where(load.c, True)

    def _along(self, element: Form[int], shape: Shape, known: Sequence[Fact]) -> list[Axes]:
        """The place of what is loaded along the axes of its tensor; several at once where an index carries over."""
        if CONTRADICTION in known:
            return []
        rest, axes = element, list[Axes]()
        for axis in range(len(shape)):
            stride = prod(shape[axis + 1 :])
            if not stride:
                return [*axes, Axes(rest, axis, len(shape))]
            whole, below = rest.split(stride)
            if (times := quotient(below, stride, known, self.prover.box)) is None:
                return [*axes, Axes(rest, axis, len(shape))]
            axes.append(Axes(whole.plus(Form(times)), axis, axis + 1))
            rest = below.plus(Form(-times * stride))
        return axes

    def _inside(self, load: int, box: Box) -> Iterable[Fact]:
        """That what is loaded lies in a box of its tensor."""
        shape = self.shapes[self.body.instructions[load].a - 1]
        for form, first, end in self.axes[load]:
            strides = [prod(shape[axis + 1 : end]) for axis in range(first, end)]
            low, high = (
                sum(box[axis][side] * s for axis, s in zip(range(first, end), strides, strict=True)) for side in (0, 1)
            )
            yield from at_most(form, high)
            yield from at_most(form.times(-1), -low)

    def _counted(self, comparison: Instruction) -> Form[int] | None:
        """The difference that is compared with zero, if counters and variables are all that it depends on."""
        dtype = self.body.instructions[comparison.a].dtype
        if dtype.is_float or dtype is DType.BOOL:
            return None
        difference = self.prover.forms[comparison.a].plus(self.prover.forms[comparison.b], -1)
        known = all(self.body.instructions[atom].op in (Op.RANGE, Op.VAR) for atom, _ in difference.terms)
        return difference if known else None

    def _turning(self, op: Op, difference: Form[int], values: Sequence[Interval]) -> Iterable[Fact]:
        """That a comparison holds for some of the variables' values and not for others."""
        fixed = Form(difference.constant, tuple(t for t in difference.terms if not self._is_variable(t[0])))
        moved = [(values[self._named(atom)], c) for atom, c in difference.terms if self._is_variable(atom)]
        low = sum(min(c * v for v in interval) for interval, c in moved)
        high = sum(max(c * v for v in interval) for interval, c in moved)
        yield from at_most(fixed, -low - (op is Op.CMPLT))
        yield from at_most(fixed.times(-1), high)

    def _moves(self, form: Form[int], moving: Sequence[bool]) -> bool:
        return any(self._is_variable(atom) and moving[self._named(atom)] for atom, _ in form.terms)

    def _is_variable(self, atom: int) -> bool:
        return self.body.instructions[atom].op is Op.VAR

    def _named(self, atom: int) -> int:
        return self.body.instructions[atom].a
