"""Frames as bytes, and back.

    frame = u32 bytes of the payload, u8 kind, u64 sequence number, payload

Integers are little-endian; a text is its length and its UTF-8. A payload has one meaning and one encoding; whatever
else comes is refused with FrameRefused before room is made for it.
"""

import struct
from collections.abc import Callable, Collection, Iterator
from itertools import chain, pairwise
from math import isfinite, prod
from typing import Any, NamedTuple

from eigentensor.cluster.frames import (
    IDENTITY,
    NUMBERS,
    PIECE,
    ROOT,
    SMALL,
    SMALLS,
    TOKEN,
    Assign,
    Boxed,
    Configure,
    Define,
    Done,
    End,
    Failed,
    Fetch,
    Fit,
    Fitted,
    Frame,
    Free,
    Get,
    Hello,
    Kind,
    Laid,
    Parcel,
    Put,
    Report,
    Role,
    Run,
    Share,
    Statistics,
    Stats,
    Stop,
    Tenant,
    Topic,
    Value,
    Watch,
    Welcome,
    Worked,
)
from eigentensor.errors import FrameRefused
from eigentensor.numerics.dtypes import DType
from eigentensor.program.limits import DIMENSIONS, ELEMENTS, NAME_BYTES, OUTPUT_RANGES, PROGRAM_BYTES, volume
from eigentensor.regions.boxes import Box
from eigentensor.sharding import codec

HEAD = struct.Struct("<IBQ")
PLAN_BYTES = 1 << 26  #: of a worker's part of a plan
EXCHANGE = 512  #: of where a worker is reached
TEXT = 1 << 20  #: bytes of the longest text: YAML, a report


def encode(frame: Frame, sequence: int) -> bytes:
    """The bytes of a frame. Raises FrameRefused where a value has no room in one."""
    layout = _OF[type(frame)]
    try:
        payload = layout.pack(frame)
    except (struct.error, ValueError) as error:
        raise FrameRefused(sequence, f"{layout.kind.name} has a value that no frame has room for: {error}") from None
    if len(payload) > layout.most:
        raise FrameRefused(sequence, f"{layout.kind.name} has {len(payload):,} bytes; {layout.most:,} are allowed")
    return HEAD.pack(len(payload), layout.kind, sequence) + payload


class Reader:
    """Bytes as they come → frames, of some kinds alone, in order from sequence number `first` on."""

    def __init__(self, kinds: Collection[Kind], first: int = 1) -> None:
        self.accept(kinds)
        self._bytes, self._at = bytearray(), 0
        self.expected = first  #: the sequence number of the next frame

    def accept(self, kinds: Collection[Kind]) -> None:
        """Frames of these kinds alone may come from now on."""
        self._kinds = frozenset(map(int, kinds))

    def feed(self, data: bytes) -> Iterator[tuple[int, Frame]]:
        """The frames that are whole now, each with its sequence number. Raises FrameRefused: nothing that comes later
        may be read then."""
        self._bytes += data
        try:
            while len(self._bytes) - self._at >= HEAD.size:
                length, kind, sequence = HEAD.unpack_from(self._bytes, self._at)
                layout = self._layout(length, kind, sequence)
                begin = self._at + HEAD.size
                if len(self._bytes) < begin + length:
                    break
                self._at, self.expected = begin + length, sequence + 1
                with memoryview(self._bytes) as held, held[begin : begin + length] as payload:
                    frame = _decoded(layout, payload, sequence)
                yield sequence, frame
        finally:
            del self._bytes[: self._at]
            self._at = 0

    def _layout(self, length: int, kind: int, sequence: int) -> "_Layout":
        if kind not in self._kinds:
            raise FrameRefused(self.expected, f"{kind} is no kind of frame that may come here")
        layout = _BY_KIND[kind]
        if sequence != self.expected:
            raise FrameRefused(self.expected, f"{layout.kind.name} has the number {sequence}: it is out of order")
        if length > layout.most:
            raise FrameRefused(sequence, f"{layout.kind.name} of {length:,} bytes; {layout.most:,} are allowed")
        return layout


