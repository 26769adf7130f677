"""One program on several workers of a cluster: the bits of one, boxes from worker to worker, nothing by the door."""

import asyncio
import os
import signal
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from eigentensor.cluster import frames
from eigentensor.cluster.address import parse
from eigentensor.cluster.frames import VERSION, Hello, Kind, Role
from eigentensor.cluster.layouts import encode
from eigentensor.cluster.pieces import parcels
from eigentensor.errors import ExecutionError, LimitError, WorkerLost
from eigentensor.numerics.dtypes import DType
from eigentensor.program import Program
from eigentensor.program.codec import SEMANTICS
from eigentensor.runtime.sharded.mail import MailClosed
from eigentensor_cluster.engine import executing
from eigentensor_cluster.engine.exchange import Exchange
from eigentensor_cluster.peers import connect
from eigentensor_cluster.tokens import Member
from support.clusters import F32, Cluster, added, children, cluster, square
from support.programs import sharded
from support.programs.placements import PLACES, along, in_stages
from support.sharing import Shared, Steps, alike, expected, moved, placed, sent, through_dispatcher

REFERENCE = "PYTHON"


def workers(c: Cluster, count: int, memory: int = 0) -> None:
    for _ in range(count):
        c.joined(device=REFERENCE, memory=memory)


@pytest.mark.parametrize("place", PLACES)
def test_a_run_on_several_workers_has_the_bits_of_the_reference(place: str, tmp_path: Path) -> None:
    program, tensors = sharded.captured("mlp step").program, sharded.tensors("mlp step")
    with cluster(tmp_path / "c") as c, c.session() as session:
        workers(c, 2)
        shared = Shared(session, program, PLACES[place](program, 2))
        assert alike(shared.once(tensors), expected(program, tensors))
        log = c.dispatcher.log.entries()
        assert moved(log) == sent(log)


@pytest.mark.parametrize("place", ["along the batch", "along features or channels", "in stages"])
def test_a_run_in_the_sandboxes_of_several_workers_has_the_bits_of_the_reference(place: str, tmp_path: Path) -> None:
    program, tensors = sharded.captured("mlp").program, sharded.tensors("mlp")
    with cluster(tmp_path / "c") as c, c.session() as session, c.session() as other:
        for is_trusting in (False, place == "in stages"):
            c.joined(device=REFERENCE, is_trusting=is_trusting)
        shared = Shared(session, program, PLACES[place](program, 2))
        assert alike(shared.once(tensors), expected(program, tensors))
        log = c.dispatcher.log.entries()
        assert moved(log) == sent(log) and len(placed(log)) == len(program.calls)
        if place == "along the batch":  # another session has processes of its own, and whole programs too
            other.put(1, square(6), F32)
            other.run(other.define(added(6)), {"x": 1, "y": 1}, {"output": 2})
            assert np.array_equal(other.get(2), square(6) * 2) and len(children()) == 3


def test_processes_are_killed_in_the_middle_of_shared_steps_and_no_bit_changes(tmp_path: Path) -> None:
    program, count = sharded.captured("mlp step").program, 8
    with cluster(tmp_path / "c") as c, c.session() as session:
        for _ in range(2):
            c.joined(device=REFERENCE, is_trusting=False)
        steps = Steps(Shared(session, program, along(0)(program, 2)))
        for step in range(count):
            steps.step()
            if step in (2, 5):
                session.get(steps.losses[0])
                os.kill(max(children()), signal.SIGKILL)
        assert steps.read() == alone(count, tmp_path / "alone")
        assert len(c.dispatcher.places) == 2


def test_a_process_that_hangs_or_is_always_killed_ends_its_run_with_an_error_and_the_workers_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, tensors = sharded.captured("mlp").program, sharded.tensors("mlp")
    over = threading.Event()

    def killing() -> None:
        while not over.wait(0.01):
            for child in children():
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)

    with cluster(tmp_path / "c") as c, c.session() as session:
        for _ in range(2):
            c.joined(device=REFERENCE, is_trusting=False)
        shared = Shared(session, program, along(1)(program, 2))
        assert alike(shared.once(tensors), expected(program, tensors))
        with monkeypatch.context() as patch, pytest.raises(LimitError, match="took too long"):
            patch.setattr(executing, "SECONDS", 0.5)
            os.kill(max(children()), signal.SIGSTOP)
            shared.once(tensors)
        killer = threading.Thread(target=killing)
        killer.start()
        try:
            with pytest.raises(WorkerLost, match="3 workers that executed it went away"):
                shared.once(tensors)
        finally:
            over.set()
            killer.join()
        assert len(c.dispatcher.places) == 2
        assert alike(shared.once(tensors), expected(program, tensors))


