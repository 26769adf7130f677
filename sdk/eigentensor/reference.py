"""What a program means, bit by bit: slow, obvious, and the truth that every fast path is held to.

Elements of a call are independent of each other, so many are computed side by side; the steps of a reduction are taken
one after the other, in row-major order, from the identity. `eigentensor.numerics` does every operation.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.errors import ExecutionError
from eigentensor.numerics.conversion import bitcast, cast
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.floats import canonical, deviations
from eigentensor.numerics.operations import OPERATIONS, from_pattern, identity
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.binding import Results, bind, collect, iteration_values
from eigentensor.program.model import Body, Instruction, Program, Role
from eigentensor.program.ops import NO_GUARD, REDUCTIONS, Op
from eigentensor.program.structure import extents_of

Values = NDArray[Any]
Load = Callable[[int, Values, Values | None], Values]
LANES = 1 << 14  #: values of one instruction that are held at a time


def execute(
    program: Program,
    tensors: Mapping[str, Any],
    variables: Mapping[str, int] | None = None,
    repeat: int = 1,
    *,
    observe: Callable[[int, Values], None] | None = None,
) -> Results:
    """Outputs and new states of the program on these inputs, weights and states.

    `observe` is given the number (iteration · calls + call) and the flat result of each executed call, in order.
    Raises BindingError when tensors, variables or repeat do not fit the program, ExecutionError when this thread
    does not compute as IEEE 754 says by default.
    """
    check_arithmetic()
    bound = bind(program, tensors, variables or {}, repeat)
    states = [(i, buffer.name) for i, buffer in enumerate(program.buffers) if buffer.role is Role.STATE]
    for iteration in range(repeat):
        buffers = list(bound)
        values = iteration_values(program, variables or {}, iteration)
        for number, written in enumerate(calls(program, bound, values)):
            buffers.append(written)
            if observe is not None:
                observe(iteration * len(program.calls) + number, written)
        for i, name in states:
            bound[i] = buffers[program.new_states[name].buffer]
    return collect(program, buffers)


def check_arithmetic() -> None:
    """Raises ExecutionError where this thread does not compute as IEEE 754 says by default."""
    if differences := deviations():
        raise ExecutionError(
            f"this thread {' and '.join(differences)}: the reference cannot be computed",
            fix="Do without the library that has set this.",
            topic="machine",
        )


def calls(program: Program, tensors: Sequence[Values], variables: Sequence[int]) -> Iterator[Values]:
    """The flat result of each call of one iteration, in order, from flat tensors and the values of the variables."""
    buffers = list(tensors)
    for number in range(len(program.calls)):
        buffers.append(result(program, buffers, number, variables))
        yield buffers[-1]


def result(program: Program, buffers: Sequence[Values], call: int, variables: Sequence[int]) -> Values:
    """The flat result of one call, from flat buffers and the values of the program's variables."""
    dtype, count = program.parameter(len(program.buffers) + call)
    parts = [
        elements(program, buffers, call, np.arange(start, min(start + LANES, count)), variables)
        for start in range(0, count, LANES)
    ]
    return np.concatenate(parts) if parts else np.empty(0, STORAGE[dtype])


def elements(
    program: Program,
    buffers: Sequence[Values],
    call: int,
    indices: Values,
    variables: Sequence[int] = (),
    evaluated: "Callable[[Body, Load, Sequence[int], Values], Evaluation] | None" = None,
) -> Values:
    """The elements `indices` of the result of one call, from flat buffers and the values of the program's variables.
    `evaluated` makes an Evaluation that has other ways to the same totals."""
    body, arguments, bound = program.bodies[program.calls[call].body], *program.calls[call][1:]
    arrays = [np.empty(0, STORAGE[body.parameters[0].dtype]), *(buffers[i] for i in arguments)]

    def load(parameter: int, element: Values, guard: Values | None) -> Values:
        return loaded(arrays[parameter], element, guard)

    evaluation = (evaluated or Evaluation)(body, load, [variables[i] for i in bound], np.asarray(indices, np.int64))
    value = evaluation.stored()
    return canonical(body.parameters[0].dtype, np.array(np.broadcast_to(value, np.shape(indices)), order="C"))


