"""Workers that go away: what they had made is made again elsewhere, with the same bits; clients see time alone."""

import random
from pathlib import Path

import numpy as np
import pytest

from eigentensor.cluster import frames
from eigentensor.cluster.connection import Connection
from eigentensor.cluster.frames import VERSION, Hello, Kind, Role
from eigentensor.errors import ExecutionError, NotAdmitted, WorkerLost
from eigentensor.program.codec import SEMANTICS
from eigentensor_cluster.engine.executing import Programs
from eigentensor_cluster.peers import connect
from eigentensor_cluster.tensors import DEPTH
from support.clusters import F32, Training, added, cluster, data, losses_of, square, stepped


def test_workers_go_away_in_the_middle_of_training_and_the_losses_are_the_same_bits(tmp_path: Path) -> None:
    steps, chance = 60, random.Random(1)
    losses = losses_of(steps, tmp_path / "sound")
    with cluster(tmp_path / "c") as c, c.session() as session:
        workers = [c.joined(), c.joined()]
        training = Training(session)
        for step in range(steps):
            training.step()
            if step % 12 == 11:
                if chance.random() < 0.5:
                    session.get(training.losses[-1])
                workers.pop(0).cancel()
                workers.append(c.joined())
        assert training.read() == losses
        assert c.dispatcher.replays > 0


def test_a_tensor_is_made_again_of_no_more_runs_than_lie_behind_the_last_copy(tmp_path: Path) -> None:
    with cluster(tmp_path / "c") as c, c.session() as session:
        worker = c.joined()
        training = Training(session)
        for _ in range(100):
            training.step()
            session.get(training.losses[-1])
        [inside] = c.dispatcher.sessions.values()
        assert max(tensor.depth for tensor in inside.tensors.values()) <= DEPTH + 1
        rows = 8 * 7 * 4  # bytes of a step's data
        assert inside.kept <= (DEPTH + 2) * rows and session.stats().held == 100 * 4 + 6 * 4
        worker.cancel()
        c.until(lambda: not c.dispatcher.places)
        c.joined()
        assert session.get(training.last).shape == (6, 1)
        assert 0 < c.dispatcher.replays <= DEPTH + 1


def test_memory_and_handles_stay_as_they_are_over_a_thousand_steps(tmp_path: Path) -> None:
    with cluster(tmp_path / "c") as c, c.session() as session:
        c.joined()
        root, last = session.define(added()), 1
        session.put(1, square(), F32)
        session.put(2, square(), F32)
        for step in range(1000):
            session.run(root, {"x": last, "y": 2}, {"output": step + 3}, freed=[last])
            last = step + 3
            if step % 100 == 99:
                session.get(last)
                stats = session.stats()
                assert (stats.handles, stats.held) == (2, 128)
        [inside] = c.dispatcher.sessions.values()
        assert inside.kept <= 128 and not inside.queue and not inside.dropped
        assert len(inside.tensors) == 2


def test_a_run_with_which_three_workers_go_away_is_given_up_and_says_so(tmp_path: Path) -> None:
    """WorkerLost."""
    with cluster(tmp_path / "c") as c, c.session() as session:
        root = session.define(added())
        session.put(1, square(), F32)
        session.run(root, {"x": 1, "y": 1}, {"output": 2})
        session.stats()

        async def leaving() -> None:
            """A worker that takes a run, and goes."""
            peer = await connect(c.address, set(Kind))
            peer.send(Hello(VERSION, SEMANTICS, Role.WORKER, slots=1, name="host", device="CPU"))
            async for chunk in peer.chunks():
                if any(isinstance(frame, frames.Run) for _, frame in chunk):
                    break
            await peer.ended()

        for _ in range(3):
            c.do(leaving())
        with pytest.raises(WorkerLost, match="3 workers that executed it went away"):
            session.get(2)
        c.here()
        session.run(root, {"x": 1, "y": 1}, {"output": 3})
        assert np.array_equal(session.get(3), square() * 2)


def test_a_worker_that_speaks_nonsense_is_let_go_and_its_work_is_done_by_others(tmp_path: Path) -> None:
    with cluster(tmp_path / "c") as c, c.session() as session:
        with pytest.raises(NotAdmitted, match="a worker has 1 to 4,096 slots, not 0"):
            Connection(c.address, Role.WORKER, bytes(32))
        root = session.define(added())
        session.put(1, square(), F32)
        session.run(root, {"x": 1, "y": 1}, {"output": 2})

        async def lying(asked: int, small: tuple[tuple[int, bytes], ...]) -> None:
            peer = await connect(c.address, set(Kind))
            peer.send(Hello(VERSION, SEMANTICS, Role.WORKER, slots=1, name="host", device="CPU"))
            async for chunk in peer.chunks():
                for sequence, frame in chunk:
                    if isinstance(frame, frames.Run):
                        peer.send(frames.Done(asked or sequence, 0.0, 0, 0, small))
            await peer.ended()

        c.do(lying(99, ()))
        c.do(lying(0, ((0, b"too few"),)))
        c.here()
        assert np.array_equal(session.get(2), square() * 2)
        session.run(root, {"x": 1, "y": 1}, {"output": 3})
        assert np.array_equal(session.get(3), square() * 2)


def test_a_fault_of_a_worker_is_an_error_that_whoever_waits_hears_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object) -> None:
        raise ValueError("nobody thought of this")

    monkeypatch.setattr(Programs, "run", fails)
    with cluster(tmp_path / "c") as c, c.session() as session:
        c.joined()
        root = session.define(added())
        session.put(1, square(), F32)
        session.run(root, {"x": 1, "y": 1}, {"output": 2})
        with pytest.raises(ExecutionError, match=r"this worker failed: ValueError.*nobody thought of this"):
            session.get(2)


def test_a_number_that_was_made_is_at_hand_though_its_worker_goes_away(tmp_path: Path) -> None:
    with cluster(tmp_path / "c") as c, c.session() as session:
        worker = c.joined()
        root = session.define(stepped())
        for handle, value in zip((1, 2, 3), (*data(0), np.zeros((6, 1), np.float32)), strict=True):
            session.put(handle, value, F32)
        session.run(root, {"x": 1, "y": 2, "w": 3}, {"new": 4, "loss": 5})
        [inside] = c.dispatcher.sessions.values()
        c.until(lambda: inside.runs == 1)
        worker.cancel()
        c.until(lambda: not c.dispatcher.places)
        loss = session.get(5)
        _, y = data(0)
        assert loss.shape == () and np.isclose(loss, (y * y).sum())


def test_what_is_dropped_and_read_again_before_it_is_freed_stays_where_it_is(tmp_path: Path) -> None:
    with cluster(tmp_path / "c") as c:
        c.here()
        with c.session() as client:
            root = client.define(added(2))
            client.put(1, square(2), F32)
            client.run(root, {"x": 1, "y": 1}, {"output": 2})
            client.get(2)
            (session,) = c.dispatcher.sessions.values()
            tensor = session.tensors[2]

            def read_again() -> list[int]:
                session.take(session.taken, frames.Free((2,)))
                session.use(tensor)
                c.dispatcher.settle(session)
                places = [len(tensor.places)]
                session.leave(tensor)
                c.dispatcher.settle(session)
                return [*places, len(tensor.places)]

            assert c.call(read_again) == [1, 0]
