"""Frames of the cluster's wire: what is encoded comes back, and whatever else comes is refused by a typed error."""

import random
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor import errors
from eigentensor.cluster import frames
from eigentensor.cluster.frames import PIECE, Kind, Role, Topic
from eigentensor.cluster.layouts import HEAD, Reader, encode
from eigentensor.cluster.pieces import Gathered, puts
from eigentensor.errors import BindingError, FrameRefused
from eigentensor.numerics.dtypes import DType
from eigentensor.sharding.plan import Compute, Copy, Piece, Receive, Send, WorkerPlan

EVERY = frozenset(Kind)
STORED = [dtype for dtype in DType if dtype is not DType.INDEX]

u64, i32 = st.integers(0, 2**64 - 1), st.integers(-(2**31), 2**31 - 1)
u32 = st.integers(0, 2**32 - 1)
u16 = st.integers(0, 2**16 - 1)
names = st.text(st.characters(codec="utf-8"), max_size=40)
handles = st.lists(u64, max_size=12).map(tuple)
seconds = st.floats(0.0, 1e9).map(abs)
values = st.lists(i32, max_size=4).map(tuple)
signals = st.dictionaries(u32, names, max_size=5).map(lambda named: tuple(sorted(named.items())))
small = st.lists(st.tuples(u16, st.binary(max_size=frames.SMALL)), max_size=frames.SMALLS).map(tuple)
workers = st.lists(st.builds(frames.Worked, names, u64, seconds), max_size=3).map(tuple)


@st.composite
def pieces(draw: st.DrawFn) -> tuple[Any, ...]:
    """The fields of the only piece of a small tensor."""
    dtype, shape = draw(st.sampled_from(STORED)), tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    return (
        draw(u64),
        dtype,
        shape,
        0,
        draw(st.binary(min_size=prod(shape) * dtype.size, max_size=prod(shape) * dtype.size)),
    )


boxes = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=3).map(
    lambda pairs: tuple((min(pair), max(pair)) for pair in pairs)
)


@st.composite
def boxed(draw: st.DrawFn) -> tuple[Any, ...]:
    """The fields of a box of a tensor."""
    box = draw(boxes)
    return draw(u64), tuple(end + 1 + draw(st.integers(0, 5)) for _, end in box), box


@st.composite
def assigned(draw: st.DrawFn) -> frames.Assign:
    """A part of some plan, of a program that is not there."""
    count = draw(st.integers(1, 4))
    pieces = tuple(
        Piece(draw(st.integers(0, 9)), draw(boxes), draw(st.none() | st.integers(0, 2**40))) for _ in range(count)
    )
    number = st.integers(0, count - 1)
    steps = st.lists(
        st.one_of(
            st.builds(Compute, u16, boxes, st.lists(st.none() | number, max_size=3).map(tuple), number),
            st.builds(Copy, number, number, boxes),
            st.builds(Send, number, boxes, u16, u16),
            st.builds(Receive, number, boxes, u16, u16),
        ),
        max_size=4,
    ).map(tuple)
    given = tuple(draw(st.lists(number, max_size=3)))
    plan = WorkerPlan(pieces, given, draw(steps), draw(steps), draw(st.integers(0, 2**40)), draw(st.integers(0, 2**40)))
    root = draw(st.binary(min_size=32, max_size=32))
    return frames.Assign(draw(u64), root, (0, 1, 0), ("unix:/a", draw(names)), ((draw(st.integers(0, 2)), plan),))


