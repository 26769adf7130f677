"""Operators' processes whose device is a cluster, on a real chain: paid for what workers computed, convicted for what
one of them computed wrongly, and final though a worker was killed, or the whole cluster."""

import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from eigentensor import economics, reference
from eigentensor.chain import Chain, anvil_account, to_wei
from eigentensor.channel import BatchState
from eigentensor.economics import WAD
from eigentensor.graph import GraphBuilder
from eigentensor.merkle import operators_root, program_root
from eigentensor.program import encode
from eigentensor.store import GatewayClient, LocalStore
from eigentensor.task import GameEnded, State
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms, Work
from eigentensor_client.task_view import TaskView
from eigentensor_local.anvil import join
from eigentensor_local.devnet import Devnet, Party
from support.clusters import Processes, cluster, liar
from support.stories.call_operators import HttpCaller
from support.stories.calls import scaling
from support.stories.daemons import (
    TERMS,
    network_of,
    party_of,
    pass_draw,
    pass_window,
    start,
    until,
    url_of,
    wait_for,
)

pytestmark = pytest.mark.slow
STEPS = 400


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devnet]:
    with network_of(tmp_path_factory.mktemp("network") / "cluster.json") as net:
        join(net.network, net.party("other").owner)
        yield net


@pytest.fixture
def client(net: Devnet, tmp_path: Path) -> Iterator[Client]:
    with Client(net.network, anvil_account(2), LocalStore(tmp_path / "blobs")) as client:
        client.chain.token.mint(client.address, to_wei("1"))
        yield client


@pytest.fixture
def processes() -> Iterator[Processes]:
    with TemporaryDirectory() as folder:  # a short one: paths of sockets are
        made = Processes(Path(folder))
        yield made
        made.close()


@pytest.fixture(autouse=True)
def all_end_with_the_test(net: Devnet) -> Iterator[None]:
    yield
    for process in net.processes:
        if process.name != "aggregator":
            process.stop()


def joined(net: Devnet, name: str, seats: int = 0) -> Party:
    """An operator; without seats it keeps no verifier of another test waiting."""
    party = net.party(name)
    join(net.network, party.owner, signer=party.signer.address, seats=seats)
    return party


def for_alone(party: Party) -> Terms:
    """For this operator, and no other that runs here."""
    return replace(TERMS, operators=operators_root([bytes.fromhex(party.address[2:])]))


def walk() -> Work:
    """A state that goes on for so many iterations, each of which is a run."""
    builder = GraphBuilder()
    x, w = builder.state("x", np.ones((1, 64), np.float32)), builder.input("w", (64, 64))
    builder.assign("x", (x @ w).tanh())
    program = replace(builder.compile((x * x).sum(), fingerprint=False).program, max_repeat=STEPS)
    turn = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32) / 8
    return Work(program, {"w": turn}, {}, {"x": np.ones((1, 64), np.float32)}, {}, STEPS)


def product(rows: int = 128) -> Work:
    builder = GraphBuilder()
    x = builder.input("x", (rows, rows))
    value = np.random.default_rng(1).standard_normal((rows, rows)).astype(np.float32)
    return Work(builder.compile(x @ x @ x, fingerprint=False).program, {"x": value})


def is_right(client: Client, task: TaskView, work: Work) -> bool:
    assert not isinstance(work.weights, bytes) and not isinstance(work.states, bytes)
    given = {**work.inputs, **work.weights, **work.states}
    right = reference.execute(work.program, given, work.variables, work.repeat)
    result = client.deliver(client.look(task))
    return all(
        mine.keys() == yours.keys() and all(mine[name].tobytes() == yours[name].tobytes() for name in mine)
        for mine, yours in ((result.outputs, right.outputs), (result.states, right.states))
    )


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_task_that_a_cluster_computed_is_final_and_paid(
    workers: int, net: Devnet, client: Client, processes: Processes
) -> None:
    processes.up("--workers", "0")
    for _ in range(workers):
        processes.worker()
    party = joined(net, f"operator with {workers}")
    before, work = client.chain.market.balance_of(party.address).balance, walk()
    running = start(net, party, device=f"cluster:{processes.address}", cluster_token=str(processes.folder / "client"))
    running.wait_ready()
    (task,) = client.post([work], for_alone(party))
    pass_draw(net, client, task)
    wait_for(running, "upload")
    assert is_right(client, task, work)
    pass_window(net, client, task)
    assert client.wait(task, "final", timeout=60).state is State.FINAL
    assert client.chain.market.balance_of(party.address).balance - before == TERMS.max_price
    assert processes.status().replays == 0 and sum(w.runs for w in processes.status().workers) >= STEPS


