"""Paid calls that a cluster executes: the receipts of any device, in a session that stays, whatever becomes of it."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from eigentensor import merkle
from eigentensor.cluster.address import Address
from eigentensor.cluster.log import Event
from eigentensor.errors import ClusterError, LimitError, ServiceBusy
from eigentensor.program import Role
from eigentensor.reexecution.warm import WarmExecution
from eigentensor.runtime.sandbox.slots import SLOTS
from eigentensor_operator.device import device_of
from support.clusters import cluster
from support.programs.long_program import endless
from support.stories.calls import ELEMENTS, PRICE, Programs, counting, ones, programs, serving

MEMORY = 1 << 30


def receipts(folder: Path, some: Programs) -> list[Any]:
    """Those of a few calls, some of which go on from states."""
    folder.mkdir()
    with closing(some), serving(folder, some) as endpoint:
        client = endpoint.client()
        for value in range(3):
            assert client.call(value)["y"].tolist() == [value * value] * ELEMENTS
        program, brought = some.served["counting"].program, {"total": ones(1)}
        root = merkle.role_root(program, Role.STATE, brought)
        for value in (2, 5, 7):
            x = {"x": ones(value)}
            work = client.computation("counting", states=root, repeat=2)
            client.receive(client.post(work, client.payment(work, x, 2 * PRICE), x | brought), program)
            root, brought = client.responses[-1].states, {}
        return [(answer.receipt, answer.signature, answer.states) for answer in client.responses]


def test_the_receipts_of_calls_at_a_cluster_are_those_of_any_device(tmp_path: Path) -> None:
    with cluster(tmp_path / "c") as c:
        c.here()
        device = device_of(f"cluster:{c.address}", MEMORY, unsafe=True)
        there = receipts(tmp_path / "there", programs(tmp_path, device=device))
        assert there == receipts(tmp_path / "local", programs(tmp_path))
        c.until(lambda: not c.dispatcher.sessions)


def served(folder: Path, address: Address, **more: Any) -> WarmExecution:
    programs(folder, is_warm=False)  # writes the weights
    device = device_of(f"cluster:{address}", MEMORY, unsafe=True)
    return device.served(more.get("program", counting()), more.get("weights", folder / "w"), 60)


def test_weights_stay_in_one_session_and_one_that_is_lost_is_begun_anew(tmp_path: Path) -> None:
    call = {"x": ones(2), "total": ones(1)}
    with cluster(tmp_path / "c") as c:
        execution = served(tmp_path, c.address)
        with pytest.raises(ClusterError, match="no worker has joined"):
            execution.warm()
        assert not execution.is_warm
        worker = c.joined()
        execution.warm()
        (session,) = c.dispatcher.sessions.values()
        for number in range(70):  # of which some are rechecked
            results = execution.execute({**call, "x": ones(number)}, {}, 1, 60)
            assert results.outputs["y"].tolist() == [1 + 3 * number] * ELEMENTS
        assert [*c.dispatcher.sessions.values()] == [session] and len(session.programs) <= 2
        before, came = len(c.dispatcher.log.entries()), ones(2)
        results = execution.execute({"x": came, **results.states}, {}, 1, 60)
        brought = [e.size for e in c.dispatcher.log.entries()[before:] if e.what == "PUT" and e.event is Event.RECV]
        assert brought == [came.nbytes] and results.outputs["y"].tolist() == [1 + 3 * 69 + 6] * ELEMENTS
        c.until(lambda: len(session.tensors) == 1 + SLOTS)  # the weights, and states of the last calls
        worker.cancel()
        c.until(lambda: not c.dispatcher.places)
        with pytest.raises(LimitError, match="took too long"):  # nobody executes it
            execution.execute(call, {}, 1, 0.3)
        assert not execution.is_warm
        c.joined()
        assert execution.execute(call, {}, 1, 60).outputs["y"].tolist() == [7] * ELEMENTS
    with pytest.raises(ServiceBusy, match="cluster is away"):
        execution.execute(call, {}, 1, 60)
    with cluster(tmp_path / "c") as c:
        c.joined()
        assert execution.execute(call, {}, 1, 60).outputs["y"].tolist() == [7] * ELEMENTS
        execution.close()


def test_a_call_that_takes_too_long_or_finds_no_room_is_refused(tmp_path: Path) -> None:
    with cluster(tmp_path / "c") as c:
        c.joined(is_trusting=False, memory=50)
        with pytest.raises(LimitError, match="of memory at a worker, there are 50"):
            served(tmp_path, c.address).warm()
        execution = served(tmp_path, c.address, program=endless(), weights=None)
        with pytest.raises(LimitError, match="the cluster took too long"):
            execution.execute({}, {}, 1, 1)
        c.until(lambda: not c.dispatcher.sessions and all(place.free for place in c.dispatcher.places.values()))