SOME = st.one_of(
    boxed().map(lambda fields: frames.Boxed(*fields)),
    boxed().map(lambda fields: frames.Fetch(*fields)),
    assigned(),
    st.builds(frames.Share, u64, u64, handles, handles, values),
    st.builds(frames.Stop, u64),
    st.tuples(u64, u32, u32, pieces()).map(lambda fields: frames.Parcel(*fields[:3], *fields[3])),
    st.builds(frames.Laid, u64, u32, u32, u64, st.sampled_from(STORED), st.integers(0, 2**28), u64),
    st.builds(
        frames.Hello, st.integers(0, 65535), st.integers(0, 65535), st.sampled_from(Role),
        st.binary(min_size=32, max_size=32), st.binary(min_size=16, max_size=16), u32, names, names, u64, names, names,
    ),
    st.builds(frames.Define, st.binary(max_size=200), signals),
    pieces().map(lambda fields: frames.Put(*fields)),
    st.builds(frames.Run, st.binary(min_size=32, max_size=32), handles, handles, values, handles),
    st.builds(frames.Get, u64),
    st.builds(frames.Free, handles),
    st.builds(frames.Configure, names),
    st.builds(frames.Stats),
    st.builds(frames.Fit, st.binary(min_size=32, max_size=32), st.lists(st.tuples(u32, u32), max_size=3).map(tuple)),
    st.builds(frames.Fitted, u64, u64, u64),
    st.builds(frames.Watch, st.sampled_from(Topic)),
    st.builds(frames.Tenant, u64),
    st.builds(frames.End, u64),
    st.builds(frames.Welcome, st.binary(min_size=16, max_size=16), u64, names),
    pieces().map(lambda fields: frames.Value(*fields)),
    st.builds(frames.Statistics, u64, u64, u64, u64, u64, u64, workers, u64),
    st.builds(frames.Report, u64, names),
    st.builds(frames.Failed, u64, u64, names, names, names),
    st.builds(frames.Done, u64, seconds, u32, u64, small),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(SOME, min_size=1, max_size=5), st.integers(1, 2**40), st.integers(0, 2**32))
def test_frames_come_back_as_they_were_however_their_bytes_are_cut(
    some: list[frames.Frame], first: int, seed: int
) -> None:
    data = b"".join(encode(frame, first + number) for number, frame in enumerate(some))
    reader, came, chance = Reader(EVERY, first), list[tuple[int, frames.Frame]](), random.Random(seed)
    while data:
        cut = chance.randint(1, len(data))
        came += reader.feed(data[:cut])
        data = data[cut:]
    assert came == [(first + number, frame) for number, frame in enumerate(some)]
    assert reader.expected == first + len(some)


def fuzzed(chance: random.Random) -> bytes:
    """Bytes that nearly are a frame, or are noise."""
    kind = chance.choice([*Kind, chance.randrange(256)])
    payload = chance.randbytes(chance.choice([0, 1, 8, 9, 20, 49, 64, 100]))
    if chance.random() < 0.5 and len(payload) >= 8:  # small numbers, so that counts and lengths may fit
        payload = bytes(b % 4 if chance.random() < 0.8 else b for b in payload)
    length = len(payload) if chance.random() < 0.9 else chance.randrange(2**32)
    sequence = 1 if chance.random() < 0.95 else chance.randrange(2**64)
    return (
        chance.randbytes(chance.randrange(60)) if chance.random() < 0.1 else HEAD.pack(length, kind, sequence) + payload
    )


def hold(count: int, seed: int) -> tuple[int, int]:
    """Every fuzzed frame is refused, or decoded and equal when it is encoded again; how many were decoded, refused."""
    chance, decoded, refused = random.Random(seed), 0, 0
    for _ in range(count):
        data = fuzzed(chance)
        try:
            came = list(Reader(EVERY).feed(data))
        except FrameRefused:
            refused += 1
            continue
        decoded += len(came)
        assert (
            b"".join(encode(frame, sequence) for sequence, frame in came)
            == data[: sum(len(encode(f, s)) for s, f in came)]
        )
    return decoded, refused


def test_fuzzed_frames_are_refused_or_mean_what_they_say() -> None:
    decoded, refused = hold(3_000, 1)
    assert decoded > 100 and refused > 1_000


@pytest.mark.slow
def test_a_hundred_thousand_fuzzed_frames_are_refused_or_mean_what_they_say() -> None:
    decoded, refused = hold(100_000, 2)
    assert decoded > 4_000 and refused > 50_000