def test_a_worker_that_is_killed_in_the_middle_of_a_paid_task_costs_time_alone(
    net: Devnet, client: Client, processes: Processes
) -> None:
    processes.up("--workers", "0")
    party, work = joined(net, "survivor"), walk()
    workers = [processes.worker(), processes.worker()]
    token = str(processes.folder / "client")
    # Nothing is tried: what is executed is executed once, when it is accepted.
    running = start(net, party, trial="0", device=f"cluster:{processes.address}", cluster_token=token)
    running.wait_ready()
    tested = sum(worker.runs for worker in processes.status().workers)
    (task,) = client.post([work], for_alone(party))
    until(lambda: sum(worker.runs for worker in processes.status().workers) > tested + STEPS // 8)
    busy = max(range(2), key=lambda n: processes.status().workers[n].runs)
    workers[busy].send_signal(signal.SIGKILL)
    pass_draw(net, client, task)
    wait_for(running, "upload")
    assert processes.status().replays > 0 or len(processes.status().workers) == 1
    assert is_right(client, task, work)
    pass_window(net, client, task)
    assert client.wait(task, "final", timeout=60).state is State.FINAL


def test_a_cluster_that_goes_and_comes_back_costs_neither_stake_nor_penalty(
    net: Devnet, client: Client, processes: Processes
) -> None:
    party, work = joined(net, "patient"), walk()
    door = processes.folder / "runtime" / "eigentensor-cluster" / "door"
    door.parent.mkdir(mode=0o700, parents=True)
    before = client.chain.market.balance_of(party.address).balance
    running = start(net, party, "the cluster is away", trial="0", device=f"cluster:unix:{door}")
    running.wait_ready()
    processes.up("--workers", "1", "--trust")
    wait_for(running, "ready")
    (task,) = client.post([work], for_alone(party))
    wait_for(running, "accepted")
    until(lambda: processes.status().sessions != ())
    processes.started[0].send_signal(signal.SIGKILL)
    processes.started[0].wait()
    wait_for(running, "execute failed")
    wait_for(running, "the cluster is away", 2)
    processes.start("up", "--workers", "1", "--trust", ready="the cluster is up")
    pass_draw(net, client, task)
    wait_for(running, "upload")
    assert is_right(client, task, work)
    pass_window(net, client, task)
    assert client.wait(task, "final", timeout=60).state is State.FINAL
    assert client.chain.market.balance_of(party.address).balance - before == TERMS.max_price


def test_paid_calls_are_executed_by_a_cluster_whose_worker_is_killed_and_committed(
    net: Devnet, processes: Processes, tmp_path: Path
) -> None:
    processes.up("--workers", "0")
    first = processes.worker()
    with Chain(net.network, anvil_account(2), tmp_path / "client.sqlite") as chain:
        chain.token.mint(chain.address, to_wei("1"))
        party, data = party_of(net, chain, "calls"), encode(scaling())
        store = LocalStore(tmp_path / "blobs")
        with closing(GatewayClient(net.network.gateway_url, store)) as gateway:
            gateway.upload(store.put(data))
        table = f'[[call_programs]]\nprogram = "{program_root(data).hex()}"\nprice = "0.0001"\nrepeat = 1\n'
        (party.folder / "operator.toml").write_text(table)
        cluster_of = {"device": f"cluster:{processes.address}", "cluster_token": str(processes.folder / "client")}
        running = start(net, party, calls="127.0.0.1:0", call_epoch="200", **cluster_of)
        caller = HttpCaller(chain, url_of(running))
        batch = caller.batch(1)
        until(lambda: chain.channels.batch_at(batch).state is BatchState.BEGUN)
        caller.open(to_wei("0.1"))
        caller.call(2)
        runs = sum(session.runs for session in processes.status().sessions)
        caller.call(3)
        assert sum(session.runs for session in processes.status().sessions) == runs + 1
        processes.worker()
        first.send_signal(signal.SIGKILL)
        caller.call(4)
        net.anvil.mine_past(chain.channels.batch_at(batch).begun_at + caller.offer.epoch // 2)
        until(lambda: chain.channels.batch_at(batch).state is BatchState.COMMITTED)
        assert chain.channels.batch_at(batch).leaves == 3 and running.running
        caller.close()


def test_a_wrong_bit_of_one_worker_is_convicted(net: Devnet, client: Client, tmp_path: Path) -> None:
    party, verifier = joined(net, "deceived"), joined(net, "verifier", seats=4)
    stake = client.chain.stake.of(party.address)
    with cluster(tmp_path / "c") as c:
        c.takes(liar())
        deceived = start(net, party, device=f"cluster:{c.address}")
        deceived.wait_ready()
        running = start(net, verifier, "answered")
        terms = replace(for_alone(party), exec=60, check_rate=WAD, verifiers=2)
        (task,) = client.post([product()], terms)
        running.wait_ready()
        chain, uuid = client.chain, bytes.fromhex(task.uuid)
        window = economics.check_window(chain.deployment.parameters, task.order.exec)
        net.anvil.mine_past(chain.market.seed_block_of(uuid) + window)
        wait_for(running, "slashed")
        wait_for(deceived, "halt")
    (ended,) = (e for e in chain.history.events(chain.market.task_at(uuid).accepted_at) if isinstance(e, GameEnded))
    assert (ended.challenger, ended.executor_lost) == (verifier.address, True)
    assert chain.stake.of(party.address) < stake and chain.market.task_at(uuid).state is State.CONVICTED
