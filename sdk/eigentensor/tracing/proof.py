"""Whether what a player shows is of a claim: all of it leads to the roots that the task and the executor fixed.

The contract's `Referee` asks the same of bytes. Everything raises WitnessError for what is not as in the claim.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from eigentensor import merkle
from eigentensor.errors import WitnessError
from eigentensor.merkle import LEAF, Opening
from eigentensor.numerics.dtypes import DType
from eigentensor.program.codec import HEADER, read_record
from eigentensor.program.model import Body, Buffer, Call, Kind, Result, Role, Variable
from eigentensor.tracing.execution import Execution
from eigentensor.tracing.shown import (
    Binding,
    CallProof,
    CollectProof,
    Kernel,
    Operand,
    Record,
    ResultProof,
    Tensor,
    Witness,
)
from eigentensor.tracing.step import evaluate_point
from eigentensor.tracing.witness import Layout, layout_of

_INT32 = range(-(1 << 31), 1 << 31)


@dataclass(frozen=True, slots=True)
class Claim:
    """The roots that a task gives (program, inputs, weights, states, variables), its repeat, and what is claimed."""

    program: bytes
    inputs: bytes
    weights: bytes
    states: bytes
    variables: bytes
    repeat: int
    trace: bytes
    outputs: bytes


def claim_of(execution: Execution) -> Claim:
    """The roots of an account."""
    roots = {role: merkle.bindings_root(bound) for role, bound in execution.bound_tensors.items()}
    return Claim(
        program=merkle.program_root_of(execution.encoded[0], execution.records.root),
        inputs=roots[Role.INPUT],
        weights=roots[Role.WEIGHT],
        states=roots[Role.STATE],
        variables=merkle.variables_root(execution.variables),
        repeat=len(execution.calls) // len(execution.program.calls),
        trace=execution.trace.root,
        outputs=execution.outputs,
    )


def check_call(proof: CallProof, claim: Claim) -> None:
    """That the kernel is what the claim's program executes there, and the root what its trace has there."""
    under, kernel = _Committed(claim, proof.kernel.header), proof.kernel
    _require(0 <= proof.number < under.executed, "the executed call")
    iteration, number = divmod(proof.number, under.calls)
    call = _call(kernel)
    under.read("call", Record(kernel.call, proof.call), under.at.calls + number, {call.body: _body(kernel)})
    under.read("body", Record(kernel.body, proof.body), under.at.bodies + call.body)
    _require(under.at.bodies + call.body < under.at.calls, "the body's place")
    _require(len(proof.variables) == len(kernel.variables) == len(call.variables), "the number of variables")
    for at, shown, value in zip(call.variables, proof.variables, kernel.variables, strict=True):
        record: Variable = under.read("variable", shown.record, at)
        bound = value - iteration * record.stride
        _require(value in _INT32 and bound in _INT32, "a variable's value")
        root = _climb(merkle.variable_hash(record.name, bound), shown.place, under.at.buffers, "a variable")
        named = merkle.variables_root_of(under.at.buffers, root) == claim.variables
        _require(named and shown.place.number == at, "a variable")
    under.traced(proof.root, proof.place, proof.number, "the call's root")


