"""Bodies made anew: with simpler indices, two output axes as one loop or one as several, where neighbours are found."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from math import prod

from eigentensor.numerics.dtypes import DType
from eigentensor.program.forms import Form, atom, linear, recombined
from eigentensor.program.intervals import Interval, transfer, whole
from eigentensor.program.model import Body, Instruction
from eigentensor.program.ops import NO_GUARD, REDUCTIONS, Op
from eigentensor.runtime.bodies.analysis import Analysis
from eigentensor.runtime.bodies.part import Part
from eigentensor.runtime.bodies.quotients import Least, coarsest, within

MOST = 8  #: times as long as before a body may become, with what is dropped in the end
DIVISIONS = frozenset({Op.FLOORDIV, Op.FLOORMOD})


def join(body: Body, axes: tuple[int, ...]) -> Body:
    """A body that computes the same elements in the same order, with each of these axes in one loop with that before.

    The axes are those of the body that there is without any: its indices are simpler, and loops that are divided are
    several. Raises ValueError if axes cannot be joined: an index would need a constant of more than 32 bits, or the
    body would become much longer.
    """
    body = _simpler(body)
    for axis in sorted(axes, reverse=True):
        body = _Joining(body, axis).body()
    return body


def simple_joins(body: Body) -> tuple[int, ...]:
    """The axes that can be joined without a division: what is read along both is read along one."""
    axes: list[int] = []
    if any(map(len, _sizes(body))):
        body = _simpler(body)
    for axis in range(len(body.output_ranges) - 1, 0, -1):
        try:
            joined = _Joining(body, axis).body()
        except ValueError:
            continue
        if _divisions(joined) <= _divisions(body):
            axes.append(axis)
            body = joined
    return tuple(sorted(axes))


def _simpler(body: Body) -> Body:
    sizes = _sizes(body)
    if any(map(len, sizes)):
        with suppress(ValueError):
            split = _Splitting(body, sizes).body()
            if _divisions(split) < _divisions(body):
                return split
    with suppress(ValueError):
        return Rewriting(body, body.output_ranges).body()
    return body


def _sizes(body: Body) -> list[list[int]]:
    """For each output loop around a reduction the sizes by which its counter is divided, ascending: each is a multiple
    of the one before, and the extent one of all."""
    units: dict[int, tuple[int, int]] = {}  # values that are a loop's counter by so much, and what is added to it
    found: list[set[int]] = [set() for _ in body.output_ranges]
    for number, (op, dtype, a, b, _) in enumerate(body.instructions if body.reduce_ranges else ()):
        if dtype is not DType.INDEX:
            continue
        if op is Op.RANGE and a < len(found):
            units[number] = a, 1
        elif op in (Op.ADD, Op.SUB) and (a in units) != (b in units):
            units[number] = units[a if a in units else b]
        elif op in DIVISIONS and a in units and body.instructions[b].op is Op.CONST:
            axis, unit = units[a]
            size = unit * body.instructions[b].integer
            found[axis].add(size)
            units[number] = axis, size if op is Op.FLOORDIV else unit
    chains: list[list[int]] = []
    for extent, sizes in zip(body.output_ranges, found, strict=True):
        chain: list[int] = []
        for size in sorted(sizes):
            if 1 < size < extent and not extent % size and not size % (chain[-1] if chain else 1):
                chain.append(size)
        chains.append(chain)
    return chains


def _divisions(body: Body) -> int:
    """How many quotients and remainders there are, each as often as the loops that it depends on have steps: what only
    a short loop divides is known outside of the others."""
    analysis = Analysis(body)
    return sum(
        prod(analysis.extents[r] for r in depends)
        for instruction, depends in zip(body.instructions, analysis.depends, strict=True)
        if instruction.op in DIVISIONS
    )


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
        analysis = Analysis(old)
        self.trips = (*output_ranges, *analysis.extents[analysis.outputs :])
        self.intervals: list[Interval] = []  # what is known of new values

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
        self.intervals.append(self._interval(instruction))
        self.last_range.append(instruction.a if instruction.op is Op.RANGE else below)
        self.numbers.setdefault(instruction, number)
        return number

    def _interval(self, instruction: Instruction) -> Interval:
        """What a new value can be, by its operands."""
        if instruction.op is Op.RANGE:
            return 0, max(0, self.trips[instruction.a] - 1)
        if instruction.op is Op.CONST and not instruction.dtype.is_float:
            return instruction.integer, instruction.integer
        if instruction.dtype is not DType.INDEX:
            return whole(instruction.dtype)
        if instruction.op is Op.VAR:
            return self.old.variables[instruction.a]
        return transfer(instruction.op, instruction.dtype, *(self.intervals[v] for v in instruction.values))

    def index(self, op: Op, a: int, b: int) -> int:
        """The number of an operation on two new index values."""
        return self.put(Instruction(op, DType.INDEX, a, b))

    def constant(self, value: int) -> int:
        """The number of an index constant. Raises ValueError if it needs more than 32 bits."""
        if not -(1 << 31) <= value < 1 << 31:
            raise ValueError("an index needs a constant of more than 32 bits")
        return self.put(Instruction(Op.CONST, DType.INDEX, 0, value & 0xFFFF, value >> 16 & 0xFFFF))

    def moved(self, instruction: Instruction) -> Instruction:
        """An instruction with its operands where they are now; what a load reads, without remainders that are known
        where its guard holds."""
        if instruction.op in REDUCTIONS:
            for reduce_range in self.old.reduce_ranges:
                if reduce_range.reduction == instruction.c:
                    self.extents[reduce_range.extent] = self.value(reduce_range.extent)
        new = instruction.moved({v: self.value(v) for v in instruction.values})
        if instruction.op is Op.LOAD and instruction.c != NO_GUARD:
            return new._replace(b=self.written(self._where(instruction.c, self.forms[instruction.b])))
        return new

    def _where(self, guard: int, form: Form[int]) -> Form[int]:
        """A form where an old condition holds: a remainder is none of which the quotient is known there."""
        facts = list(self.facts(guard)) if any(self.known_divisor(of) for of, _ in form.terms) else []
        for of, count in form.terms:
            if facts and (size := self.known_divisor(of)):
                dividend = self.sums.get(self.instructions[of].a, atom(self.instructions[of].a))
                low, high = within(dividend, facts, self.intervals)
                if low // size == high // size:
                    form = form.without(of).plus(dividend.plus(Form(low // size * size), -1), count)
        return form

    def known_divisor(self, number: int) -> int:
        """The constant that a new value is the remainder by; 0 of anything else."""
        instruction = self.instructions[number]
        return max(0, self.known(instruction.b)) if instruction.op is Op.FLOORMOD else 0

    def facts(self, guard: int, holds: bool = True) -> Iterator[Least]:
        """What an old condition says of forms where it holds, or where it does not."""
        op, _, a, b, _ = self.old.instructions[guard]
        if op is Op.AND and holds:
            yield from self.facts(a)
            yield from self.facts(b)
        elif (
            op is Op.CMPNE and self.old.instructions[b].op is Op.CONST and self.old.instructions[b].dtype is DType.BOOL
        ):
            yield from self.facts(a, holds != bool(self.old.instructions[b].integer))
        elif op is Op.CMPLT and a in self.forms and b in self.forms:
            over = self.forms[b].plus(self.forms[a], -1)
            yield Least(over, 1) if holds else Least(over.times(-1), 0)

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
        if instruction.op in DIVISIONS and not (by := self.forms[instruction.b]).terms and by.constant > 0:
            return self._divided(instruction.op, self.forms[instruction.a], by.constant)
        return atom(self.put(self.moved(instruction)))

    def _divided(self, op: Op, form: Form[int], size: int) -> Form[int]:
        """A quotient or remainder by a constant, without all that is known of it: the multiples of the constant, and
        what is less than something that the constant and all the rest are multiples of."""
        multiple, rest = form.split(size)
        low, high = rest.interval(self.intervals)
        is_quotient = op is Op.FLOORDIV
        if low >= 0 and high < size:
            return multiple if is_quotient else rest
        unit, coarse, fine = coarsest(rest, size, self.intervals)
        left = atom(self.index(op, self.written(coarse), self.constant(size // unit)))
        return multiple.plus(left) if is_quotient else fine.plus(left, unit)

    def halves(self, remainder: int) -> Iterator[tuple[int, int, Form[int]]]:
        """The quotients that make their dividend with a remainder, if there are any."""
        instruction = self.instructions[remainder]
        if instruction.op is not Op.FLOORMOD or (size := self.known(instruction.b)) < 1:
            return
        dividend = self.sums.get(instruction.a, atom(instruction.a))
        quotients = [Instruction(Op.FLOORDIV, DType.INDEX, instruction.a, instruction.b)]
        divided = self.instructions[instruction.a]
        # (x // n) % m may stand beside x // (n·m), which is the quotient of the same dividend
        if divided.op is Op.FLOORDIV and (inner := self.known(divided.b)) > 0 and inner * size < 1 << 31:
            quotients.append(Instruction(Op.FLOORDIV, DType.INDEX, divided.a, self.constant(inner * size)))
        for quotient in quotients:
            if quotient in self.numbers:
                yield self.numbers[quotient], size, dividend

    def known(self, number: int) -> int:
        """The value of a constant, 0 of anything else."""
        instruction = self.instructions[number]
        return instruction.integer if instruction.op is Op.CONST else 0


class _Splitting(Rewriting):
    """Loops whose counters are divided become several, one for each quotient, so that neighbours are found."""

    def __init__(self, old: Body, sizes: Sequence[Sequence[int]]) -> None:
        parts = [_parts(extent, of) for extent, of in zip(old.output_ranges, sizes, strict=True)]
        super().__init__(old, tuple(extent for part in parts for extent, _ in part))
        self.parts = parts
        self.first = [sum(map(len, parts[:axis])) for axis in range(len(parts) + 1)]

    def counter(self, instruction: Instruction) -> Form[int]:
        outputs = len(self.parts)
        if instruction.a >= outputs:
            return super().counter(instruction._replace(a=instruction.a - outputs + self.first[-1]))
        form: Form[int] = Form(0)
        for place, (_, size) in enumerate(self.parts[instruction.a], self.first[instruction.a]):
            form = form.plus(super().counter(instruction._replace(a=place)), size)
        return form


def _parts(extent: int, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Extents and sizes of the loops that a loop becomes, the outermost first."""
    all_sizes = [1, *sizes]
    return [(more // size, size) for size, more in zip(all_sizes, [*sizes, extent], strict=True)][::-1]


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
