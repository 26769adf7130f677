"""An execution with one wrong bit somewhere, and an executor that defends it. All else that it says is true."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import Any

import numpy as np

from eigentensor import reference
from eigentensor.dispute import ClaimBorders, Keep, Knowledge, Move, Position, Published, ShowLeaf, Side, next_move
from eigentensor.dispute.encoding import packed
from eigentensor.dispute.entries import elements_of, reduction_types
from eigentensor.dispute.rules import borders_of
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.floats import canonical, patterns
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.binding import Results
from eigentensor.program.model import Program, Role
from eigentensor.reference import Evaluation, Values
from eigentensor.tracing import Element, Execute, Execution, retrace
from eigentensor.tracing.step import reading, reduction_dtypes


@dataclass(frozen=True, slots=True)
class Fault:
    """A flipped bit of an element of an executed call: as it is stored, or of an accumulator after `step` + 1 steps."""

    number: int
    element: int
    bit: int
    reduction: int | None = None
    step: int = 0


@dataclass(frozen=True, slots=True)
class Received:
    """A flipped bit of an element of an input, weight or state, as the executor holds it in memory."""

    name: str
    element: int
    bit: int


def some_received(account: Execution, random: Random) -> Received:
    """Any in what a program is given. Raises IndexError if that is nothing."""
    named = {b.name: b for b in account.program.buffers if b.role is not Role.CONSTANT and b.elements}
    buffer = named[random.choice(list(named))]
    return Received(buffer.name, random.randrange(buffer.elements), random.randrange(_bits(buffer.dtype)))


def some_fault(account: Execution, random: Random) -> Fault:
    """Any of those that an execution with all tensors can have; many change nothing in the end."""
    numbers = [number for number, tensor in account.kept.items() if tensor.size]
    number = random.choice(numbers)
    chosen = random.randrange(account.kept[number].size)
    element = Element(account, number, chosen)
    steps = [element.length(k) for k in range(len(element.results))]
    reduction = random.choice([None, *(k for k, length in enumerate(steps) if length)])
    if reduction is None:
        return Fault(number, chosen, random.randrange(8 * account.kept[number].itemsize))
    bits = _bits(reduction_dtypes(element.body)[reduction])
    return Fault(number, chosen, random.randrange(bits), reduction, random.randrange(steps[reduction]))


class Liar:
    """The executor of an execution with a fault. `account` is what it says; `changed`: whether the result is wrong."""

    def __init__(
        self,
        true: Execution,
        tensors: Mapping[str, Any],
        fault: Fault | Received,
        execute: Execute = reference.execute,
    ) -> None:
        """`true` is the account of a right execution on `tensors`, with the results of calls that it is to keep.

        `execute` is as for `disturbed`.
        """
        self.fault = fault
        self._faulty: _Faulty | None = None
        if isinstance(fault, Received):
            tensors = {**tensors, fault.name: _damaged(tensors[fault.name], fault)}
        else:
            self._faulty = _Faulty(true, fault)
            execute = disturbed(execute, fault.number, self._faulty.store)
        repeat = len(true.calls) // len(true.program.calls)
        self.account = retrace(true.program, tensors, true.variables, repeat, keep=true.kept.keys(), execute=execute)
        self.changed = self.account.outputs != true.outputs

    def next_move(self, position: Position, published: Published, knowledge: Knowledge) -> Move | Keep | None:
        """As `dispute.next_move` of an executor, with what it believes of the faulty element."""
        move = next_move(Side.EXECUTOR, position, published, replace(knowledge, account=self.account))
        if self._faulty is None or position.number != self._faulty.fault.number:
            return move
        types, believed, faulty = reduction_types(position), self._faulty.believed, self._faulty.fault.element
        if isinstance(move, ShowLeaf) and faulty in elements_of(position):
            results = packed(types, (believed(k)[-1] for k in range(len(types))))
            at = (faulty - elements_of(position).start) * len(results)
            return replace(move, results=move.results[:at] + results + move.results[at + len(results) :])
        if isinstance(move, ClaimBorders) and faulty == position.element:
            borders, k = borders_of(position), position.reduction
            return ClaimBorders(packed([types[k]] * len(borders), (believed(k)[steps] for steps in borders)))
        return move


def disturbed(execute: Execute, number: int, change: Callable[[Values], None]) -> Execute:
    """The execution in which the result of an executed call is changed before others read it.

    `execute` shows what they read: the reference does, and the runtime on a processor.
    """

    def execute_wrongly(
        program: Program,
        tensors: Mapping[str, Any],
        variables: Mapping[str, int] | None = None,
        repeat: int = 1,
        *,
        observe: Callable[[int, Values], None] | None = None,
    ) -> Results:
        def see(call: int, result: Values) -> None:
            if call == number:
                change(result)
            if observe is not None:
                observe(call, result)

        return execute(program, tensors, variables, repeat, observe=see)

    return execute_wrongly


class _Faulty(Evaluation):
    """The faulty element, evaluated with its fault."""

    def __init__(self, account: Execution, fault: Fault) -> None:
        arrays = [argument.array for argument in account.arguments(fault.number)]
        element = np.array([fault.element])
        super().__init__(account.body(fault.number), reading(arrays), account.bound(fault.number), element)
        self.accumulators: dict[int, Values] = {}  # by reduction: the identity, then after each step
        self.fault = fault
        self.steps = 0

    def store(self, result: Values) -> None:
        """Puts the element into the result of its call."""
        result[self.fault.element : self.fault.element + 1] = self._stored

    @cached_property
    def _stored(self) -> Values:
        dtype = self.body.parameters[0].dtype
        stored = canonical(dtype, np.array(np.broadcast_to(self.stored(), (1,))))
        return _flipped(stored, self.fault.bit) if self.fault.reduction is None else stored

    def believed(self, reduction: int) -> list[int]:
        """The patterns of all accumulators of a reduction, the identity first."""
        dtype = reduction_dtypes(self.body)[reduction]
        return [int(pattern) for pattern in patterns(dtype, canonical(dtype, self.accumulators[reduction]))]

    def totals(self, number: int, inner: Sequence[int]) -> Iterator[Values]:
        reduction = self.body.instructions[number]
        accumulator = np.empty(1 + int(np.prod(self.extents(number), dtype=object)), STORAGE[reduction.dtype])
        self.accumulators[reduction.c] = accumulator
        for step, total in enumerate(super().totals(number, inner)):
            accumulator[step : step + 1] = total
            yield total

    def accumulate(self, number: int, factors: Sequence[Values], total: Values) -> Values:
        after, instruction = super().accumulate(number, factors, total), self.body.instructions[number]
        if instruction.c != self.fault.reduction:
            return after
        self.steps += 1
        if self.steps != self.fault.step + 1:
            return after
        return canonical(instruction.dtype, _flipped(after, self.fault.bit))


def _damaged(tensor: Any, fault: Received) -> Values:
    damaged = np.array(tensor, order="C")
    flat = damaged.reshape(-1)
    flat[fault.element : fault.element + 1] = _flipped(flat[fault.element], fault.bit)
    return damaged


def _bits(dtype: DType) -> int:
    """Those of an element that say something."""
    return 1 if dtype is DType.BOOL else 8 * dtype.size


def _flipped(values: Values, bit: int) -> Values:
    flipped = np.array(np.broadcast_to(values, (1,)))
    flipped.view(np.uint8)[bit // 8] ^= np.uint8(1 << bit % 8)
    return flipped
