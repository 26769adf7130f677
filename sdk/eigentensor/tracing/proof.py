"""Whether a witness is one of a claim: all that it shows leads to the roots that the task and the executor fixed."""

from dataclasses import dataclass
from typing import Any

from eigentensor import merkle
from eigentensor.errors import WitnessError
from eigentensor.merkle import LEAF, Opening
from eigentensor.program.codec import HEADER, read_record
from eigentensor.program.model import Body, Buffer, Call, Kind, Role
from eigentensor.tracing.execution import Execution
from eigentensor.tracing.witness import Binding, Record, Tensor, Witness


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


def check_witness(witness: Witness, claim: Claim) -> None:
    """Raises WitnessError unless every record, variable, tensor and leaf of a witness is where the claim has it."""
    _Check(witness, claim).run()


class _Check:
    def __init__(self, witness: Witness, claim: Claim) -> None:
        if len(witness.header) != HEADER.size:
            raise WitnessError(f"a header of {len(witness.header)} bytes")
        _, _, *counts, _, _ = HEADER.unpack(witness.header)
        self.witness, self.claim = witness, claim
        self.variables, self.buffers, self.bodies, self.calls, self.results = counts
        self.executed = self.calls * claim.repeat

    def run(self) -> None:
        witness = self.witness
        _require(0 <= witness.number < self.executed, "the executed call")
        iteration, number = divmod(witness.number, self.calls)
        body_at = witness.body.opening.number - self.variables - self.buffers
        _require(0 <= body_at < self.bodies, "the body's place")
        body: Body = self.read("body", witness.body, witness.body.opening.number)
        place = self.variables + self.buffers + self.bodies + number
        call: Call = self.read("call", witness.call, place, {body_at: body})
        self.bound(call)
        used = [tensor.parameter for tensor in witness.tensors]
        _require(used == sorted(set(used)) and all(0 < p < len(body.parameters) for p in used), "the parameters")
        for tensor in witness.tensors:
            self.tensor(tensor, call.arguments[tensor.parameter - 1], iteration)
        self.operands(body)

    def read(self, kind: str, record: Record, place: int, bodies: dict[int, Body] | None = None) -> Any:
        """A record that stands at its place under the program root."""
        total = self.variables + self.buffers + self.bodies + self.calls + self.results
        root = _climb(merkle.record_hash(record.data), record.opening, total, f"the {kind} record")
        named = merkle.program_root_of(self.witness.header, root) == self.claim.program
        _require(named and record.opening.number == place, f"the {kind} record")
        return read_record(kind, record.data, bodies or {})

    def bound(self, call: Call) -> None:
        _require(len(call.variables) == len(self.witness.variables), "the number of variables")
        for number, variable in zip(call.variables, self.witness.variables, strict=True):
            record = self.read("variable", variable.record, number)
            _require(record.minimum <= variable.value <= record.maximum, "a variable's value")
            leaf = merkle.bound_variable(record.name, variable.value)
            root = _climb(leaf, variable.place.opening, variable.place.count, "a variable")
            _require(merkle.variables_root_of(variable.place.count, root) == self.claim.variables, "a variable")

    def tensor(self, tensor: Tensor, buffer: int, iteration: int) -> None:
        what = f"the tensor of parameter {tensor.parameter}"
        if buffer >= self.buffers:
            _require(not tensor.records, what)
            self.traced(tensor, iteration * self.calls + buffer - self.buffers, what)
            return
        _require(bool(tensor.records), what)
        record: Buffer = self.read("buffer", tensor.records[0], self.variables + buffer)
        if record.role is Role.STATE and iteration > 0:
            _require(len(tensor.records) == 2, what)
            shown = tensor.records[1]
            first = self.variables + self.buffers + self.bodies + self.calls
            _require(shown.opening.number >= first, what)
            new = self.read("result", shown, shown.opening.number)
            _require(new.kind is Kind.STATE and new.name == record.name, what)
            self.traced(tensor, (iteration - 1) * self.calls + new.buffer - self.buffers, what)
            return
        _require(len(tensor.records) == 1, what)
        if record.role is Role.CONSTANT:
            _require(tensor.place is None, what)
            return
        if not isinstance(tensor.place, Binding):
            raise WitnessError(f"{what} is not bound")
        bound = {Role.INPUT: self.claim.inputs, Role.WEIGHT: self.claim.weights, Role.STATE: self.claim.states}
        root = _climb(merkle.binding(record.name, tensor.root), tensor.place.opening, tensor.place.count, what)
        _require(merkle.bindings_root_of(tensor.place.count, root) == bound[record.role], what)

    def traced(self, tensor: Tensor, executed: int, what: str) -> None:
        if not isinstance(tensor.place, Opening):
            raise WitnessError(f"{what} is not opened under the trace")
        root = _climb(tensor.root, tensor.place, self.executed + 1, what)
        _require(root == self.claim.trace and tensor.place.number == executed, what)

    def operands(self, body: Body) -> None:
        """Each leaf under the root of its tensor; which operand is of which LOAD is what evaluation finds out."""
        roots = {tensor.parameter: tensor.root for tensor in self.witness.tensors if tensor.place is not None}
        for operand in self.witness.operands:
            what = f"an operand of parameter {operand.parameter}"
            _require(operand.parameter in roots and len(operand.leaf) == LEAF, what)
            dtype, elements = body.parameters[operand.parameter]
            (leaf,) = merkle.leaf_hashes(operand.leaf)
            root = _climb(leaf, operand.opening, -(-elements * dtype.size // LEAF), what)
            _require(merkle.tensor_root_of(dtype, elements, root) == roots[operand.parameter], what)


def _climb(leaf: bytes, opening: Opening, count: int, what: str) -> bytes:
    """The root above a leaf of a tree with `count` leaves, whose depth and numbers are thereby fixed."""
    _require(0 <= opening.number < count < 1 << 32 and len(opening.path) == (count - 1).bit_length(), what)
    return opening.root(leaf)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise WitnessError(f"{what}: not as in the claim")
