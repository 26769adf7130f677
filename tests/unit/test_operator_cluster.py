"""An operator whose device is a cluster: what it declines, and what it does while the cluster is away."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from eigentensor import merkle
from eigentensor.chain import Chain
from eigentensor.cluster.resident import with_inputs_alone
from eigentensor.errors import ConfigError
from eigentensor.program import Role, encode
from eigentensor.program.cost import Needs, needs_of
from eigentensor.store import GatewayClient, LocalStore, save_safetensors
from eigentensor.task import Life, Order, State
from eigentensor_operator.case import Case, Step
from eigentensor_operator.data import Shelf
from eigentensor_operator.device import Cluster, device_of
from eigentensor_operator.events import Checked, Do, Executed, Undone
from eigentensor_operator.machine import step
from eigentensor_operator.policy import Code, Policy, Reason, refuse_uncompiled
from eigentensor_operator.steps import Steps
from eigentensor_operator.store import Store
from support.clusters import cluster
from support.programs.worked_examples import layer
from support.stories.operator import ME, PARAMETERS, POLICY, SEAL, SECOND, TASK, Story, an_order, reaches

AWAY = Reason(Code.CLUSTER, "a cluster that answers", "it does not", lasting=False)
WRONG = Reason(Code.DEVICE, "the reference's bits", "others")
PATIENT = replace(POLICY, block_seconds=12.0)
EXAMPLE = layer()


@pytest.fixture
def order(tmp_path: Path) -> Order:
    """All that it names is in the store."""
    store, roots = LocalStore(tmp_path / "blobs"), {}
    store.put(encode(EXAMPLE.program))
    for role, word in ((Role.INPUT, "inputs"), (Role.WEIGHT, "weights")):
        save_safetensors(tmp_path / word, {name: EXAMPLE.tensors[name] for name in EXAMPLE.program.named(role)})
        roots[word] = bytes.fromhex(store.names(store.put(tmp_path / word)).computed or "")
    return an_order(program=merkle.program_root(encode(EXAMPLE.program)), **roots)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayClient]:
    """Nobody answers: what is needed is in the store."""
    with GatewayClient("http://127.0.0.1:9", LocalStore(tmp_path / "blobs"), attempts=1) as client:
        yield client


def prepared(gateway: GatewayClient, folder: Path, order: Order, needs: Needs, policy: Policy = PATIENT) -> object:
    """What comes of preparing an open task at the cluster of a folder."""
    device = device_of(f"cluster:unix:{folder / 'c' / 'door'}", 1 << 30, unsafe=True)
    steps = Steps(cast(Chain, None), gateway, device, Shelf(folder / "results"), policy, folder / "draining")
    case = Case(Life(TASK, order, PARAMETERS), needs=needs, compile_seconds=1.0, fetched=True)
    return steps.do(Step.PREPARE, case.stepped(reaches(State.OPEN, 10, order=order)), 10)


def test_a_device_is_a_cluster_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    fingerprint = "ab" * 32
    monkeypatch.setenv("EIGENTENSOR_CLUSTER", "unix:/run/door")
    for name in (
        "cluster",
        "cluster:unix:/run/door",
        f"cluster://host:7/{fingerprint}",
        f"cluster:host:7/{fingerprint}",
    ):
        assert isinstance(device_of(name, 1), Cluster)
    for name in ("CPU", "CPU:LLVM", "CL", "CUDA", "clusters"):
        assert not isinstance(device_of(name, 1), Cluster)
    with pytest.raises(ConfigError, match="is no address of a cluster"):
        device_of("cluster:host", 1)


def test_a_task_waits_for_a_cluster_that_is_away_and_is_tried_when_it_is_there(
    gateway: GatewayClient, tmp_path: Path, order: Order
) -> None:
    needs = needs_of(EXAMPLE.program, 1)
    (tmp_path / "c").mkdir(mode=0o700)
    away = prepared(gateway, tmp_path, order, needs)
    assert isinstance(away, Undone) and (away.reason.code, away.reason.lasting) == (Code.CLUSTER, False)
    with cluster(tmp_path / "c") as c:
        idle = prepared(gateway, tmp_path, order, needs)
        assert isinstance(idle, Undone) and idle.reason.code is Code.CLUSTER and "no worker" in idle.reason.offered
        c.here()
        assert not isinstance(prepared(gateway, tmp_path, order, needs), Undone)


def test_what_needs_more_memory_than_the_workers_have_is_declined(
    gateway: GatewayClient, tmp_path: Path, order: Order
) -> None:
    with cluster(tmp_path / "c") as c:
        for memory in (10, 11):
            c.joined(memory=memory)
        declined = prepared(gateway, tmp_path, order, Needs(1, 20))
        assert isinstance(declined, Undone)
        with c.session() as session:
            held, _ = session.fit(session.define(with_inputs_alone(EXAMPLE.program).program))
        assert declined.reason == Reason(Code.MEMORY, f"{held} bytes", "10 bytes", lasting=False)


def test_what_is_not_tried_has_to_have_time_for_compiling(gateway: GatewayClient, tmp_path: Path, order: Order) -> None:
    needs = replace(needs_of(EXAMPLE.program, 1), operations=10**6)  # a second
    quick = replace(PATIENT, trial=0.0, block_seconds=1.0)
    with cluster(tmp_path / "c") as c:
        c.here()
        assert not isinstance(prepared(gateway, tmp_path, order, needs, quick), Undone)
        short = replace(order, exec=quick.reserve + 1)
        late = prepared(gateway, tmp_path, short, needs, quick)
    assert isinstance(late, Undone) and (late.reason.code, late.reason.lasting) == (Code.EXEC, True)
    assert "with compiling" in late.reason.needed
    long = refuse_uncompiled(quick, order, needs, 0.0, longest=0.5)
    assert long is not None and "for an iteration" in long.needed
    assert refuse_uncompiled(quick, replace(order, repeat=10), needs, 0.0, longest=0.5) is None


def test_an_execution_that_the_cluster_did_not_end_is_begun_again_when_it_is_back_and_nothing_is_dropped() -> None:
    story = Story()
    story.until_execute()
    assert story.handle(Undone(TASK, Step.EXECUTE, AWAY)) == ()
    assert story.operator.faulty == AWAY and story.case().dropped is None
    story.quiet(12, 13, 14)
    story.posted(SECOND, block=14)
    assert story.head(15) == (Do(Step.DECLINE, SECOND),)  # no more is promised
    assert story.case(SECOND).refused == AWAY
    assert story.handle(Checked()) == (Do(Step.EXECUTE, TASK), Do(Step.INSPECT, SECOND))
    assert story.handle(Executed(TASK, SEAL))[0] == Do(Step.COMMIT, TASK)


def test_a_cluster_that_is_away_excuses_no_wrong_bits() -> None:
    story = Story()
    story.until_execute()
    story.operator, _ = step(story.operator, Checked(WRONG))
    for event in (Checked(AWAY), Checked()):
        story.operator, _ = step(story.operator, event)
        assert story.operator.faulty == WRONG


def test_the_journal_remembers_what_executes(tmp_path: Path) -> None:
    store = Store(tmp_path / "operator.sqlite")
    assert store.device == ""
    assert store.belongs_to("market", ME)
    store.device = "cluster:unix:/run/door"
    store.close()
    again = Store(tmp_path / "operator.sqlite")
    assert again.belongs_to("market", ME) and again.device == "cluster:unix:/run/door"
    again.close()