def test_the_log_says_what_signals_wanted_and_what_was_moved(tmp_path: Path) -> None:
    program, tensors = sharded.captured("mlp").program, sharded.tensors("mlp")
    with cluster(tmp_path / "c") as c, c.session() as session:
        workers(c, 2)
        wanted = {
            "data": (along(0), [{0: "0:3,0:15", 1: "4:7,0:15"}, {0: "0:3,0:5", 1: "4:7,0:5"}], 0),
            "tensor": (along(1), [{0: "0:7,0:7", 1: "0:7,8:15"}, {0: "0:7,0:2", 1: "0:7,3:5"}], 2 * 8 * 8 * 4),
            "pipeline": (in_stages, [{0: "0:7,0:15"}, {1: "0:7,0:5"}], 8 * 16 * 4),
        }
        for hints, boxes, size in wanted.values():
            before = len(c.dispatcher.log.entries())
            shared = Shared(session, program, hints(program, 2))
            shared.next = before * 100
            assert alike(shared.once(tensors), expected(program, tensors))
            log = c.dispatcher.log.entries()[before:]
            assert [placed(log)[call] for call in sorted(placed(log))] == boxes
            assert moved(log) == sent(log) == size


def alone(steps: int, folder: Path) -> list[bytes]:
    """The same on one worker."""
    with cluster(folder) as c, c.session() as session:
        c.here(device=REFERENCE)
        of = Steps(Shared(session, sharded.captured("mlp step").program))
        for _ in range(steps):
            of.step()
        return of.read()


def test_states_stay_where_they_are_and_nothing_goes_by_the_dispatcher(tmp_path: Path) -> None:
    program = sharded.captured("mlp step").program
    with cluster(tmp_path / "c") as c, c.session() as session:
        workers(c, 2)
        steps = Steps(Shared(session, program, along(0)(program, 2)))
        steps.step()
        session.get(steps.losses[0])
        before = len(c.dispatcher.log.entries())
        for _ in range(5):
            steps.step()
        session.stats()
        c.until(lambda: next(iter(c.dispatcher.sessions.values())).runs == 6)
        log = c.dispatcher.log.entries()[before:]
        assert through_dispatcher(log) == 0 and moved(log) == sent(log) > 0
        assert steps.read() == alone(6, tmp_path / "alone")


def test_seven_rows_lie_on_three_workers_and_slots_are_workers_wherever_they_are(tmp_path: Path) -> None:
    network = sharded.Network(lambda: sharded.Mlp(12, 16, 6), (7, 12))
    graph = network.captured()
    tensors = {"x": network.input, **{name: np.asarray(weight) for name, weight in graph.weights.items()}}
    with cluster(tmp_path / "c") as c, c.session() as session:
        c.here(slots=2, device=REFERENCE)
        workers(c, 1)
        shared = Shared(session, graph.program, along(0)(graph.program, 3))
        assert alike(shared.once(tensors), expected(graph.program, tensors))
        log = c.dispatcher.log.entries()
        assert placed(log)[0] == {0: "0:1,0:15", 1: "2:3,0:15", 2: "4:6,0:15"}
        assert {e.who for e in log if e.event == "PLAN" and "call" in e.detail} == {"WORKER here", "WORKER w1"}


def test_workers_come_and_go_in_the_middle_of_shared_steps_and_no_bit_changes(tmp_path: Path) -> None:
    program, count = sharded.captured("mlp step").program, 20
    with cluster(tmp_path / "c") as c, c.session() as session:
        there = [c.joined(device=REFERENCE) for _ in range(3)]
        steps = Steps(Shared(session, program, along(0)(program, 3)))
        for step in range(count):
            steps.step()
            if step in (4, 11, 17):
                session.get(steps.losses[-1])
                there.pop(0).cancel()
            if step == 12:
                there.append(c.joined(device=REFERENCE))
        assert steps.read() == alone(count, tmp_path / "alone")
        assert c.dispatcher.replays > 0


def test_a_program_too_large_for_one_slot_is_shared_out_and_one_too_large_for_all_is_refused(tmp_path: Path) -> None:
    network = sharded.Network(lambda: sharded.Mlp(64, 256, 8), (4, 64))
    graph = network.captured()
    tensors = {"x": network.input, **{name: np.asarray(weight) for name, weight in graph.weights.items()}}
    most = sum(weight.nbytes for weight in tensors.values()) * 7 // 20
    with cluster(tmp_path / "c") as c, c.session() as session:
        workers(c, 2, memory=most)
        shared = Shared(session, graph.program)
        with pytest.raises(LimitError, match="on 2 workers the program needs"):
            shared.once(tensors)
        workers(c, 2, memory=most)
        assert alike(shared.once(tensors), expected(graph.program, tensors))


def test_what_lies_in_boxes_is_read_by_programs_without_signals_and_brought_where_it_is_read(tmp_path: Path) -> None:
    with cluster(tmp_path / "c") as c, c.session() as session:
        workers(c, 2)
        program: Program = added(6)
        shared = Shared(session, program, along(0)(program, 2))
        made = shared.run(shared.put({"x": square(6), "y": square(6)}))["output"]
        session.configure("{}")
        session.run(shared.root, {"x": made, "y": made}, {"output": 90})
        assert np.array_equal(session.get(90), square(6) * 4)
        held = session.stats().held
        session.put(91, square(6), F32)
        session.free([91, 90])
        assert session.stats().held == held - square(6).nbytes


