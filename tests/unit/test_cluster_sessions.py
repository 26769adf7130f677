"""What frames do to a session: names are settled when they come, what fails is poison, quotas hold."""

from itertools import count
from typing import Any

import numpy as np
import pytest

from eigentensor import merkle
from eigentensor.cluster import frames
from eigentensor.cluster.frames import PIECE
from eigentensor.cluster.pieces import puts
from eigentensor.errors import BindingError, FormatError, FrameRefused, LimitError
from eigentensor.numerics.dtypes import DType
from eigentensor.program.codec import encode
from eigentensor_cluster.sessions import Quota, Session
from eigentensor_cluster.tensors import Poison, revived
from support.clusters import F32, added, square
from support.programs.worked_examples import layer

ADDED = encode(added())
ROOT = merkle.program_root(ADDED)


def session(**quota: int) -> Session:
    return Session(1, bytes(16), "me", Quota(**quota), count(100))


class Client:
    """Frames to a session, numbered as a connection numbers them."""

    def __init__(self, of: Session) -> None:
        self.of, self.sequence = of, 1

    def send(self, *some: frames.Frame) -> int:
        for frame in some:
            self.sequence += 1
            self.of.take(self.sequence, frame)
        return self.sequence

    def put(self, handle: int, value: Any = None) -> int:
        return self.send(*puts(handle, square() if value is None else value, F32))


def poison(of: Session, handle: int) -> Poison:
    poisoned = of.tensors[handle].poison
    assert poisoned is not None
    return poisoned


def test_a_run_waits_in_order_and_is_of_what_its_names_stood_for() -> None:
    client = Client(of := session())
    client.send(frames.Define(ADDED))
    client.put(1), client.put(2)
    one = of.tensors[1]
    client.send(frames.Run(ROOT, (1, 2), (3,), freed=(1,)), frames.Run(ROOT, (3, 2), (4,)))
    client.put(1, square(scale=2.0))  # another tensor
    first, second = of.queue
    assert first.recipe.inputs == (one, of.tensors[2]) and first.is_ready and not second.is_ready
    assert second.recipe.inputs[0] is first.outputs[0] is of.tensors[3]
    assert (of.tensors[4].shape, of.tensors[4].dtype) == ((4, 4), F32)
    assert of.held == 5 * 64 and not of.dropped  # the first one is needed still
    assert of.statistics(9, 77) == frames.Statistics(9, 4, 320, 1, 0, 0, memory=77)


def test_what_fails_names_its_frame_and_poisons_what_is_made_of_it() -> None:
    client = Client(of := session())
    client.send(frames.Define(ADDED))
    client.put(1)
    failing = client.send(frames.Run(ROOT, (1, 77), (3,)))
    client.send(frames.Run(ROOT, (3, 1), (4,)))
    for handle in (3, 4):
        assert poison(of, handle).cause == failing
        assert str(poison(of, handle).error) == "there is no tensor 77 for 'y'"
    unknown = client.send(frames.Run(bytes(32), (1,), (5,)))
    assert poison(of, 5).cause == unknown and "is not defined in this session" in str(poison(of, 5).error)
    client.put(6, square(3))
    client.send(frames.Run(ROOT, (1, 6), (7,)), frames.Run(ROOT, (1,), (8,)), frames.Run(ROOT, (1, 1), (9,), (3,)))
    assert "'y': expected float32 of shape (4, 4), given float32 of shape (3, 3)" in str(poison(of, 7).error)
    assert isinstance(poison(of, 8).error, BindingError) and isinstance(poison(of, 9).error, BindingError)
    assert not of.queue and poison(of, 7).answer(11).asked == 11


def test_bytes_that_are_no_program_and_programs_with_weights_are_refused_where_they_are_run() -> None:
    client = Client(of := session())
    broken = bytearray(ADDED)
    broken[28 + 4 + 4 + 1] = 99  # a dtype that there is not
    for data, kind in ((bytes(broken), FormatError), (encode(layer().program), BindingError)):
        cause = client.send(frames.Define(data))
        client.send(frames.Run(merkle.program_root(data), (), (cause,)))
        assert poison(of, cause).cause == cause and isinstance(poison(of, cause).error, kind)
    with pytest.raises(FrameRefused, match="DEFINE is of no program: header: begins with"):
        client.send(frames.Define(b"nonsense"))