class _Payload:
    """The bytes of a payload, taken one part after the other. Raises ValueError for what is not there."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        part = bytes(self.data[self.at : self.at + count])
        if len(part) != count:
            raise ValueError("it ends too early")
        self.at += count
        return part

    def unpack(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack("<" + layout, self.take(struct.calcsize("<" + layout)))

    def number(self, layout: str) -> int:
        (value,) = self.unpack(layout)
        return int(value)

    def text(self, width: str = "B") -> str:
        return self.take(self.number(width)).decode()

    def rest(self) -> bytes:
        return self.take(len(self.data) - self.at)


class _Layout(NamedTuple):
    kind: Kind
    most: int  # bytes
    pack: Callable[[Any], bytes]
    unpack: Callable[[_Payload], Frame]


def _decoded(layout: _Layout, data: memoryview, sequence: int) -> Frame:
    payload = _Payload(data)
    try:
        frame = layout.unpack(payload)
        if payload.at != len(data):
            raise ValueError(f"{len(data) - payload.at:,} bytes are left over")
    except (ValueError, struct.error) as error:
        raise FrameRefused(sequence, f"{layout.kind.name} is malformed: {error}") from None
    return frame


def _text(text: str, width: str = "B") -> bytes:
    data = text.encode()
    return struct.pack("<" + width, len(data)) + data


def _pack_hello(frame: Hello) -> bytes:
    head = struct.pack("<HHBI", frame.version, frame.semantics, frame.role, frame.slots)
    return (
        head
        + _exactly(frame.token, TOKEN)
        + _exactly(frame.session, IDENTITY)
        + _text(frame.name)
        + _text(frame.device)
        + struct.pack("<Q", frame.memory)
        + _text(frame.exchange, "H")
        + _text(frame.node)
    )


def _unpack_hello(payload: _Payload) -> Hello:
    version, semantics, role, slots = payload.unpack("HHBI")
    token, session = payload.take(TOKEN), payload.take(IDENTITY)
    name, device, memory = payload.text(), payload.text(), payload.number("Q")
    exchange, node = payload.text("H"), payload.text()
    return Hello(version, semantics, Role(role), token, session, slots, name, device, memory, exchange, node)


def _exactly(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise struct.error(f"{len(data)} bytes instead of {size}")
    return data


def _pack_define(frame: Define) -> bytes:
    signals = b"".join(struct.pack("<I", call) + _text(name) for call, name in frame.signals)
    return struct.pack("<I", len(frame.program)) + frame.program + struct.pack("<I", len(frame.signals)) + signals


def _unpack_define(payload: _Payload) -> Define:
    program = payload.take(payload.number("I"))
    count = payload.number("I")
    if count > NUMBERS:
        raise ValueError("more signals than there can be calls")
    signals = tuple((payload.number("I"), payload.text()) for _ in range(count))
    if any(one[0] >= next_[0] for one, next_ in pairwise(signals)):
        raise ValueError("the calls of signals do not ascend")
    return Define(program, signals)


def _pack_piece(frame: Put | Value) -> bytes:
    return _pack_part(*frame)


def _pack_part(number: int, dtype: DType, shape: tuple[int, ...], offset: int, data: bytes) -> bytes:
    return struct.pack(f"<QBB{len(shape)}QQ", number, dtype, len(shape), *shape, offset) + data


def _unpack_piece(payload: _Payload) -> tuple[int, DType, tuple[int, ...], int, bytes]:
    number, code, dimensions = payload.unpack("QBB")
    dtype = DType(code)
    if dimensions > DIMENSIONS or dtype is DType.INDEX:
        raise ValueError("there is no such tensor")
    *shape, offset = payload.unpack(f"{dimensions}QQ")
    if volume(shape) > ELEMENTS:
        raise ValueError("no tensor is as large")
    data, size = payload.rest(), prod(shape) * dtype.size
    if offset % PIECE or offset > size or len(data) != min(PIECE, size - offset) or (size and not data):
        raise ValueError(f"no piece of {size:,} bytes begins at {offset:,} and has {len(data):,}")
    return number, dtype, tuple(shape), offset, data


def _pack_run(frame: Run) -> bytes:
    root, inputs, outputs, variables, freed = frame
    i, o, v, f = len(inputs), len(outputs), len(variables), len(freed)
    return struct.pack(
        f"<32s4I{i}Q{o}Q{v}i{f}Q", _exactly(root, ROOT), i, o, v, f, *inputs, *outputs, *variables, *freed
    )


def _unpack_run(payload: _Payload) -> Run:
    root, i, o, v, f = payload.unpack("32s4I")
    if max(i, o, v, f) > NUMBERS:
        raise ValueError("more handles than a frame has")
    numbers = payload.unpack(f"{i}Q{o}Q{v}i{f}Q")
    return Run(root, numbers[:i], numbers[i : i + o], numbers[i + o : i + o + v], numbers[i + o + v :])


def _pack_boxed(frame: Boxed | Fetch) -> bytes:
    handle, axes, box = frame
    ends = [end for interval in box for end in interval]
    if len(ends) != 2 * len(axes):
        raise ValueError("a box has an interval along each axis")
    return struct.pack(f"<QB{3 * len(axes)}Q", handle, len(axes), *axes, *ends)


def _unpack_boxed(payload: _Payload) -> tuple[int, tuple[int, ...], Box]:
    handle, dimensions = payload.unpack("QB")
    axes, ends = payload.unpack(f"{dimensions}Q"), payload.unpack(f"{2 * dimensions}Q")
    box = tuple(zip(ends[::2], ends[1::2], strict=True))
    if any(not start <= end < extent for (start, end), extent in zip(box, axes, strict=True)):
        raise ValueError("the tensor has no such box")
    return handle, axes, box


def _pack_assign(frame: Assign) -> bytes:
    head = struct.pack(
        f"<Q32sI{len(frame.slots)}I", frame.number, _exactly(frame.root, ROOT), len(frame.slots), *frame.slots
    )
    addresses = struct.pack("<I", len(frame.addresses)) + b"".join(_text(one, "H") for one in frame.addresses)
    parts = [(slot, codec.encode(planned)) for slot, planned in frame.parts]
    return head + addresses + b"".join(struct.pack("<II", slot, len(data)) + data for slot, data in parts)


def _unpack_assign(payload: _Payload) -> Assign:
    number, root, count = payload.unpack("Q32sI")
    if count > NUMBERS:
        raise ValueError("more slots than there can be")
    slots = payload.unpack(f"{count}I")
    addresses = tuple(payload.text("H") for _ in range(payload.number("I")))
    parts = []
    while payload.at < len(payload.data):
        slot, size = payload.unpack("II")
        parts.append((slot, codec.decode(payload.take(size))))
    if any(at >= len(addresses) for at in slots) or any(slot >= len(slots) for slot, _ in parts):
        raise ValueError("a slot is nowhere")
    return Assign(number, root, slots, addresses, tuple(parts))


def _pack_share(frame: Share) -> bytes:
    plan, run, inputs, outputs, variables = frame
    i, o, v = len(inputs), len(outputs), len(variables)
    return struct.pack(f"<QQ3I{i}Q{o}Q{v}i", plan, run, i, o, v, *inputs, *outputs, *variables)


def _unpack_share(payload: _Payload) -> Share:
    plan, run, i, o, v = payload.unpack("QQ3I")
    if max(i, o, v) > NUMBERS:
        raise ValueError("more handles than a frame has")
    numbers = payload.unpack(f"{i}Q{o}Q{v}i")
    return Share(plan, run, numbers[:i], numbers[i : i + o], numbers[i + o :])


def _pack_parcel(frame: Parcel) -> bytes:
    return struct.pack("<QII", *frame[:3]) + _pack_part(*frame[3:])


def _unpack_parcel(payload: _Payload) -> Parcel:
    run, sender, receiver = payload.unpack("QII")
    return Parcel(run, sender, receiver, *_unpack_piece(payload))


def _unpack_laid(payload: _Payload) -> Laid:
    run, sender, receiver, number, code, elements, offset = payload.unpack("QIIQBQQ")
    dtype = DType(code)
    if dtype is DType.INDEX or elements > ELEMENTS:
        raise ValueError("there is no such box")
    return Laid(run, sender, receiver, number, dtype, elements, offset)


def _unpack_free(payload: _Payload) -> Free:
    return Free(payload.unpack(f"{len(payload.data) // 8}Q"))


def _pack_statistics(frame: Statistics) -> bytes:
    workers = b"".join(_text(one.name) + struct.pack("<Qd", one.runs, _seconds(one.seconds)) for one in frame.workers)
    return struct.pack("<7QI", *frame[:6], frame.memory, len(frame.workers)) + workers


def _unpack_statistics(payload: _Payload) -> Statistics:
    asked, handles, held, programs, runs, compiled, memory, count = payload.unpack("7QI")
    if count > NUMBERS:
        raise ValueError("more workers than there can be")
    workers = tuple(_unpack_worked(payload) for _ in range(count))
    return Statistics(asked, handles, held, programs, runs, compiled, workers, memory)


def _unpack_worked(payload: _Payload) -> Worked:
    name, (runs, seconds) = payload.text(), payload.unpack("Qd")
    return Worked(name, runs, _seconds(seconds))


def _seconds(value: float) -> float:
    """A duration, for which there is one pattern of zero and none of NaN."""
    if not isfinite(value) or struct.pack("<d", value)[7] & 0x80:
        raise ValueError(f"{value} is no duration")
    return value


def _pack_fit(frame: Fit) -> bytes:
    return struct.pack(f"<32s{2 * len(frame.renewed)}I", _exactly(frame.root, ROOT), *chain(*frame.renewed))


def _unpack_fit(payload: _Payload) -> Fit:
    root = payload.take(ROOT)
    numbers = payload.unpack(f"{(len(payload.data) - ROOT) // 8 * 2}I")
    return Fit(root, tuple(zip(numbers[::2], numbers[1::2], strict=True)))


def _pack_failed(frame: Failed) -> bytes:
    numbers = struct.pack("<QQ", frame.asked, frame.cause)
    return numbers + _text(frame.error) + _text(frame.what, "H") + _text(frame.fix, "H")


def _unpack_failed(payload: _Payload) -> Failed:
    asked, cause = payload.unpack("QQ")
    return Failed(asked, cause, payload.text(), payload.text("H"), payload.text("H"))


def _pack_done(frame: Done) -> bytes:
    head = struct.pack("<QdIQB", frame.asked, _seconds(frame.seconds), frame.compiled, frame.sent, len(frame.small))
    return head + b"".join(struct.pack("<HH", number, len(data)) + data for number, data in frame.small)


def _unpack_done(payload: _Payload) -> Done:
    asked, seconds, compiled, sent, count = payload.unpack("QdIQB")
    small = tuple((payload.number("H"), payload.take(payload.number("H"))) for _ in range(count))
    return Done(asked, _seconds(seconds), compiled, sent, small)


_NAME = 256  # a text of one byte of length
_SHAPE = 8 * DIMENSIONS
_OF: dict[type[Frame], _Layout] = {
    Hello: _Layout(Kind.HELLO, 17 + TOKEN + IDENTITY + 3 * _NAME + 2 + EXCHANGE, _pack_hello, _unpack_hello),
    Define: _Layout(Kind.DEFINE, 8 + PROGRAM_BYTES + NUMBERS * (4 + 1 + NAME_BYTES), _pack_define, _unpack_define),
    Put: _Layout(Kind.PUT, 18 + _SHAPE + PIECE, _pack_piece, lambda payload: Put(*_unpack_piece(payload))),
    Run: _Layout(Kind.RUN, 16 + ROOT + 4 * 8 * NUMBERS, _pack_run, _unpack_run),
    Get: _Layout(Kind.GET, 8, lambda f: struct.pack("<Q", *f), lambda payload: Get(payload.number("Q"))),
    Free: _Layout(Kind.FREE, 8 * NUMBERS, lambda f: struct.pack(f"<{len(f.handles)}Q", *f.handles), _unpack_free),
    Configure: _Layout(Kind.CONFIG, TEXT, lambda f: f.signals.encode(), lambda p: Configure(p.rest().decode())),
    Stats: _Layout(Kind.STATS, 0, lambda f: b"", lambda payload: Stats()),
    Fit: _Layout(Kind.FIT, ROOT + 8 * NUMBERS, _pack_fit, _unpack_fit),
    Fitted: _Layout(Kind.FITTED, 24, lambda f: struct.pack("<3Q", *f), lambda payload: Fitted(*payload.unpack("3Q"))),
    Watch: _Layout(Kind.WATCH, 1, lambda f: struct.pack("<B", f.topic), lambda p: Watch(Topic(p.number("B")))),
    Tenant: _Layout(Kind.TENANT, 8, lambda f: struct.pack("<Q", *f), lambda payload: Tenant(payload.number("Q"))),
    End: _Layout(Kind.END, 8, lambda f: struct.pack("<Q", *f), lambda payload: End(payload.number("Q"))),
    Welcome: _Layout(
        Kind.WELCOME, IDENTITY + 8 + _NAME,
        lambda f: _exactly(f.session, IDENTITY) + struct.pack("<Q", f.taken) + _text(f.name),
        lambda payload: Welcome(payload.take(IDENTITY), payload.number("Q"), payload.text()),
    ),
    Value: _Layout(Kind.VALUE, 18 + _SHAPE + PIECE, _pack_piece, lambda payload: Value(*_unpack_piece(payload))),
    Statistics: _Layout(Kind.STATISTICS, TEXT, _pack_statistics, _unpack_statistics),
    Report: _Layout(
        Kind.REPORT, 8 + TEXT,
        lambda f: struct.pack("<Q", f.asked) + f.line.encode(),
        lambda payload: Report(payload.number("Q"), payload.rest().decode()),
    ),
    Failed: _Layout(Kind.FAILED, 16 + _NAME + 2 * (2 + 0xFFFF), _pack_failed, _unpack_failed),
    Done: _Layout(Kind.DONE, 29 + SMALLS * (4 + SMALL), _pack_done, _unpack_done),
    Boxed: _Layout(Kind.BOX, 9 + 3 * _SHAPE, _pack_boxed, lambda payload: Boxed(*_unpack_boxed(payload))),
    Assign: _Layout(Kind.ASSIGN, PLAN_BYTES, _pack_assign, _unpack_assign),
    Share: _Layout(Kind.SHARE, 28 + 3 * 8 * NUMBERS, _pack_share, _unpack_share),
    Fetch: _Layout(Kind.FETCH, 9 + 3 * 8 * OUTPUT_RANGES, _pack_boxed, lambda payload: Fetch(*_unpack_boxed(payload))),
    Stop: _Layout(Kind.STOP, 8, lambda f: struct.pack("<Q", *f), lambda payload: Stop(payload.number("Q"))),
    Parcel: _Layout(Kind.PARCEL, 34 + _SHAPE + PIECE, _pack_parcel, _unpack_parcel),
    Laid: _Layout(Kind.LAID, 41, lambda f: struct.pack("<QIIQBQQ", *f), _unpack_laid),
}  # fmt: skip
_BY_KIND = {int(layout.kind): layout for layout in _OF.values()}
