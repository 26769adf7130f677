"""Whatever a client sends, a session stays whole: it refuses by one kind of error, and its bytes are those it holds."""

from contextlib import suppress
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor import merkle
from eigentensor.cluster import frames
from eigentensor.errors import FrameRefused
from eigentensor.numerics.dtypes import DType
from eigentensor.program.codec import encode
from eigentensor_cluster.sessions import Quota, Session
from eigentensor_cluster.tensors import Job
from support.clusters import added

ADDED = encode(added(2))
ROOTS = st.sampled_from([merkle.program_root(ADDED), bytes(32)])
handles = st.integers(0, 8)
some = st.lists(handles, max_size=3).map(tuple)
pair, shapes = st.tuples(handles, handles), st.sampled_from([(2, 2), (4,)])

FRAMES = st.one_of(
    st.builds(frames.Put, handles, st.just(DType.FLOAT32), shapes, st.just(0), st.just(bytes(16))),
    st.builds(frames.Run, ROOTS, pair | some, some | handles.map(lambda h: (h,)), st.just(()), some),
    st.builds(frames.Free, some),
    st.builds(frames.Define, st.sampled_from([ADDED, ADDED[:-1], b""])),
    st.builds(frames.Configure, st.sampled_from(["", "a: {shard: {axis: 0}}", "a: 3"])),
    st.builds(frames.Get, handles),
    st.just("done"),
)  # fmt: skip


def done(of: Session, job: Job) -> None:
    """What the dispatcher does when a run is over."""
    of.queue.popleft()
    for tensor in job.outputs:
        tensor.settle()
        of.drop(tensor)
    for tensor in job.recipe.inputs:
        of.leave(tensor)


@settings(max_examples=100, deadline=None)
@given(st.lists(FRAMES, max_size=30))
def test_a_session_stays_whole_whatever_comes(sent: list[frames.Frame | str]) -> None:
    of, sequence = Session(1, bytes(16), "me", Quota(held=100, handles=6, queued=5), count(1)), 1
    of.take(sequence, frames.Define(ADDED))
    for frame in sent:
        if isinstance(frame, str):
            if of.queue:
                done(of, of.queue[0])
            continue
        sequence += 1
        with suppress(FrameRefused):
            of.take(sequence, frame)
        waited = {tensor for job in of.queue for tensor in (*job.recipe.inputs, *job.outputs)}
        counted = {tensor for tensor in {*of.tensors.values(), *waited} if tensor.is_counted}
        assert of.held == sum(tensor.size for tensor in counted) <= 100
        assert all(tensor.is_held for tensor in of.tensors.values()) and 0 not in of.tensors
        assert len(of.tensors) <= 12 and of.kept >= 0
    while of.queue:
        done(of, of.queue[0])
    of.take(sequence + 1, frames.Free(tuple(of.tensors)))
    assert of.held == 0 and not of.tensors
