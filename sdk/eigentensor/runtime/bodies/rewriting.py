"""Bodies made anew: with simpler indices, and with two output axes as one loop, where neighbours are found to be."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from math import prod

from eigentensor.numerics.dtypes import DType
from eigentensor.program.forms import Form, atom, linear, recombined
from eigentensor.program.model import Body, Instruction
from eigentensor.program.ops import REDUCTIONS, Op
from eigentensor.runtime.bodies.part import Part

MOST = 8  #: times as long as before a body may become, with what is dropped in the end
DIVISIONS = frozenset({Op.FLOORDIV, Op.FLOORMOD})


def join(body: Body, axes: tuple[int, ...]) -> Body:
    """A body that computes the same elements in the same order, with each of these axes in one loop with that before.

    Without axes only its indices are simpler. Raises ValueError if axes cannot be joined: an index would need a
    constant of more than 32 bits, or the body would become much longer.
    """
    with suppress(ValueError):
        body = Rewriting(body, body.output_ranges).body()
    for axis in sorted(axes, reverse=True):
        body = _Joining(body, axis).body()
    return body


def simple_joins(body: Body) -> tuple[int, ...]:
    """The axes that can be joined without a division: what is read along both is read along one."""
    axes: list[int] = []
    for axis in range(len(body.output_ranges) - 1, 0, -1):
        try:
            joined = _Joining(body, axis).body()
        except ValueError:
            continue
        if _divisions(joined) <= _divisions(body):
            axes.append(axis)
            body = joined
    return tuple(sorted(axes))


def _divisions(body: Body) -> int:
    return sum(instruction.op in DIVISIONS for instruction in body.instructions)


class Rewriting:
    """A body over these output ranges that computes what an old one does where `counter` says what the old counts.

    Indices are forms of new values, so that (i // n)·n + i % n is found to be i; each is written out where it is used.
    """

    def __init__(self, old: Body, output_ranges: tuple[int, ...]) -> None:
        self.old, self.output_ranges = old, output_ranges
        self.instructions: list[Instruction] = []
        self.numbers: dict[Instruction, int] = {}
        self.last_range: list[int] = []
        self.sums: dict[int, Form[int]] = {}  # what is known of new values
        self.forms: dict[int, Form[int]] = {}  # of old ones
        self.values: dict[int, int] = {}
        self.extents: dict[int, int] = {}

    def counter(self, instruction: Instruction) -> Form[int]:
        """What an old RANGE counts."""
        return atom(self.put(instruction))

    def body(self, place: int | None = None) -> Body:
        """The new body, without what nobody needs; a Part that stores at the old value `place`, if that is given.

        Raises ValueError if it needs a constant of more than 32 bits, or is much longer.
        """
        self.take(range(len(self.old.instructions)))
        # Operands come before users: one walk backwards finds all that is needed.
        needed = {len(self.instructions) - 1, *self.extents.values()}
        for number in reversed(range(len(self.instructions))):
            if number in needed:
                needed.update(self.instructions[number].values)
        at = {number: i for i, number in enumerate(sorted(needed))}
        instructions = tuple(self.instructions[n].moved(at) for n in sorted(needed))
        ranges = tuple(r._replace(extent=at[self.extents[r.extent]]) for r in self.old.reduce_ranges)
        place = self.old.place if isinstance(self.old, Part) else place
        if place is None:
            return Body(self.old.parameters, instructions, self.output_ranges, ranges, self.old.variables)
        stored = at[self.place(place)]
        return Part(self.old.parameters, instructions, self.output_ranges, ranges, self.old.variables, place=stored)

    def take(self, numbers: Iterable[int]) -> None:
        """Makes old values anew, in this order, if they are not; those that they are computed from are."""
        for number in numbers:
            instruction = self.old.instructions[number]
            if number in self.forms or number in self.values:
                continue
            if instruction.dtype is DType.INDEX:
                self.forms[number] = self._form(instruction)
            else:
                self.values[number] = self.put(self.moved(instruction), last=number == len(self.old.instructions) - 1)

    def place(self, number: int) -> int:
        """Where the index of the stored element is now."""
        return self.values[number]

    def put(self, instruction: Instruction, *, last: bool = False) -> int:
        """The number of a new value: an equal one that is there already, but for the `last`, which has to come last.

        Raises ValueError if the body becomes too long.
        """
        if instruction in self.numbers and not last:
            return self.numbers[instruction]
        number = len(self.instructions)
        if number > MOST * len(self.old.instructions) + MOST:
            raise ValueError("sums, each written out, make the body too long")
        below = max((self.last_range[v] for v in instruction.values), default=-1)
        self.instructions.append(instruction)
        self.last_range.append(instruction.a if instruction.op is Op.RANGE else below)
        self.numbers.setdefault(instruction, number)
        return number

    def index(self, op: Op, a: int, b: int) -> int:
        """The number of an operation on two new index values."""
        return self.put(Instruction(op, DType.INDEX, a, b))

    def constant(self, value: int) -> int:
        """The number of an index constant. Raises ValueError if it needs more than 32 bits."""
        if not -(1 << 31) <= value < 1 << 31:
            raise ValueError("an index needs a constant of more than 32 bits")
        return self.put(Instruction(Op.CONST, DType.INDEX, 0, value & 0xFFFF, value >> 16 & 0xFFFF))

    def moved(self, instruction: Instruction) -> Instruction:
        """An instruction with its operands where they are now."""
        if instruction.op in REDUCTIONS:
            for reduce_range in self.old.reduce_ranges:
                if reduce_range.reduction == instruction.c:
                    self.extents[reduce_range.extent] = self.value(reduce_range.extent)
        return instruction.moved({v: self.value(v) for v in instruction.values})

    def value(self, number: int) -> int:
        """The new number of an old value."""
        if number not in self.values:
            self.values[number] = self.written(self.forms[number])
        return self.values[number]

    def written(self, form: Form[int]) -> int:
        """The number of a sum, written out, what changes seldom first."""
        terms = [
            of if count == 1 else self.index(Op.MUL, of, self.constant(count))
            # outer loops first: a compiler then takes partial sums out of the inner ones
            for of, count in sorted(form.terms, key=lambda term: (self.last_range[term[0]], term[0]))
        ]
        if form.constant or not terms:
            outer = sum(self.last_range[term] < len(self.output_ranges) for term in terms)
            terms.insert(outer, self.constant(form.constant))
        total, *rest = terms
        for term in rest:
            total = self.index(Op.ADD, total, term)
        self.sums[total] = form
        return total

    def _form(self, instruction: Instruction) -> Form[int]:
        if instruction.op is Op.CONST:
            return Form(instruction.integer)
        if instruction.op is Op.RANGE:
            return self.counter(instruction)
        if instruction.op in (Op.ADD, Op.SUB, Op.MUL):
            form = linear(instruction.op, self.forms[instruction.a], self.forms[instruction.b])
            if form is not None:
                return recombined(form, self.halves)
        return atom(self.put(self.moved(instruction)))

    def halves(self, remainder: int) -> Iterator[tuple[int, int, Form[int]]]:
        """The quotients that make their dividend with a remainder, if there are any."""
        instruction = self.instructions[remainder]
        if instruction.op is not Op.FLOORMOD or (size := self.known(instruction.b)) < 1:
            return
        whole = self.sums.get(instruction.a, atom(instruction.a))
        quotients = [Instruction(Op.FLOORDIV, DType.INDEX, instruction.a, instruction.b)]
        dividend = self.instructions[instruction.a]
        # (x // n) % m may stand beside x // (n·m), which is the quotient of the same dividend
        if dividend.op is Op.FLOORDIV and (inner := self.known(dividend.b)) > 0 and inner * size < 1 << 31:
            quotients.append(Instruction(Op.FLOORDIV, DType.INDEX, dividend.a, self.constant(inner * size)))
        for quotient in quotients:
            if quotient in self.numbers:
                yield self.numbers[quotient], size, whole

    def known(self, number: int) -> int:
        """The value of a constant, 0 of anything else."""
        instruction = self.instructions[number]
        return instruction.integer if instruction.op is Op.CONST else 0


class _Joining(Rewriting):
    """A loop and the one before become one loop, which they divide."""

    def __init__(self, old: Body, axis: int) -> None:
        extents = old.output_ranges
        super().__init__(old, (*extents[: axis - 1], prod(extents[axis - 1 : axis + 1]), *extents[axis + 1 :]))
        self.axis = axis

    def counter(self, instruction: Instruction) -> Form[int]:
        if instruction.a < self.axis - 1:
            return super().counter(instruction)
        if instruction.a > self.axis:
            return super().counter(instruction._replace(a=instruction.a - 1))
        whole = self.put(instruction._replace(a=self.axis - 1))
        op = Op.FLOORMOD if instruction.a == self.axis else Op.FLOORDIV
        return atom(self.index(op, whole, self.constant(self.old.output_ranges[self.axis])))

    def place(self, number: int) -> int:
        """Raises ValueError if the place no longer grows evenly."""
        moving = (of for of, _ in self.forms[number].terms if self.last_range[of] >= 0)
        if any(self.instructions[of].op is not Op.RANGE for of in moving):
            raise ValueError("elements would be stored at places that are no sum of loops")
        return super().place(number)
