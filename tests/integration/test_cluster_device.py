"""A cluster as an operator's device: the same root as from any other, what is declined, what is lost, what convicts."""

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from eigentensor import merkle
from eigentensor.cluster.address import Address
from eigentensor.cluster.frames import Role
from eigentensor.cluster.log import Event
from eigentensor.cluster.resident import with_inputs_alone
from eigentensor.dispute import Side
from eigentensor.errors import ConfigError, ConnectionLost, LimitError, NotAdmitted, WorkerLost, WrongBits
from eigentensor.graph import GraphBuilder
from eigentensor.player import Player
from eigentensor.program import Role as Of
from eigentensor.program.cost import needs_of
from eigentensor.reexecution.inputs import BoundProgram
from eigentensor.runtime import execute
from eigentensor.store import save_safetensors
from eigentensor.task import Challenged, State, order_uuid
from eigentensor.tracing import Retrace
from eigentensor_client.verbs import doctor
from eigentensor_cluster.sharing import bytes_of
from eigentensor_cluster.tokens import Member
from eigentensor_operator.device import Device, device_of
from support.clusters import LyingInPart, cluster, liar
from support.generated.programs import Example
from support.programs import sharded
from support.programs.worked_examples import layer
from support.screens.objects import hold
from support.stories.daemons import example_with_everything
from support.stories.game_table import Case, Table
from support.stories.games import account_of, honest
from support.stories.operator import POLICY
from support.stories.players import fast

SEED = bytes(32)
TOKEN = bytes(range(32))
MEMORY = 1 << 30


def bound_of(example: Example) -> BoundProgram:
    return BoundProgram(example.program, (), example.tensors, example.variables, example.repeat)


def root_of(device: Device, bound: BoundProgram, seconds: float = 60) -> bytes:
    return merkle.results_root(bound.program, device.execute(bound, seconds, SEED))


def right(example: Example) -> bytes:
    """As the device CPU of this machine computes it."""
    results = execute(example.program, example.tensors, example.variables, example.repeat)
    return merkle.results_root(example.program, results)


def product(rows: int = 48) -> Example:
    """A matrix times itself twice: two calls, of which the sample sees few elements."""
    builder = GraphBuilder()
    x = builder.input("x", (rows, rows))
    program = builder.compile(x @ x @ x).program
    return Example(program, {"x": np.random.default_rng(1).standard_normal((rows, rows)).astype(np.float32)}, {}, 1)


def at(address: Address, token: Path | None = None) -> Device:
    return device_of(f"cluster:{address}", MEMORY, unsafe=True, token=token)


