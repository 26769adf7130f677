"""The witness of one step: everything that its value depends on, opened under the roots of a task and of a claim."""

from collections.abc import Iterator
from dataclasses import dataclass

from eigentensor import merkle
from eigentensor.errors import WitnessError
from eigentensor.merkle import LEAF, Opening
from eigentensor.program.codec import read_record
from eigentensor.program.model import Body, Role
from eigentensor.program.ops import DType
from eigentensor.tracing.execution import Execution
from eigentensor.tracing.hashes import Hashes
from eigentensor.tracing.step import Element, Point, evaluate_point


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the program, and its place in the tree of records under the program root."""

    data: bytes
    opening: Opening


@dataclass(frozen=True, slots=True)
class Binding:
    """Where a tensor, or a variable, stands among those that an order names: in a tree of `count` leaves."""

    count: int
    opening: Opening


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor that the step reads, by parameter, and how its root follows.

    `root` is empty for a constant. `records`: the buffer's, if it has one; then the new state's result, if it is fed
    back. `place` is a Binding under the root of its role, an Opening under the trace, or None for a constant, whose
    elements are in its record.
    """

    parameter: int
    root: bytes
    records: tuple[Record, ...]
    place: Binding | Opening | None


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the body: its record, the value that the order binds, and its place under the variables root."""

    record: Record
    value: int
    place: Binding


@dataclass(frozen=True, slots=True)
class Operand:
    """A loaded element: the leaf that holds it, and the leaf's place in the tree of its tensor."""

    parameter: int
    leaf: bytes
    opening: Opening


@dataclass(frozen=True, slots=True)
class Witness:
    """`number` is the executed call. Operands stand in the order of the LOADs; constants and false guards have none."""

    header: bytes
    number: int
    call: Record
    body: Record
    point: Point
    variables: tuple[Variable, ...]
    tensors: tuple[Tensor, ...]
    operands: tuple[Operand, ...]


def evaluate_step(witness: Witness) -> int:
    """The pattern that follows from a witness alone: of the accumulator after the step, or of the stored element.

    The records decide what is evaluated; whether they, the tensors and the variables are those of a claim is for
    `check_witness`. Raises WitnessError if operands are missing, left over or elsewhere, FormatError for bad records.
    """
    body: Body = read_record("body", witness.body.data)
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

    variables = [_value(witness, variable) for variable in witness.variables]
    if len(variables) != len(body.variables):
        raise WitnessError(f"{len(variables)} variables, the body has {len(body.variables)}")
    value = evaluate_point(body, witness.point, variables, read)
    if next(operands, None) is not None:
        raise WitnessError("an operand is left over")
    return value


def witness_of(execution: Execution, element: Element, point: Point) -> Witness:
    """The witness of a point of an element, out of an account."""
    header, records = execution.encoded
    tree, program = execution.records, execution.program
    iteration, call = divmod(element.number, len(program.calls))
    buffers = len(program.variables)
    bodies = buffers + len(program.buffers)
    calls = bodies + len(program.bodies)
    results = calls + len(program.calls)

    def record(number: int) -> Record:
        return Record(records[number], tree.opening(number))

    def tensor(parameter: int) -> Tensor:
        buffer = program.calls[call].arguments[parameter - 1]
        source = execution.source(buffer, iteration)
        if source is not None:
            shown: tuple[Record, ...] = ()
            if buffer < len(program.buffers):
                new = program.new_states[program.buffers[buffer].name]
                shown = record(buffers + buffer), record(results + program.results.index(new))
            return Tensor(parameter, execution.calls[source], shown, execution.trace.opening(source))
        given = program.buffers[buffer]
        if given.role is Role.CONSTANT:
            return Tensor(parameter, b"", (record(buffers + buffer),), None)
        bound = execution.bound_tensors[given.role]
        leaves = Hashes(tuple(merkle.binding(name, bound[name]) for name in sorted(bound)))
        place = Binding(len(bound), leaves.opening(sorted(bound).index(given.name)))
        return Tensor(parameter, bound[given.name], (record(buffers + buffer),), place)

    def variable(number: int) -> Variable:
        leaves = Hashes(tuple(merkle.bound_variable(v.name, execution.variables[v.name]) for v in program.variables))
        place = Binding(len(program.variables), leaves.opening(number))
        return Variable(record(number), execution.variables[program.variables[number].name], place)

    arguments = execution.arguments(element.number)
    constants = {
        parameter
        for parameter, buffer in enumerate(program.calls[call].arguments, 1)
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
    return Witness(
        header,
        element.number,
        record(calls + call),
        record(bodies + program.calls[call].body),
        point,
        tuple(variable(number) for number in program.calls[call].variables),
        tuple(tensor(parameter) for parameter in sorted(used)),
        tuple(operands),
    )


def _value(witness: Witness, variable: Variable) -> int:
    """A variable in the iteration of the executed call."""
    calls = int.from_bytes(witness.header[16:20], "little")
    if not calls:
        raise WitnessError("a header without calls")
    stride: int = read_record("variable", variable.record.data).stride
    return variable.value + witness.number // calls * stride


def _opened(dtype: DType, tensor: Tensor, element: int, operands: Iterator[Operand]) -> int:
    operand = next(operands, None)
    leaf, within = divmod(element * dtype.size, LEAF)
    if operand is None or (operand.parameter, operand.opening.number) != (tensor.parameter, leaf):
        raise WitnessError(f"element {element} of parameter {tensor.parameter} is not opened")
    return _element(dtype, operand.leaf, within // dtype.size)


def _element(dtype: DType, data: bytes, index: int) -> int:
    return int.from_bytes(data[index * dtype.size : (index + 1) * dtype.size], "little")