def check_witness(witness: Witness, claim: Claim) -> None:
    """That every tensor and every leaf is where the claim has it; the kernel is one that `check_call` has passed."""
    under, call, body = _Committed(claim, witness.kernel.header), _call(witness.kernel), _body(witness.kernel)
    iteration = witness.number // under.calls
    used = [tensor.parameter for tensor in witness.tensors]
    _require(used == sorted(set(used)) and all(0 < p < len(body.parameters) for p in used), "the parameters")
    for tensor in witness.tensors:
        under.tensor(tensor, call.arguments[tensor.parameter - 1], iteration)
    roots = {tensor.parameter: tensor.root for tensor in witness.tensors if tensor.place is not None}
    for operand in witness.operands:
        what = f"an operand of parameter {operand.parameter}"
        _require(operand.parameter in roots and len(operand.leaf) == LEAF, what)
        dtype, elements = body.parameters[operand.parameter]
        (leaf,) = merkle.leaf_hashes(operand.leaf)
        root = _climb(leaf, operand.opening, -(-elements * dtype.size // LEAF), what)
        _require(merkle.tensor_root_of(dtype, elements, root) == roots[operand.parameter], what)


def evaluate_step(witness: Witness, *, seen: dict[int, int] | None = None) -> int:
    """The pattern that follows from a witness alone: of the accumulator after the step, or of the stored element.
    `seen` is told what `evaluate_point` tells it.

    The records decide what is evaluated; whether they, the tensors and the variables are those of a claim is for
    `check_call` and `check_witness`. Raises WitnessError if operands are missing, left over or elsewhere, FormatError
    for bad records.
    """
    body = _body(witness.kernel)
    tensors = {tensor.parameter: tensor for tensor in witness.tensors}
    operands = iter(witness.operands)

    def read(parameter: int, element: int) -> int:
        dtype, elements = body.parameters[parameter]
        if parameter not in tensors or not 0 <= element < elements:
            raise WitnessError(f"element {element} of parameter {parameter} is not opened")
        tensor = tensors[parameter]
        if tensor.place is None:
            return _element(dtype, read_record("buffer", tensor.records[0].data).data, element)
        return _opened(dtype, tensor, element, operands)

    _require(len(witness.kernel.variables) == len(body.variables), "the number of variables")
    value = evaluate_point(body, witness.point, witness.kernel.variables, read, seen=seen)
    if next(operands, None) is not None:
        raise WitnessError("an operand is left over")
    return value


def collected(proof: CollectProof, claim: Claim) -> bytes:
    """The outputs root that follows from the claim's trace."""
    under = _Committed(claim, proof.header)
    _require(
        len(proof.records) == under.at.end - under.at.results == len(proof.roots) == len(proof.places),
        "results",
    )
    _require(all(len(sibling) == len(merkle.NOTHING) for sibling in proof.siblings), "results")
    level, left = b"".join(merkle.record_hash(record) for record in proof.records), iter(proof.siblings)
    zero, first = merkle.NOTHING, under.at.results
    for _ in range((under.at.end - 1).bit_length()):
        if first & 1:
            level = next(left, b"") + level
        level, zero, first = merkle.parents(level, zero), merkle.node(zero, zero), first >> 1
    _require(next(left, None) is None and merkle.program_root_of(proof.header, level) == claim.program, "results")
    named: dict[Kind, dict[str, bytes]] = {Kind.OUTPUT: {}, Kind.STATE: {}}
    for data, root, opening in zip(proof.records, proof.roots, proof.places, strict=True):
        result: Result = read_record("result", data)
        number = under.executed - under.calls + result.buffer - (under.at.bodies - under.at.buffers)
        under.traced(root, opening, number, f"the result {result.name!r}")
        named[result.kind][result.name] = root
    return merkle.outputs_root(*(merkle.bindings_root(named[kind]) for kind in (Kind.OUTPUT, Kind.STATE)))


def implied(proof: ResultProof, claim: Claim) -> tuple[int, Kind, bytes]:
    """How many results the program has, of which kind this one is, and its leaf among those by name."""
    under = _Committed(claim, proof.header)
    number = proof.record.opening.number
    _require(under.at.results <= number < under.at.end, "the result record")
    result: Result = under.read("result", proof.record, number)
    written = under.executed - under.calls + result.buffer - (under.at.bodies - under.at.buffers)
    under.traced(proof.root, proof.place, written, f"the result {result.name!r}")
    return under.at.end - under.at.results, result.kind, merkle.binding_hash(result.name, proof.root)


class _Committed:
    """Under a claim: where records and tensors of its program stand."""

    def __init__(self, claim: Claim, header: bytes) -> None:
        if len(header) != HEADER.size:
            raise WitnessError(f"a header of {len(header)} bytes")
        _, _, *counts, _, _ = HEADER.unpack(header)
        self.claim, self.header = claim, header
        self.at: Layout = layout_of(counts)
        self.calls = counts[3]
        self.executed = self.calls * claim.repeat

    def read(self, kind: str, record: Record, number: int, bodies: dict[int, Body] | None = None) -> Any:
        """A record that stands at its place under the program root."""
        root = _climb(merkle.record_hash(record.data), record.opening, self.at.end, f"the {kind} record")
        named = merkle.program_root_of(self.header, root) == self.claim.program
        _require(named and record.opening.number == number, f"the {kind} record")
        return read_record(kind, record.data, bodies or {})

    def traced(self, root: bytes, opening: Opening, number: int, what: str) -> None:
        _require(0 <= number < self.executed and opening.number == number, what)
        _require(_climb(root, opening, self.executed + 1, what) == self.claim.trace, what)

    def tensor(self, tensor: Tensor, buffer: int, iteration: int) -> None:
        what, buffers = f"the tensor of parameter {tensor.parameter}", self.at.bodies - self.at.buffers
        if buffer >= buffers:
            _require(not tensor.records, what)
            self.result(tensor, iteration * self.calls + buffer - buffers, what)
            return
        _require(bool(tensor.records), what)
        record: Buffer = self.read("buffer", tensor.records[0], self.at.buffers + buffer)
        if record.role is Role.STATE and iteration > 0:
            _require(len(tensor.records) == 2, what)
            shown = tensor.records[1]
            _require(shown.opening.number >= self.at.results, what)
            new = self.read("result", shown, shown.opening.number)
            _require(new.kind is Kind.STATE and new.name == record.name, what)
            self.result(tensor, (iteration - 1) * self.calls + new.buffer - buffers, what)
            return
        _require(len(tensor.records) == 1, what)
        if record.role is Role.CONSTANT:
            _require(tensor.place is None, what)
            return
        if not isinstance(tensor.place, Binding):
            raise WitnessError(f"{what} is not bound")
        bound = {Role.INPUT: self.claim.inputs, Role.WEIGHT: self.claim.weights, Role.STATE: self.claim.states}
        root = _climb(merkle.binding_hash(record.name, tensor.root), tensor.place.opening, tensor.place.count, what)
        _require(merkle.bindings_root_of(tensor.place.count, root) == bound[record.role], what)

    def result(self, tensor: Tensor, executed: int, what: str) -> None:
        if not isinstance(tensor.place, Opening):
            raise WitnessError(f"{what} is not opened under the trace")
        self.traced(tensor.root, tensor.place, executed, what)


def _body(kernel: Kernel) -> Body:
    body: Body = read_record("body", kernel.body)
    return body


def _call(kernel: Kernel) -> Call:
    """A call's record says which body is meant, its body how long it is."""
    call: Call = read_record("call", kernel.call, {int.from_bytes(kernel.call[:4], "little"): _body(kernel)})
    return call


def _opened(dtype: DType, tensor: Tensor, element: int, operands: Iterator[Operand]) -> int:
    operand = next(operands, None)
    leaf, within = divmod(element * dtype.size, LEAF)
    if operand is None or (operand.parameter, operand.opening.number) != (tensor.parameter, leaf):
        raise WitnessError(f"element {element} of parameter {tensor.parameter} is not opened")
    return _element(dtype, operand.leaf, within // dtype.size)


def _element(dtype: DType, data: bytes, index: int) -> int:
    return int.from_bytes(data[index * dtype.size : (index + 1) * dtype.size], "little")


def _climb(leaf: bytes, opening: Opening, count: int, what: str) -> bytes:
    """The root above a leaf of a tree with `count` leaves, whose depth and numbers are thereby fixed."""
    _require(0 <= opening.number < count < 1 << 32 and len(opening.path) == (count - 1).bit_length(), what)
    return opening.root(leaf)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise WitnessError(f"{what}: not as in the claim")
