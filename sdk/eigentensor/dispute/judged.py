"""What a game was about in the end, out of the message that ended it: the step, what it reads, and what it comes to.

The message was checked where it was sent. Here it is read again, by who was not there; DisputeError says that it is
none of a game.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eigentensor.dispute.encoding import kernel_hash
from eigentensor.dispute.entries import Shown, reduction_types
from eigentensor.dispute.moves import Entry, PickSpan
from eigentensor.dispute.position import FINAL, Phase, Position
from eigentensor.dispute.rules import at_final, pick_span, picked_element, point_of
from eigentensor.errors import DisputeError
from eigentensor.merkle import LEAF, Opening
from eigentensor.numerics.dtypes import DType
from eigentensor.program.codec import HEADER, read_record
from eigentensor.program.model import Body, Buffer, Call, Result, Role
from eigentensor.tracing import Kernel, Point, Witness, evaluate_step
from eigentensor.tracing.shown import Binding, Operand, Record, Tensor
from eigentensor.tracing.step import evaluate_point, reduction_dtypes
from eigentensor.tracing.witness import Layout, layout_of


@dataclass(frozen=True, slots=True)
class Judged:
    """The step that a referee was asked about.

    `position` leads down to it, its `high_value` is what the executor claims; `values` are the patterns of the
    instructions that it takes, by number; `computed` is what the referee makes of them.
    """

    position: Position
    witness: Witness
    values: Mapping[int, int]
    computed: int

    @property
    def body(self) -> Body:
        """The body that the disputed call evaluates."""
        body: Body = read_record("body", self.witness.kernel.body)
        return body

    @property
    def dtype(self) -> DType:
        """The type of what is claimed and computed."""
        p = self.position
        return DType(p.dtype) if p.reduction == FINAL else reduction_types(p)[p.reduction]


def judged(position: Position, function: str, arguments: Sequence[Any]) -> Judged:
    """What a message of the contract's `function`, one of JUDGING, had judged: its arguments begin after the position.

    Raises DisputeError for other arguments.
    """
    try:
        at, results, data, repeat = _READ[function](position, arguments)
        point = point_of(at, results)
        witness = read_witness(data, at.number, repeat, point)
        values: dict[int, int] = {}
        return Judged(at, witness, values, evaluate_step(witness, seen=values))
    except DisputeError:
        raise
    except (ValueError, IndexError, KeyError) as error:
        raise DisputeError(f"the message {function} is of no game: {error}") from None


_Asked = tuple[Position, bytes, bytes, int]  # the step, the results claimed for its element, its witness, the repeat


def _of_verdict(position: Position, arguments: Sequence[Any]) -> _Asked:
    claim, results, witness = arguments
    return position, results, witness, _repeat(claim)


def _of_span(position: Position, arguments: Sequence[Any]) -> _Asked:
    span, values, claim, results, witness = arguments
    return pick_span(position, PickSpan(span, values)), results, witness, _repeat(claim)


def _of_final(position: Position, arguments: Sequence[Any]) -> _Asked:
    entry, claim, witness = arguments
    at, results = picked_element(position, Entry(*entry), FINAL)
    return at, results, witness, _repeat(claim)


def _of_call(position: Position, arguments: Sequence[Any]) -> _Asked:
    claim, (number, _, _, descent, leaf, element, witness) = arguments
    kernel = _Bytes(witness).kernel()
    body: Body = read_record("body", kernel.body)
    dtype, elements = body.parameters[0]
    picked = replace(
        position,
        phase=Phase.LEAF,
        number=number,
        level=0,
        index=descent[0],
        dtype=int(dtype),
        elements=elements,
        reductions=int.from_bytes(bytes(reduction_dtypes(body)), "little"),
        kernel=kernel_hash(kernel),
    )
    stored = Shown(picked, leaf, b"").pattern(element)
    return at_final(picked, element, stored, b"", FINAL), b"", witness, _repeat(claim)


def _repeat(claim: Sequence[Any]) -> int:
    return int(claim[5])


_READ: dict[str, Callable[[Position, Sequence[Any]], _Asked]] = {
    "verdict": _of_verdict,
    "judgeSpan": _of_span,
    "judgeFinal": _of_final,
    "judgeCall": _of_call,
}
JUDGING = tuple(_READ)  #: functions of the contract that have a step judged


def read_witness(data: bytes, number: int, repeat: int, point: Point) -> Witness:
    """The inverse of `encoding.witness_bytes`, for a point of executed call `number` of a program that is repeated.

    Raises DisputeError for other bytes, FormatError for bad records.
    """
    reader = _Bytes(data)
    kernel = reader.kernel()
    at = _Program.of(kernel, repeat)
    tensors = tuple(_tensor(reader, at, number) for _ in range(reader.number(1)))
    shown = {tensor.parameter: tensor for tensor in tensors}
    operands: list[Operand] = []

    def read(parameter: int, element: int) -> int:
        dtype, elements = at.body.parameters[parameter]
        if parameter not in shown:
            raise DisputeError(f"parameter {parameter} is not opened")
        if shown[parameter].place is None:
            constant: Buffer = read_record("buffer", shown[parameter].records[0].data)
            return _element(dtype, constant.data, element)
        leaf, within = divmod(element * dtype.size, LEAF)
        bytes_, path = reader.take(LEAF), reader.path(-(-elements * dtype.size // LEAF))
        operands.append(Operand(parameter, bytes_, Opening(leaf, path)))
        return _element(dtype, bytes_, within // dtype.size)

    evaluate_point(at.body, point, kernel.variables, read)
    reader.end()
    return Witness(number, kernel, point, tensors, tuple(operands))


@dataclass(frozen=True, slots=True)
class _Program:
    """What a kernel says of its program, which is executed `calls` times in all."""

    body: Body
    call: Call
    at: Layout
    calls: int
    executed: int

    @classmethod
    def of(cls, kernel: Kernel, repeat: int) -> "_Program":
        body: Body = read_record("body", kernel.body)
        call: Call = read_record("call", kernel.call, {int.from_bytes(kernel.call[:4], "little"): body})
        counts = HEADER.unpack(kernel.header)[2:7]
        return cls(body, call, layout_of(counts), counts[3], counts[3] * repeat)


def _tensor(reader: "_Bytes", of: _Program, number: int) -> Tensor:
    parameter, at = reader.number(1), of.at
    if not 0 < parameter <= len(of.call.arguments):
        raise DisputeError(f"there is no parameter {parameter}")
    buffer, buffers = of.call.arguments[parameter - 1], at.bodies - at.buffers
    iteration = number // of.calls

    def traced(records: tuple[Record, ...], executed: int) -> Tensor:
        root = reader.take(_HASH)
        return Tensor(parameter, root, records, Opening(executed, reader.path(of.executed + 1)))

    if buffer >= buffers:
        return traced((), iteration * of.calls + buffer - buffers)
    record = Record(reader.sized(), Opening(at.buffers + buffer, reader.path(at.end)))
    named: Buffer = read_record("buffer", record.data)
    if named.role is Role.CONSTANT:
        return Tensor(parameter, b"", (record,), None)
    if named.role is Role.STATE and iteration:
        place = at.results + reader.number(2)
        new = Record(reader.sized(), Opening(place, reader.path(at.end)))
        result: Result = read_record("result", new.data)
        return traced((record, new), (iteration - 1) * of.calls + result.buffer - buffers)
    count, place = reader.number(4), reader.number(4)
    root = reader.take(_HASH)
    return Tensor(parameter, root, (record,), Binding(count, Opening(place, reader.path(count))))


_HASH = 32


class _Bytes:
    """Bytes that are read from the front. Raises DisputeError where there are none left."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) != size:
            raise DisputeError(f"a witness ends {size - len(taken)} bytes too early")
        self._at += size
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def sized(self) -> bytes:
        return self.take(self.number(2))

    def path(self, count: int) -> tuple[bytes, ...]:
        """The siblings of a leaf among so many."""
        return tuple(self.take(_HASH) for _ in range(max(0, count - 1).bit_length()))

    def kernel(self) -> Kernel:
        header, call, record = self.take(HEADER.size), self.sized(), self.sized()
        body: Body = read_record("body", record)
        values = (int.from_bytes(self.take(4), "big", signed=True) for _ in body.variables)
        return Kernel(header, call, record, tuple(values))

    def end(self) -> None:
        if self._at != len(self._data):
            raise DisputeError(f"{len(self._data) - self._at} bytes follow a witness")


def _element(dtype: DType, data: bytes, index: int) -> int:
    return int.from_bytes(data[index * dtype.size : (index + 1) * dtype.size], "little")