def test_a_tensor_comes_in_pieces_and_no_other_than_those() -> None:
    value = np.arange(PIECE // 2, dtype=np.float32).reshape(2, -1)  # two pieces
    some = list(puts(7, value, DType.FLOAT32))
    assert [(piece.offset, len(piece.data)) for piece in some] == [(0, PIECE), (PIECE, PIECE)]
    data = b"".join(encode(piece, number + 1) for number, piece in enumerate(some))
    assert [frame for _, frame in Reader(EVERY).feed(data)] == some
    gathered = Gathered(some[0])
    for piece in some:
        gathered.add(1, piece)
    assert gathered.is_whole and gathered.array().tobytes() == value.tobytes()
    with pytest.raises(FrameRefused, match="the piece at 0 of tensor 7 should come here"):
        Gathered(some[0]).add(2, some[1])
    for wrong in (
        some[1]._replace(offset=PIECE + 1),
        some[1]._replace(data=b"1234"),
        some[1]._replace(offset=4 * PIECE),
    ):
        with pytest.raises(FrameRefused, match="no piece of"):
            list(Reader(EVERY).feed(encode(wrong, 1)))


def test_bools_that_are_no_bools_and_arrays_of_another_type_are_no_tensors() -> None:
    gathered = Gathered(frames.Put(1, DType.BOOL, (3,), 0, b"\0\1\2"))
    gathered.add(1, frames.Put(1, DType.BOOL, (3,), 0, b"\0\1\2"))
    with pytest.raises(BindingError, match="of bools and holds other bytes"):
        gathered.array()
    with pytest.raises(BindingError, match="an array of float64 holds no float32"):
        list(puts(1, np.zeros(3), DType.FLOAT32))


@pytest.mark.parametrize("kind", Kind)
def test_a_frame_that_says_it_is_too_long_is_refused_before_it_comes(kind: Kind) -> None:
    with pytest.raises(FrameRefused, match="are allowed"):
        list(Reader(EVERY).feed(HEAD.pack(2**32 - 1, kind, 1)))


def test_a_frame_out_of_order_or_of_a_kind_that_may_not_come_is_refused_with_its_number() -> None:
    reader = Reader({Kind.GET})
    assert list(reader.feed(encode(frames.Get(7), 1))) == [(1, frames.Get(7))]
    with pytest.raises(FrameRefused, match="frame 2: GET has the number 3: it is out of order"):
        list(reader.feed(encode(frames.Get(7), 3)))
    with pytest.raises(FrameRefused, match="frame 1: 66 is no kind of frame that may come here"):
        list(Reader({Kind.GET}).feed(encode(frames.Statistics(1, 0, 0, 0, 0, 0), 1)))


@pytest.mark.parametrize(
    "frame",
    [
        frames.Run(bytes(32), (-1,), ()),
        frames.Run(bytes(31), (), ()),
        frames.Get(2**64),
        frames.Hello(1, 1, Role.CLIENT, name="x" * 256),
        frames.Configure("\ud800"),
        frames.Configure("x" * (1 << 21)),
        frames.Done(1, float("nan"), 0),
    ],
)
def test_what_no_frame_has_room_for_is_refused_where_it_is_sent(frame: frames.Frame) -> None:
    with pytest.raises(FrameRefused, match="frame 5"):
        encode(frame, 5)


def test_an_error_comes_as_what_it_is_if_a_session_may_raise_it() -> None:
    for error in (errors.LimitError("too much", fix="Less."), errors.RuleError("bounds", "call 3", "outside")):
        [(_, came)] = Reader(EVERY).feed(encode(frames.failure(9, 4, error), 1))
        assert isinstance(came, frames.Failed) and (came.asked, came.cause) == (9, 4)
        again = frames.error_of(came)
        assert (type(again), again.what, again.fix) == (type(error), error.what, error.fix)
    other = frames.error_of(frames.failure(1, 1, errors.InsufficientFunds("none")))
    assert type(other) is errors.ExecutionError and other.what == "InsufficientFunds: none"