class Evaluation:
    """One body at some elements: the last axis of a value; an axis in front of it are steps of a reduction.

    `load` gives elements of a parameter, +0 where the guard is false. `values` are those known of each instruction.
    """

    def __init__(self, body: Body, load: Load, variables: Sequence[int], indices: Values) -> None:
        self.body = body
        self.load = load
        self.variables = variables
        self.lanes = indices.shape
        self.ranges: dict[int, Values] = dict(enumerate(np.unravel_index(indices, body.output_ranges or (1,))))
        self.values: dict[int, Values] = {}

    def stored(self) -> Values:
        """What is stored, before its NaN is made canonical; all values of instructions outside of steps are known."""
        owner = _owners(self.body)
        for number, instruction in enumerate(self.body.instructions):
            if instruction.op in REDUCTIONS:
                inner = [i for i in range(number) if owner[i] == instruction.c]
                self.values[number] = self.total(number, inner)
            elif owner[number] is None:
                self.evaluate((number,))
        return self.values[len(self.body.instructions) - 1]

    def total(self, number: int, inner: Sequence[int]) -> Values:
        """What a reduction comes to; `inner` are the instructions of its steps."""
        for total in self.totals(number, inner):
            last = total
        return last

    def totals(self, number: int, inner: Sequence[int]) -> Iterator[Values]:
        """The accumulator of a reduction: its identity, then what it is after each step.

        `inner` are the instructions of its steps; terms are computed for many steps at once, then taken one by one.
        """
        total = np.broadcast_to(self.identity(number), self.lanes)
        yield total
        for steps in _spans(prod(self.extents(number)), max(1, LANES // max(1, prod(self.lanes)))):
            terms = self.terms(number, steps, inner)
            for step in range(len(steps)):
                total = self.accumulate(number, [term[step] for term in terms], total)
                yield total

    def identity(self, number: int) -> Values:
        """What a reduction starts with, one element of its dtype."""
        reduction = self.body.instructions[number]
        return identity(reduction.op.name.removeprefix("REDUCE_"), reduction.dtype)

    def extents(self, number: int) -> list[int]:
        """Trip counts of a reduction's ranges."""
        return [int(self.values[i]) for i in extents_of(self.body, self.body.instructions[number].c)]

    def terms(self, number: int, steps: Values, inner: Sequence[int]) -> list[Values]:
        """The term, or the two factors, of a reduction at some of its steps."""
        reduction, outputs = self.body.instructions[number], len(self.body.output_ranges)
        loops = [outputs + i for i, r in enumerate(self.body.reduce_ranges) if r.reduction == reduction.c]
        for loop, counter in zip(loops, np.unravel_index(steps, self.extents(number)), strict=True):
            self.ranges[loop] = counter.reshape(-1, 1)
        self.evaluate(inner)
        return [np.broadcast_to(self.values[i], (len(steps), *self.lanes)) for i in reduction.values]

    def accumulate(self, number: int, factors: Sequence[Values], total: Values) -> Values:
        """One step of a reduction."""
        reduction = self.body.instructions[number]
        operands = (*factors, total) if reduction.op is Op.REDUCE_MULACC else (total, *factors)
        return OPERATIONS[reduction.op.name.removeprefix("REDUCE_")](reduction.dtype, *operands)

    def evaluate(self, numbers: Iterable[int]) -> None:
        """Makes values of instructions known, in this order; those that they take are known."""
        for number in numbers:
            self.values[number] = self._value(self.body.instructions[number])

    def _value(self, instruction: Instruction) -> Values:
        op, dtype, a = instruction[:3]
        if op is Op.CONST:
            return _constant(instruction)
        if op is Op.RANGE:
            return self.ranges[a]
        if op is Op.VAR:
            return np.asarray(self.variables[a], np.int64)
        if op is Op.LOAD:
            guard = None if instruction.c == NO_GUARD else self.values[instruction.c]
            return self.load(a, self.values[instruction.b], guard)
        operands = [self.values[i] for i in instruction.values]
        source = self.body.instructions[instruction.values[-1]].dtype
        if op is Op.CAST:
            return cast(source, dtype, *operands)
        if op is Op.BITCAST:
            return bitcast(source, dtype, *operands)
        return OPERATIONS[op.name](source, *operands)


def _owners(body: Body) -> list[int | None]:
    """For each instruction the reduction in whose steps it is computed, None for those computed once per element."""
    owner: list[int | None] = []
    for instruction in body.instructions:
        if instruction.op is Op.RANGE:
            loop = instruction.a - len(body.output_ranges)
            owner.append(body.reduce_ranges[loop].reduction if loop >= 0 else None)
        elif instruction.op in REDUCTIONS:
            owner.append(None)
        else:
            owner.append(next((owner[i] for i in instruction.values if owner[i] is not None), None))
    return owner


def _spans(count: int, size: int) -> Iterator[Values]:
    return (np.arange(start, min(start + size, count)) for start in range(0, count, size))


def _constant(instruction: Instruction) -> Values:
    pattern, dtype = instruction.immediate, instruction.dtype
    if dtype in (DType.INT64, DType.INDEX):
        pattern -= (pattern >> 31) << 32
    return from_pattern(dtype, pattern)


def loaded(array: Values, element: Values, guard: Values | None) -> Values:
    """array[element]; +0 where the guard is false, whatever the element is there."""
    if guard is None:
        return np.asarray(array[element])
    if not array.size:
        return np.zeros(np.broadcast(element, guard).shape, array.dtype)
    return np.where(guard, array[np.where(guard, element, 0)], np.zeros((), array.dtype))