def test_workers_bring_boxes_over_tls_and_let_nobody_else_in(tmp_path: Path) -> None:
    member = {b"w" * 32: Member(Role.WORKER, "w")}
    program, tensors = sharded.captured("mlp").program, sharded.tensors("mlp")
    with cluster(tmp_path / "c", members=member) as c, c.session() as session:
        address = c.listen()
        for _ in range(2):
            c.joined(device=REFERENCE, address=address, token=b"w" * 32)
        for worker in c.dispatcher.places:
            near, far = worker.addresses or ("", "")
            assert near.startswith("unix:") and far.startswith("cluster://127.0.0.1:")
            parse(near).path.unlink()  # type: ignore[union-attr]  # as if they were on two machines
        shared = Shared(session, program, along(1)(program, 2))
        assert alike(shared.once(tensors), expected(program, tensors))
        assert sent(c.dispatcher.log.entries()) > 0

        async def refused(session: bytes) -> frames.Frame:
            peer = await connect(parse(far), {Kind.WELCOME, Kind.FAILED})
            peer.send(Hello(VERSION, SEMANTICS, Role.WORKER, b"w" * 32, session))
            async with asyncio.timeout(10):
                async for chunk in peer.chunks():
                    await peer.ended()
                    return chunk[0][1]
            raise AssertionError("no answer")

        answer = c.do(refused(b"x" * 16))
        assert isinstance(answer, frames.Failed) and "no worker of the same cluster" in answer.what

        async def late() -> frames.Frame:
            """A box with a number that is not the next one."""
            peer = await connect(parse(far), {Kind.WELCOME, Kind.FAILED})
            peer.send(Hello(VERSION, SEMANTICS, Role.WORKER, session=c.dispatcher.secret))
            async with asyncio.timeout(10):
                async for chunk in peer.chunks():
                    if isinstance(chunk[0][1], frames.Failed):
                        await peer.ended()
                        return chunk[0][1]
                    parcel = frames.Parcel(99, 0, 1, 0, DType.BOOL, (1,), 0, b"\1")
                    peer.writer.write(encode(parcel, 7))
            raise AssertionError("no answer")

        answer = c.do(late())
        assert isinstance(answer, frames.Failed) and "it is out of order" in answer.what


def test_a_run_with_which_workers_cannot_reach_each_other_is_given_up(tmp_path: Path) -> None:
    """WorkerLost."""
    program, tensors = sharded.captured("mlp").program, sharded.tensors("mlp")
    with cluster(tmp_path / "c") as c, c.session() as session:
        workers(c, 2)
        for worker in c.dispatcher.places:
            parse((worker.addresses or ("",))[0]).path.unlink()  # type: ignore[union-attr]
        shared = Shared(session, program, along(1)(program, 2))
        with pytest.raises(WorkerLost, match="3 workers that executed it went away"):
            shared.once(tensors)
        shared.session.configure("{}")
        made = shared.run(shared.put(tensors))
        assert alike(shared.read(made), expected(program, tensors))


def test_boxes_that_come_early_wait_those_out_of_order_are_refused_and_late_ones_are_dropped(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)

    async def exchanged() -> None:
        exchange = Exchange()
        exchange.secret = b"s" * 16
        await exchange.listen_here(tmp_path / "exchange")
        peer = await connect(parse(exchange.addresses[0]), {Kind.WELCOME, Kind.FAILED})
        peer.send(Hello(VERSION, SEMANTICS, Role.WORKER, session=b"s" * 16, exchange="other"))
        answers = peer.chunks()
        assert isinstance((await anext(answers))[0][1], frames.Welcome)
        box = np.arange(3, dtype=np.float32)
        for number, run in ((0, 5), (2, 5), (0, 6)):
            for parcel in parcels(run, 0, 1, number, box):
                peer.send(parcel)
        await peer.drained()
        await asyncio.sleep(0.1)
        exchange.end(6)
        port = exchange.begin(5, ("other", "here"), [1]).port(1)
        assert np.array_equal(await asyncio.to_thread(port.receive, 0, 0), box)
        with pytest.raises(ExecutionError, match="message 2 of worker 0 where 1 was to come"):
            await asyncio.to_thread(port.receive, 0, 1)
        waiting = asyncio.create_task(
            asyncio.to_thread(exchange.begin(7, ("other", "here"), [1]).port(1).receive, 0, 0)
        )
        for parcel in parcels(7, 0, 9, 0, box):  # to a slot that is not here
            peer.send(parcel)
        refused = (await anext(answers))[0][1]
        assert isinstance(refused, frames.Failed) and "slot 9 is not here" in refused.what
        with pytest.raises(MailClosed):  # who sends nonsense sends nothing more
            await waiting
        await answers.aclose()  # type: ignore[attr-defined]
        await peer.ended()
        await exchange.close()

    asyncio.run(exchanged())
