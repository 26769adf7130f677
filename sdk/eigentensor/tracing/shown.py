"""What a player shows of its account: records, tensors and leaves, with their places under the roots of a claim."""

from dataclasses import dataclass

from eigentensor.merkle import Opening
from eigentensor.tracing.step import Point


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the program, and its place in the tree of records under the program root."""

    data: bytes
    opening: Opening


@dataclass(frozen=True, slots=True)
class Binding:
    """Where a tensor stands among those that an order names: in a tree of `count` leaves."""

    count: int
    opening: Opening


@dataclass(frozen=True, slots=True)
class Kernel:
    """The program's header, the records of call and body, and the values of the body's variables in an iteration."""

    header: bytes
    call: bytes
    body: bytes
    variables: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the body: its record, and where the value that the order binds stands under the variables root."""

    record: Record
    place: Opening


@dataclass(frozen=True, slots=True)
class CallProof:
    """That a kernel is what executed call `number` executes, and that `root` is what a trace has there."""

    number: int
    kernel: Kernel
    call: Opening
    body: Opening
    variables: tuple[Variable, ...]
    root: bytes
    place: Opening


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
class Operand:
    """A loaded element: the leaf that holds it, and the leaf's place in the tree of its tensor."""

    parameter: int
    leaf: bytes
    opening: Opening


@dataclass(frozen=True, slots=True)
class Witness:
    """Of a point of executed call `number`, whose kernel is known to be its own.

    Operands stand in the order of the LOADs; constants and false guards have none.
    """

    number: int
    kernel: Kernel
    point: Point
    tensors: tuple[Tensor, ...]
    operands: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class ResultProof:
    """A result of the program, and the tensor root that the trace has for it."""

    header: bytes
    record: Record
    root: bytes
    place: Opening


@dataclass(frozen=True, slots=True)
class CollectProof:
    """The outputs root, recomputed: all result records, and for each the tensor root that the trace has.

    `siblings` are the nodes of the records' tree that lie left of the result records, from the bottom up.
    """

    header: bytes
    records: tuple[bytes, ...]
    siblings: tuple[bytes, ...]
    roots: tuple[bytes, ...]
    places: tuple[Opening, ...]