def test_of_many_programs_those_are_forgotten_that_were_defined_or_run_longest_ago() -> None:
    client = Client(of := session(programs=2))
    client.send(frames.Define(ADDED), frames.Define(encode(added(3))))
    client.put(1)
    client.send(frames.Run(ROOT, (1, 1), (2,)), frames.Define(encode(added(5))))
    gone = client.send(frames.Run(merkle.program_root(encode(added(3))), (1, 1), (3,)))
    client.send(frames.Run(ROOT, (1, 1), (4,)))
    assert of.tensors[2].poison is of.tensors[4].poison is None and len(of.programs) == 2
    assert poison(of, 3).cause == gone and "is not defined in this session" in str(poison(of, 3).error)
    assert len(of.queue) == 2 and of.queue[0].recipe.defined.root == ROOT  # what waits keeps its program


def test_a_session_holds_no_more_than_its_quota() -> None:
    client = Client(of := session(held=200, handles=5))
    client.send(frames.Define(ADDED))
    for handle in (1, 2, 3):
        client.put(handle)
    refused = client.put(4)
    assert (poison(of, 4).cause, of.held) == (refused, 192)
    client.send(frames.Run(ROOT, (1, 2), (5,)))
    assert isinstance(poison(of, 5).error, LimitError) and "holds 200 bytes at most" in str(poison(of, 5).error)
    client.send(frames.Free((3, 4, 99)), frames.Run(ROOT, (1, 2), (6,)))
    assert of.tensors[6].poison is None and of.held == 192
    client.send(frames.Free((1, 2, 5)))
    client.put(7, square(2))
    assert poison(of, 7)  # what waits for the run is held still
    for handle in (8, 9, 10):
        client.put(handle, np.zeros((0, 1), np.float32))
    assert "has 5 tensors at most" in str(poison(of, 10).error)


def test_pieces_of_a_tensor_that_is_refused_are_passed_over() -> None:
    client = Client(of := session(held=PIECE))
    client.put(1, np.zeros((2 * PIECE,), np.float32))
    assert isinstance(poison(of, 1).error, LimitError) and of.held == 0
    client.put(2)
    assert of.tensors[2].copy is not None


@pytest.mark.parametrize(
    ("some", "what"),
    [
        ([frames.Put(0, DType.BOOL, (1,), 0, b"\1")], "the number 0 was given before"),
        ([frames.Put(1, DType.BOOL, (1,), 0, b"\1")] * 2, "the number 1 was given before"),
        ([frames.Run(ROOT, (), (4, 4))], "a number is given twice"),
        ([frames.Put(1, DType.BOOL, (PIECE + 1,), 0, bytes(PIECE)), frames.Free((1,))], "the rest of tensor 1"),
        ([frames.Put(1, DType.BOOL, (PIECE + 1,), PIECE, b"\0")], "tensor 1 begins in its middle"),
    ],
)
def test_what_no_client_sends_is_refused(some: list[frames.Frame], what: str) -> None:
    client = Client(session())
    with pytest.raises(FrameRefused, match=what):
        client.send(*some)


def test_what_was_lost_is_made_again_in_an_order_that_can_be_executed() -> None:
    client = Client(of := session())
    client.send(frames.Define(ADDED))
    client.put(1)
    client.send(frames.Run(ROOT, (1, 1), (2,)), frames.Run(ROOT, (2, 1), (3,)), frames.Run(ROOT, (2, 3), (4,)))
    made = [job.outputs[0] for job in of.queue]
    for tensor in made:  # as if all had been executed where nothing is left
        tensor.is_pending = False
        tensor.uses = 0
    of.queue.clear()
    jobs = revived(made[2])
    assert [job.outputs for job in jobs] == [[made[0]], [made[1]], [made[2]]]
    assert all(tensor.is_pending for tensor in made) and revived(made[2]) == []


def test_what_came_from_the_client_is_kept_as_long_as_something_is_made_of_it_and_no_longer() -> None:
    client = Client(of := session())
    client.send(frames.Define(ADDED))
    client.put(1)
    client.send(frames.Run(ROOT, (1, 1), (2,), freed=(1,)))
    [job] = of.queue
    of.queue.clear()
    job.outputs[0].is_pending = False
    for tensor in job.recipe.inputs:
        of.leave(tensor)
    assert (of.held, of.kept) == (64, 64)
    del job, tensor
    of.dropped.clear()
    client.send(frames.Free((2,)))
    of.dropped.clear()
    assert (of.held, of.kept) == (0, 0)
