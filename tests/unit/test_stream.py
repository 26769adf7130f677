"""Streams: what a segment's key holds, what is stored, and what is let go."""

import numpy as np
import pytest

from eigentensor.cluster.local import LocalSession
from eigentensor.cluster.tiers import Tiers
from eigentensor.errors import BindingError, CaptureError
from eigentensor.graph import GraphBuilder
from eigentensor.numerics.dtypes import DType
from eigentensor.reference import execute
from eigentensor.stream.draws import threefry
from eigentensor.stream.operations import BETWEEN, OPERATIONS, decoded, encoded, kind_of, subscript
from eigentensor.stream.recorder import Recorder, Value
from eigentensor.stream.segment import Key, Segment


@pytest.fixture
def own() -> Recorder:
    return Recorder(LocalSession(tiers=Tiers(most=1 << 60, sight=1 << 60)))


def given(own: Recorder, *numbers: float) -> Value:
    return own.put(np.array(numbers, np.float32), DType.FLOAT32)


def segments(own: Recorder) -> list[Segment]:
    """The segments that are sent from here on."""
    sent: list[Segment] = []

    def note(_: bytes, __: Key, segment: Segment) -> None:
        sent.append(segment)

    own.sent = note
    return sent


def test_what_differs_in_wiring_shape_or_argument_is_another_segment(own: Recorder) -> None:
    """The counter-examples to a key of operations and numbers of inputs."""
    x, a, wide = given(own, 1, 2), given(own, 10, 20), own.put(np.eye(3, 2, dtype=np.float32), DType.FLOAT32)
    assert own.read(own.emit("sub", None, x, a)).tolist() == [-9, -18]
    assert own.read(own.emit("sub", None, a, x)).tolist() == [9, 18]
    assert own.read(own.emit("sum", (0, False), wide)).tolist() == [1, 1]
    assert own.read(own.emit("sum", (1, False), wide)).tolist() == [1, 1, 0]
    assert own.read(own.emit("sub", (0, encoded(1)), x)).tolist() == [0, -1]
    assert own.read(own.emit("sub", (1, encoded(1)), x)).tolist() == [0, 1]
    assert own.session.stats().programs == 5  # the first two are one program, on inputs in another order
    assert own.read(own.emit("sub", None, x, a)).tolist() == [-9, -18]
    assert own.session.stats().programs == 5


def test_numbers_that_are_equal_but_not_the_same_are_told_apart(own: Recorder) -> None:
    whole, zero = own.put(np.array([1], np.int32), DType.INT32), given(own, -0.0)
    kinds = [own.emit("add", (1, encoded(number)), whole).kind.dtype for number in (1, 1.0, True)]
    assert kinds == [DType.INT32, DType.FLOAT32, DType.INT32]
    signs = [np.signbit(own.read(own.emit("add", (1, encoded(number)), zero)))[0] for number in (0.0, -0.0)]
    assert signs == [False, True]
    for number in (0.0, -0.0, 1, True, False, 0.1, float("inf"), 1 << 40):
        assert repr(decoded(encoded(number))) == repr(number)
    assert encoded(float("nan")) == encoded(float("nan"))


def test_only_what_somebody_holds_is_stored_and_what_nobody_needs_is_not_computed(own: Recorder) -> None:
    sent = segments(own)
    x = given(own, 1, 2)
    middle = own.emit("exp", None, x)
    result = own.emit("add", None, middle, x)
    unused = own.emit("tanh", None, given(own, 3, 4))
    del middle, unused
    own.read(result)
    (segment,) = sent
    assert len(segment.program.outputs) == 1 and len(segment.program.calls) == 1
    assert list(segment.inputs) == [0]


def test_tensors_are_freed_when_nobody_holds_their_values(own: Recorder) -> None:
    x = given(own, 1, 2)
    for _ in range(5):
        x = own.emit("add", None, x, x)
        own.read(x)
    assert len(own) == 1 and own.session.stats().handles <= 2
    del x
    own.read(own.emit("full", ((1,), DType.FLOAT32, encoded(0.0))))
    assert own.session.stats().handles == 1


