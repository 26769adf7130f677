"""What a dispute needs out of an account: the proof of a call, the witness of a step, the proof of the outputs root.

Each is shown under a trace: the account's own, or what somebody else claims (`trace`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from eigentensor import merkle
from eigentensor.merkle import LEAF
from eigentensor.program.model import Role
from eigentensor.tracing.execution import Execution
from eigentensor.tracing.hashes import Hashes, Nodes
from eigentensor.tracing.shown import (
    Binding,
    CallProof,
    CollectProof,
    Kernel,
    Operand,
    Record,
    ResultProof,
    Tensor,
    Variable,
    Witness,
)
from eigentensor.tracing.step import Element, Point, evaluate_point


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a program's records of each kind begin: variables, buffers, bodies, calls, results."""

    buffers: int
    bodies: int
    calls: int
    results: int
    end: int


def layout_of(counts: Sequence[int]) -> Layout:
    """From the numbers of variables, buffers, bodies, calls and results."""
    starts = [sum(counts[: i + 1]) for i in range(len(counts))]
    return Layout(*starts)


def kernel_of(execution: Execution, number: int) -> Kernel:
    """What an executed call executes."""
    header, records = execution.encoded
    at, call = _layout(execution), number % len(execution.program.calls)
    body = execution.program.calls[call].body
    return Kernel(header, records[at.calls + call], records[at.bodies + body], execution.bound(number))


def prove_call(execution: Execution, number: int, trace: Nodes | None = None) -> CallProof:
    """That an executed call executes its kernel, and what stands for it in the trace."""
    program, at, trace = execution.program, _layout(execution), trace or execution.trace
    call = number % len(program.calls)
    names = [v.name for v in program.variables]
    bound = Hashes(tuple(merkle.variable_hash(name, execution.variables[name]) for name in names))
    return CallProof(
        number,
        kernel_of(execution, number),
        execution.records.opening(at.calls + call),
        execution.records.opening(at.bodies + program.calls[call].body),
        tuple(Variable(_record(execution, v), bound.opening(v)) for v in program.calls[call].variables),
        trace.node(0, number),
        trace.opening(number),
    )


def witness_of(execution: Execution, element: Element, point: Point, trace: Nodes | None = None) -> Witness:
    """The witness of a point of an element, out of an account."""
    program, number = execution.program, element.number
    call = program.calls[number % len(program.calls)]
    arguments = execution.arguments(number)
    constants = {
        parameter
        for parameter, buffer in enumerate(call.arguments, 1)
        if buffer < len(program.buffers) and program.buffers[buffer].role is Role.CONSTANT
    }
    used: set[int] = set()
    operands: list[Operand] = []

    def read(parameter: int, index: int) -> int:
        used.add(parameter)
        if parameter not in constants:
            flat = arguments[parameter - 1]
            leaf = index * flat.dtype.size // LEAF
            operands.append(Operand(parameter, flat.leaf(leaf), flat.leaves.opening(leaf)))
        return element.read(parameter, index)

    evaluate_point(element.body, point, element.variables, read)
    tensors = tuple(_tensor(execution, number, parameter, trace or execution.trace) for parameter in sorted(used))
    return Witness(number, kernel_of(execution, number), point, tensors, tuple(operands))


def prove_outputs(execution: Execution, trace: Nodes | None = None) -> CollectProof:
    """What the outputs root is by the calls of the trace."""
    program, at, trace = execution.program, _layout(execution), trace or execution.trace
    first, siblings = at.results, []
    for level in range(execution.records.depth):
        if first & 1:
            siblings.append(execution.records.node(level, first - 1))
        first >>= 1
    last = len(execution.calls) - len(program.calls) - len(program.buffers)
    numbers = [last + r.buffer for r in program.results]
    return CollectProof(
        execution.encoded[0],
        execution.encoded[1][at.results :],
        tuple(siblings),
        tuple(trace.node(0, number) for number in numbers),
        tuple(trace.opening(number) for number in numbers),
    )


def prove_result(execution: Execution, number: int, trace: Nodes | None = None) -> ResultProof:
    """What one result of the program is by the calls of the trace."""
    program, trace = execution.program, trace or execution.trace
    written = len(execution.calls) - len(program.calls) - len(program.buffers) + program.results[number].buffer
    record = _record(execution, _layout(execution).results + number)
    return ResultProof(execution.encoded[0], record, trace.node(0, written), trace.opening(written))


def _tensor(execution: Execution, number: int, parameter: int, trace: Nodes) -> Tensor:
    program, at = execution.program, _layout(execution)
    iteration, call = divmod(number, len(program.calls))
    buffer = program.calls[call].arguments[parameter - 1]
    source = execution.source(buffer, iteration)
    if source is not None:
        shown: tuple[Record, ...] = ()
        if buffer < len(program.buffers):
            new = program.new_states[program.buffers[buffer].name]
            result = _record(execution, at.results + program.results.index(new))
            shown = _record(execution, at.buffers + buffer), result
        return Tensor(parameter, trace.node(0, source), shown, trace.opening(source))
    named, record = program.buffers[buffer], _record(execution, at.buffers + buffer)
    if named.role is Role.CONSTANT:
        return Tensor(parameter, b"", (record,), None)
    bound = execution.bound_tensors[named.role]
    leaves = Hashes(tuple(merkle.binding_hash(name, bound[name]) for name in sorted(bound)))
    return Tensor(
        parameter, bound[named.name], (record,), Binding(len(bound), leaves.opening(sorted(bound).index(named.name)))
    )


def _record(execution: Execution, number: int) -> Record:
    return Record(execution.encoded[1][number], execution.records.opening(number))


def _layout(execution: Execution) -> Layout:
    p = execution.program
    return layout_of([len(p.variables), len(p.buffers), len(p.bodies), len(p.calls), len(p.results)])
