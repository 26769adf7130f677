"""A worker's part of a plan as bytes, for a worker elsewhere. Integers are little-endian."""

import struct
from collections.abc import Sequence

from eigentensor.regions.boxes import Box
from eigentensor.sharding.plan import Compute, Copy, Piece, Receive, Send, Step, WorkerPlan, pieces_of

_COMPUTE, _COPY, _SEND, _RECEIVE = range(4)
NONE = -1  #: of a place in memory, or a piece


def encode(planned: WorkerPlan) -> bytes:
    """The bytes that `decode` reads."""
    parts = [struct.pack("<I", len(planned.pieces))]
    for piece in planned.pieces:
        parts.append(struct.pack("<Iq", piece.buffer, NONE if piece.offset is None else piece.offset) + _box(piece.box))
    parts.append(_numbers(planned.given))
    for steps in (planned.steps, planned.renewing):
        parts += [struct.pack("<I", len(steps)), *map(_step, steps)]
    return b"".join((*parts, struct.pack("<QQ", planned.shared, planned.held)))


def decode(data: bytes) -> WorkerPlan:
    """The part that these bytes are. Raises ValueError for others, and for steps on pieces that there are not."""
    reading = _Reading(data)
    try:
        pieces = tuple(reading.piece() for _ in range(reading.count()))
        given = reading.numbers()
        steps, renewing = (tuple(reading.step() for _ in range(reading.count())) for _ in range(2))
        shared, held = reading.take("QQ")
    except struct.error as error:
        raise ValueError(f"no part of a plan: {error}") from None
    used = {*given, *(piece for step in (*steps, *renewing) for piece in pieces_of(step))}
    if reading.at != len(data) or not used <= set(range(len(pieces))):
        raise ValueError("no part of a plan: bytes are left over, or a piece is named that there is not")
    return WorkerPlan(pieces, given, steps, renewing, shared, held)


def _box(box: Box) -> bytes:
    return struct.pack(f"<B{2 * len(box)}q", len(box), *(end for interval in box for end in interval))


def _numbers(numbers: Sequence[int | None]) -> bytes:
    return struct.pack(f"<I{len(numbers)}i", len(numbers), *(NONE if n is None else n for n in numbers))


def _step(step: Step) -> bytes:
    match step:
        case Compute(call, box, operands, result):
            return struct.pack("<BII", _COMPUTE, call, result) + _box(box) + _numbers(operands)
        case Copy(source, target, box):
            return struct.pack("<BII", _COPY, source, target) + _box(box)
        case Send(source, box, worker, number):
            return struct.pack("<BIII", _SEND, source, worker, number) + _box(box)
        case Receive(target, box, worker, number):
            return struct.pack("<BIII", _RECEIVE, target, worker, number) + _box(box)


class _Reading:
    """The bytes of a part, taken one after the other. Raises ValueError, struct.error for what is not there."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += struct.calcsize("<" + layout)
        return values

    def count(self) -> int:
        return self.take("I")[0]

    def box(self) -> Box:
        ends = self.take(f"{2 * self.take('B')[0]}q")
        return tuple(zip(ends[::2], ends[1::2], strict=True))

    def numbers(self) -> tuple[int, ...]:
        return self.take(f"{self.count()}i")

    def piece(self) -> Piece:
        buffer, offset = self.take("Iq")
        if offset < NONE:
            raise ValueError("a piece lies before all memory")
        return Piece(buffer, self.box(), None if offset == NONE else offset)

    def step(self) -> Step:
        (kind,) = self.take("B")
        if kind == _COMPUTE:
            call, result = self.take("II")
            return Compute(call, self.box(), tuple(None if n == NONE else n for n in self.numbers()), result)
        if kind == _COPY:
            source, target = self.take("II")
            return Copy(source, target, self.box())
        if kind not in (_SEND, _RECEIVE):
            raise ValueError(f"there is no step {kind}")
        piece, worker, number = self.take("III")
        return (Send if kind == _SEND else Receive)(piece, self.box(), worker, number)