def test_a_segment_ends_when_it_is_long_and_before_a_turn_goes_on(own: Recorder) -> None:
    sent, x = segments(own), given(own, 1)
    own.longest = 4
    values = [own.emit("add", (1, number), x) for number in range(1, 8)]
    assert [len(s.program.outputs) for s in sent] == [3, 3] and len(own.pending()) == 2
    assert [own.read(value)[0] for value in values] == [2, 3, 4, 5, 6, 7, 8]
    let_go = own.emit("mul", None, x, x)
    kept = own.emit("exp", None, let_go)
    own.turn()
    del let_go
    own.emit("neg", None, kept)
    assert len(sent[-1].program.outputs) == 1 and len(own.pending()) == 2


def looped(own: Recorder, seen: list[Segment]) -> tuple[list[bytes], int]:
    """What a loop leaves that nobody looks into, and how many segments it took."""
    x, y = given(own, 0.1, 0.7), given(own, 0.3, -2)
    kept = x
    for number in range(15):
        x = own.emit("tanh", None, own.emit("add", None, own.emit("mul", None, x, y), y))
        if number == 7:
            kept = x
    before = len(seen)
    results = [own.read(value).tobytes() for value in (x, kept)]
    return results, before + 1


def test_segments_that_follow_each_other_again_and_again_become_one_with_the_same_bits(own: Recorder) -> None:
    sent = segments(own)
    own.longest, own.sights = 9, 3
    results, counts = [], []
    for _ in range(8):
        before = len(sent)
        result, after = looped(own, sent)
        results.append(result)
        counts.append(after - before)
        if own.joiner is not None:
            own.joiner.join(60)
    assert all(result == results[0] for result in results)
    assert counts[-1] <= 4 < counts[0], counts
    assert max(len(segment.inputs) for segment in sent) == 2


def test_a_value_of_another_session_is_refused(own: Recorder) -> None:
    other = Recorder(LocalSession())
    x, y = given(own, 1), given(other, 2)
    for foreign in (y, other.emit("neg", None, y)):
        with pytest.raises(BindingError, match="another session"):
            own.emit("add", None, x, foreign)


def test_a_segment_that_is_no_program_fails_whoever_reads_it_and_the_next_one_does_not(own: Recorder) -> None:
    own.longest = 1 << 20
    x = given(own, 1)
    many = [own.emit("add", (1, number), x) for number in range(1, 1100)]  # more results than a program has
    with pytest.raises(CaptureError, match="no valid program"):
        own.read(many[0])
    with pytest.raises(CaptureError, match="no valid program"):
        own.read(many[1])
    with pytest.raises(CaptureError, match="no valid program"):
        own.emit("neg", None, many[2])
    assert own.read(own.emit("add", (1, 1), x)).tolist() == [2]


def test_mistakes_are_refused_when_they_are_recorded(own: Recorder) -> None:
    with pytest.raises(CaptureError, match=r"do not broadcast \(.*test_stream\.py"):
        own.emit("add", None, given(own, 1, 2), given(own, 1, 2, 3))
    for key in (1.5, True, "a"):
        with pytest.raises(CaptureError, match="is no index"):
            subscript(key)
    assert own.pending() == []


def test_kinds_are_one_object_each_and_every_operation_between_two_is_there() -> None:
    assert kind_of((2, 3), DType.INT32) is kind_of((2, 3), DType.INT32)
    assert kind_of((2, 3), DType.INT32) is not kind_of((2, 3), DType.UINT32)
    assert set(BETWEEN) <= set(OPERATIONS)


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [  # the known answers of Random123 for threefry2x32 with 20 rounds
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_random_words_are_those_of_threefry(
    counter: tuple[int, int], key: tuple[int, int], words: tuple[int, int]
) -> None:
    builder = GraphBuilder()
    numbers = [builder.input(name, (), "uint32") for name in "abcd"]
    first, second = threefry((numbers[0], numbers[1]), (numbers[2], numbers[3]))
    program = builder.compile({"x": first, "y": second}, fingerprint=False).program
    inputs = {name: np.uint32(number) for name, number in zip("abcd", (*key, *counter), strict=True)}
    outputs = execute(program, inputs).outputs
    assert (int(outputs["x"]), int(outputs["y"])) == words
