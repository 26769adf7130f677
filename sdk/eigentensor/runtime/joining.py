"""Simpler indices, and two output axes as one loop: elements that lie side by side are found to do so."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Body, Instruction
from eigentensor.program.ops import NO_GUARD, REDUCTIONS, Op
from eigentensor.runtime.analysis import signed
from eigentensor.runtime.part import Part

Form = dict[int, int]  #: a sum: how often each value occurs in it, and under ONE a constant
ONE = -1
MOST = 8  #: times as long as before a body may become, with what is dropped in the end
DIVISIONS = frozenset({Op.FLOORDIV, Op.FLOORMOD})


def join(body: Body, axes: tuple[int, ...]) -> Body:
    """A body that computes the same elements in the same order, with each of these axes in one loop with that before.

    Without axes only its indices are simpler. Raises ValueError if axes cannot be joined: an index would need a
    constant of more than 32 bits, or the body would become much longer.
    """
    with suppress(ValueError):
        body = _Rewriting(body).body
    for axis in sorted(axes, reverse=True):
        body = _Rewriting(body, axis).body
    return body


def simple_joins(body: Body) -> tuple[int, ...]:
    """The axes that can be joined without a division: what is read along both is read along one."""
    axes: list[int] = []
    for axis in range(len(body.output_ranges) - 1, 0, -1):
        try:
            joined = _Rewriting(body, axis).body
        except ValueError:
            continue
        if _divisions(joined) <= _divisions(body):
            axes.append(axis)
            body = joined
    return tuple(sorted(axes))


def _divisions(body: Body) -> int:
    return sum(instruction.op in DIVISIONS for instruction in body.instructions)


class _Rewriting:
    """A body with indices as sums of multiples of values, so that (i // n)·n + i % n is found to be i.

    With an axis, its loop and the one before become one loop, which they divide.
    """

    def __init__(self, old: Body, axis: int | None = None) -> None:
        self.old = old
        self.axis = axis
        self.instructions: list[Instruction] = []
        self.numbers: dict[Instruction, int] = {}
        self.last_range: list[int] = []
        self.sums: dict[int, Form] = {}  # what is known of new values
        self.forms: dict[int, Form] = {}  # of old ones
        self.values: dict[int, int] = {}
        self.extents: dict[int, int] = {}
        for number, instruction in enumerate(old.instructions):
            if instruction.dtype is DType.INDEX:
                self.forms[number] = self.form(instruction)
            else:
                self.values[number] = self.put(self.moved(instruction), last=number == len(old.instructions) - 1)
        self.body = self.alive()

    def alive(self) -> Body:
        """The new body, without what nobody needs any more."""
        needed = {len(self.instructions) - 1, *self.extents.values()}
        for number in reversed(range(len(self.instructions))):
            if number in needed:
                needed.update(self.instructions[number].values)
        place = {number: i for i, number in enumerate(sorted(needed))}
        extents = list(self.old.output_ranges)
        if self.axis is not None:
            extents[self.axis - 1 : self.axis + 1] = [extents[self.axis - 1] * extents[self.axis]]
        ranges = (r._replace(extent=place[self.extents[r.extent]]) for r in self.old.reduce_ranges)
        instructions = tuple(with_operands(self.instructions[n], place) for n in sorted(needed))
        new = replace(self.old, instructions=instructions, output_ranges=tuple(extents), reduce_ranges=tuple(ranges))
        return replace(new, place=place[self.place(new.place)]) if isinstance(new, Part) else new

    def place(self, number: int) -> int:
        """Where the index of the stored element is now. Raises ValueError if it no longer grows evenly."""
        kinds = (
            self.instructions[atom].op for atom in self.forms[number] if atom != ONE and self.last_range[atom] >= 0
        )
        if self.axis is not None and any(op is not Op.RANGE for op in kinds):
            raise ValueError("elements would be stored at places that are no sum of loops")
        return self.values[number]

    def put(self, instruction: Instruction, *, last: bool = False) -> int:
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

    def moved(self, instruction: Instruction) -> Instruction:
        """An instruction with its operands where they are now."""
        if instruction.op in REDUCTIONS:
            for reduce_range in self.old.reduce_ranges:
                if reduce_range.reduction == instruction.c:
                    self.extents[reduce_range.extent] = self.value(reduce_range.extent)
        return with_operands(instruction, {v: self.value(v) for v in instruction.values})

    def value(self, number: int) -> int:
        """The new number of a value; a sum is written out, what changes seldom first."""
        if number not in self.values:
            form = self.forms[number]
            atoms = sorted((a for a in form if a != ONE), key=lambda a: (self.last_range[a], a))
            terms = [self.multiple(a, form[a]) for a in atoms]
            if form.get(ONE) or not terms:
                outputs = len(self.old.output_ranges) - (self.axis is not None)
                terms.insert(sum(self.last_range[t] < outputs for t in terms), self.constant(form.get(ONE, 0)))
            total, *rest = terms
            for term in rest:
                total = self.put(Instruction(Op.ADD, DType.INDEX, total, term))
            self.values[number] = total
            self.sums[total] = form
        return self.values[number]

    def multiple(self, atom: int, count: int) -> int:
        return atom if count == 1 else self.put(Instruction(Op.MUL, DType.INDEX, atom, self.constant(count)))

    def constant(self, value: int) -> int:
        if not -(1 << 31) <= value < 1 << 31:
            raise ValueError("an index needs a constant of more than 32 bits")
        return self.put(Instruction(Op.CONST, DType.INDEX, 0, value & 0xFFFF, value >> 16 & 0xFFFF))

    def form(self, instruction: Instruction) -> Form:
        match instruction.op:
            case Op.CONST:
                return {ONE: value} if (value := signed(instruction)) else {}
            case Op.RANGE:
                return {self.loop(instruction): 1}
            case Op.ADD:
                return self.sum(self.forms[instruction.a], self.forms[instruction.b], 1)
            case Op.SUB:
                return self.sum(self.forms[instruction.a], self.forms[instruction.b], -1)
            case Op.MUL:
                for one, other in ((instruction.a, instruction.b), (instruction.b, instruction.a)):
                    if set(self.forms[one]) <= {ONE}:
                        return self.sum({}, self.forms[other], self.forms[one].get(ONE, 0))
        return {self.put(self.moved(instruction)): 1}

    def loop(self, instruction: Instruction) -> int:
        if self.axis is None or instruction.a < self.axis - 1:
            return self.put(instruction)
        if instruction.a > self.axis:
            return self.put(instruction._replace(a=instruction.a - 1))
        whole = self.put(instruction._replace(a=self.axis - 1))
        op = Op.FLOORMOD if instruction.a == self.axis else Op.FLOORDIV
        return self.put(Instruction(op, DType.INDEX, whole, self.constant(self.old.output_ranges[self.axis])))

    def sum(self, first: Form, second: Form, times: int) -> Form:
        total = {part: first.get(part, 0) + times * second.get(part, 0) for part in {**first, **second}}
        while (found := self.quotient(total)) is not None:
            remainder, quotient = found
            dividend = self.instructions[remainder].a
            count = total.pop(remainder)
            del total[quotient]
            for part, of in self.sums.get(dividend, {dividend: 1}).items():
                total[part] = total.get(part, 0) + count * of
        return {part: count for part, count in total.items() if count}

    def quotient(self, total: Form) -> tuple[int, int] | None:
        """A remainder and the quotient that make their dividend in a sum: c·(i % n) + c·n·(i // n) is c·i."""
        for remainder, count in ((part, count) for part, count in total.items() if part != ONE):
            instruction = self.instructions[remainder]
            if instruction.op is not Op.FLOORMOD or (size := self.known(instruction.b)) < 1:
                continue
            quotients = [Instruction(Op.FLOORDIV, DType.INDEX, instruction.a, instruction.b)]
            dividend = self.instructions[instruction.a]
            if dividend.op is Op.FLOORDIV and (inner := self.known(dividend.b)) > 0 and inner * size < 1 << 31:
                whole = self.constant(inner * size)
                quotients.append(Instruction(Op.FLOORDIV, DType.INDEX, dividend.a, whole))
            for quotient in quotients:
                number = self.numbers.get(quotient, ONE)
                if number != ONE and count and total.get(number) == count * size:
                    return remainder, number
        return None

    def known(self, number: int) -> int:
        """The value of a constant, 0 of anything else."""
        instruction = self.instructions[number]
        return signed(instruction) if instruction.op is Op.CONST else 0


def with_operands(instruction: Instruction, places: Mapping[int, int]) -> Instruction:
    """An instruction whose operands are elsewhere."""
    if instruction.op is Op.LOAD:
        guard = instruction.c if instruction.c == NO_GUARD else places[instruction.c]
        return instruction._replace(b=places[instruction.b], c=guard)
    new = [places[v] for v in instruction.values]
    a, b, c = (*new, *instruction[2 + len(new) :])
    return Instruction(instruction.op, instruction.dtype, a, b, c)
