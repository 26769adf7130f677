"""A second reading of sdk/README.md: one element at a time, from the stored value down, in whole numbers.

It shares no code with the reference but the binding of names. Slow: for programs of a few thousand evaluations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from eigentensor.numerics import exact
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.floats import patterns
from eigentensor.program.binding import Results, bind, collect, iteration_values
from eigentensor.program.model import Body, Instruction, Program, Role
from eigentensor.program.ops import NO_GUARD, REDUCTIONS, Op
from support.generated.edges import held

MASK64 = (1 << 64) - 1


def execute(
    program: Program, tensors: Mapping[str, Any], variables: Mapping[str, int] | None = None, repeat: int = 1
) -> Results:
    """What `reference.execute` promises."""
    initial = bind(program, tensors, variables or {}, repeat)
    start = [patterns(b.dtype, array).tolist() for b, array in zip(program.buffers, initial, strict=True)]
    for iteration in range(repeat):
        values = iteration_values(program, variables or {}, iteration)
        buffers = list(start)
        for call in program.calls:
            body = program.bodies[call.body]
            arrays = [[], *(buffers[i] for i in call.arguments)]
            place = Place(body, arrays, [values[i] for i in call.variables])
            everything = product(*map(range, body.output_ranges))
            buffers.append([_stored(place.at(dict(enumerate(counters)))) for counters in everything])
        for number, buffer in enumerate(program.buffers):
            if buffer.role is Role.STATE:
                start[number] = buffers[program.new_states[buffer.name].buffer]
    return collect(program, [held(program.parameter(i).dtype, values) for i, values in enumerate(buffers)])


@dataclass(frozen=True)
class Place:
    """A point of the loops of a body, and the values that are known there; an index is 64 bits in two's complement."""

    body: Body
    arrays: Sequence[list[int]]
    variables: Sequence[int]
    counters: dict[int, int] = field(default_factory=dict)
    known: dict[int, int] = field(default_factory=dict)

    def at(self, counters: dict[int, int]) -> "Place":
        return replace(self, counters=self.counters | counters, known={})

    def value(self, number: int) -> int:
        """The pattern of the value of an instruction."""
        if number not in self.known:
            self.known[number] = self._evaluate(number)
        return self.known[number]

    def _evaluate(self, number: int) -> int:
        op, dtype, a, b, c = instruction = self.body.instructions[number]
        if op is Op.CONST:
            signed = dtype in (DType.INT64, DType.INDEX)
            return instruction.immediate | (0xFFFFFFFF << 32 if signed and c >> 15 else 0)
        if op is Op.RANGE:
            return self.counters[a]
        if op is Op.VAR:
            return self.variables[a] & MASK64
        if op is Op.LOAD:
            return self.arrays[a][self.value(b)] if c == NO_GUARD or self.value(c) else 0
        if op in REDUCTIONS:
            return self._reduce(op.name.removeprefix("REDUCE_"), instruction)
        source = self.body.instructions[instruction.values[-1]].dtype
        operands = [self.value(operand) for operand in instruction.values]
        if op in (Op.CAST, Op.BITCAST):
            return (exact.cast if op is Op.CAST else exact.bitcast)(source, dtype, operands[0])
        return exact.evaluate(op.name, source, *operands)

    def _reduce(self, name: str, reduction: Instruction) -> int:
        loops = enumerate(self.body.reduce_ranges, len(self.body.output_ranges))
        own = {number: range(self.value(r.extent)) for number, r in loops if r.reduction == reduction.c}
        total = _identity(name, reduction.dtype)
        for counters in product(*own.values()):
            step = self.at(dict(zip(own, counters, strict=True)))
            terms = [step.value(operand) for operand in reduction.values]
            operands = (*terms, total) if name == "MULACC" else (total, *terms)
            total = exact.evaluate(name, reduction.dtype, *operands)
        return total


def _stored(place: Place) -> int:
    dtype = place.body.parameters[0].dtype
    return exact.bitcast(dtype, dtype, place.value(len(place.body.instructions) - 1))


def _identity(name: str, dtype: DType) -> int:
    if name in ("ADD", "MULACC"):
        return 0
    if name == "MUL":
        return exact.cast(DType.UINT8, dtype, 1)
    sign, ones = 1 << 8 * dtype.size - 1, (1 << 8 * dtype.size) - 1
    if dtype.is_float:
        infinity = exact.rounded(dtype, exact.Real(False, None))
        return infinity | sign if name == "MAX" else infinity
    smallest, largest = (sign, sign - 1) if dtype.is_signed else (0, ones)
    return int(name == "MIN") if dtype is DType.BOOL else smallest if name == "MAX" else largest