@pytest.mark.parametrize("workers", [1, 2, pytest.param(4, marks=pytest.mark.slow)])
def test_the_root_is_that_of_any_device_however_many_workers_there_are(workers: int, tmp_path: Path) -> None:
    with cluster(tmp_path / "c") as c:
        for _ in range(workers):
            c.joined()
        device = at(c.address)
        device.check()
        for example in (layer(), product(), example_with_everything()):
            bound = bound_of(example)
            assert root_of(device, bound) == right(example)
        assert device.computing(product(64).program, 60) > 0
        c.until(lambda: not c.dispatcher.sessions)  # nothing of it is left


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_task_that_is_too_large_for_each_worker_is_shared_out_and_has_the_same_root(
    workers: int, tmp_path: Path
) -> None:
    example = product(64)
    size = needs_of(example.program, 1).memory
    with cluster(tmp_path / "c") as c:
        for _ in range(workers):
            c.joined(memory=size * 4 // 5)
        device = at(c.address)
        assert device.lacks(example.program, 1) is None
        assert root_of(device, bound_of(example)) == right(example)
        plans = [entry for entry in c.dispatcher.log.entries() if entry.event is Event.PLAN]
        assert plans, "it was shared out"


def test_what_finds_no_room_is_known_by_the_plan_before_anything_is_executed(tmp_path: Path) -> None:
    """Also where all slots together have enough for it."""
    example = product(64)
    size = needs_of(example.program, 1).memory
    with cluster(tmp_path / "c") as c, c.session() as session:
        device = at(c.address)
        with pytest.raises(WorkerLost, match="no worker has joined"):
            device.lacks(example.program, 1)
        c.joined(memory=size // 2)
        whole = bytes_of(example.program)
        assert device.lacks(example.program, 1) == (whole, size // 2)
        c.joined(memory=size // 2)
        assert c.call(lambda: c.dispatcher.memory) >= size - 1
        root = session.define(example.program)
        lack = device.lacks(example.program, 1)
        assert lack is not None and size // 2 == lack[1] < lack[0] < whole and session.fit(root) == lack
        with pytest.raises(LimitError, match=f"on 2 workers the program needs {lack[0]:,} bytes"):
            root_of(device, bound_of(example))
        for _ in range(2):
            c.joined(memory=size // 2)
        assert device.lacks(example.program, 1) is None
        held, memory = session.fit(root)
        assert 0 < held <= memory == size // 2 and root_of(device, bound_of(example)) == right(example)


def test_a_repeated_task_that_finds_room_is_executed_with_a_sample_that_does(tmp_path: Path) -> None:
    graph, given = sharded.captured("mlp step"), sharded.tensors("mlp step")
    program = replace(graph.program, max_repeat=4)
    bound, bare = BoundProgram(program, (), given, {}, 3), with_inputs_alone(program).program
    with cluster(tmp_path / "c") as c:
        for _ in range(2):
            c.joined(device="PYTHON", memory=bytes_of(bare) * 3 // 4)
        device = at(c.address)
        assert device.lacks(program, 3) is None
        assert root_of(device, bound) == right(Example(program, given, {}, 3))
        assert any(entry.event is Event.MOVE for entry in c.dispatcher.log.entries())


def test_calls_of_others_are_checked_by_a_program_that_stays_with_its_weights(tmp_path: Path) -> None:
    example = example_with_everything()
    weights = {name: example.tensors[name] for name in example.program.named(Of.WEIGHT)}
    save_safetensors(tmp_path / "weights", weights)
    own = {name: value for name, value in example.tensors.items() if name not in weights}
    with cluster(tmp_path / "c") as c:
        c.here()
        warm = at(c.address).warm(example.program, tmp_path / "weights", 60)
        for _ in range(3):
            results = warm.execute(own, example.variables, example.repeat, 60)
            assert merkle.results_root(example.program, results) == right(example)
        (session,) = c.dispatcher.sessions.values()
        c.until(lambda: len(session.tensors) == len(weights))
        assert len(session.programs) <= 2
        warm.close()


def test_what_hinders_a_cluster_is_said_by_its_name(tmp_path: Path) -> None:
    bound = bound_of(layer())
    with pytest.raises(ConfigError, match="is no address of a cluster"):
        device_of("cluster:somewhere", MEMORY)
    away = at(Address(tmp_path / "nobody" / "door"))
    (tmp_path / "nobody").mkdir(mode=0o700)
    for ask in (away.check, lambda: away.lacks(layer().program, 1), lambda: root_of(away, bound)):
        with pytest.raises(ConnectionLost, match="no cluster answers at"):
            ask()
    (tmp_path / "token").write_text("77" * 32)
    with cluster(tmp_path / "c", members={TOKEN: Member(Role.CLIENT, "operator")}) as c:
        address, own = c.listen(), tmp_path / "own"
        own.write_text(TOKEN.hex())
        with pytest.raises(NotAdmitted, match="this token is not one of a client"):
            root_of(at(address, tmp_path / "token"), bound)
        with pytest.raises(WorkerLost, match="no worker has joined"):
            at(address, own).check()
        with pytest.raises(LimitError, match="the cluster took too long"):
            root_of(at(address, own), bound, seconds=0.5)
        c.here()
        assert root_of(at(address, own), bound) == right(layer())


def test_a_cluster_that_is_lost_in_the_middle_is_connection_lost(tmp_path: Path) -> None:
    with cluster(tmp_path / "c") as c:
        ended = threading.Timer(0.3, lambda: c.do(c.door.close()))
        ended.start()
        with pytest.raises(ConnectionLost):  # no worker is there: it waits for one
            root_of(at(c.address), bound_of(layer()))
        ended.join()


def test_doctor_holds_a_cluster_to_the_reference_and_says_what_is_the_matter_with_it(tmp_path: Path) -> None:
    def examined(name: str, code: int) -> tuple[dict[str, Any], list[str]]:
        done = CliRunner().invoke(doctor.app, [name, "--json"])
        assert done.exit_code == code, done.output
        report = json.loads(done.stdout)
        hold(report)
        (device,) = (finding for finding in report["findings"] if finding["what"] == "device")
        return device, report["admitted"]

    with cluster(tmp_path / "c") as c:
        name = f"cluster:{c.address}"
        device, admitted = examined(name, 7)
        assert device["state"] == "refused" and "no worker" in device["says"] and not admitted
        c.joined()
        device, admitted = examined(name, 0)
        assert admitted == [device["name"]] == [name] and device["says"].endswith("by worker w1")
    device, admitted = examined(name, 7)
    assert device["state"] == "absent" and device["fix"] and not admitted


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_wrong_bit_of_one_worker_is_convicted_on_chain(is_shared: bool, table: Table, tmp_path: Path) -> None:
    example = product(64)
    bound, true = bound_of(example), account_of(example)
    with cluster(tmp_path / "c") as c:
        if is_shared:
            memory = needs_of(example.program, 1).memory * 4 // 5
            c.takes(LyingInPart(memory))
            c.joined(memory=memory)
        else:
            c.takes(liar())
        device = at(c.address)
        wrong = root_of(device, bound)
        assert any(entry.event is Event.PLAN for entry in c.dispatcher.log.entries()) is is_shared
    assert wrong != true.outputs
    (order,) = table.revealed([Case(true, wrong, honest(Side.EXECUTOR), honest(Side.CHALLENGER))])
    events = table.challenger.market.challenge(table.challenger.address, order).events
    (game,) = [event.game_id for event in events if isinstance(event, Challenged)]
    retraces: tuple[Retrace, Retrace] = device.retrace(POLICY), fast
    players = [
        Player(chain, chain.address, lambda task, order: bound, retrace)
        for chain, retrace in zip((table.operator, table.challenger), retraces, strict=True)
    ]
    while table.client.games.at(game).ended is None:
        moves = [player.turn(game) for player in players]
        assert any(moves)
    task = order_uuid(order, table.client.deployment.domain)
    assert table.client.market.task_at(task).state is State.CONVICTED


def test_a_sample_that_meets_the_wrong_bit_finds_it(tmp_path: Path) -> None:
    bound = bound_of(product(4))
    with cluster(tmp_path / "c") as c:
        c.takes(liar())
        with pytest.raises(WrongBits):
            root_of(at(c.address), bound)
