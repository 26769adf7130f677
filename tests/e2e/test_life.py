"""The life of a task, from order to payment, with operators as processes; and what happens when one of them fails."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pytest

from eigentensor import reference, traces
from eigentensor.capture import GraphProgram, TensorContext
from eigentensor.chain import Admission, Chain, to_wei
from eigentensor.economics import WAD, bond, collateral, penalty
from eigentensor.economics import stake as stake_lock
from eigentensor.errors import ExecutorConvicted, ExecutorFailed
from eigentensor.merkle import operators_root
from eigentensor.task import (
    Answered,
    Closed,
    Convicted,
    Failed,
    GameEnded,
    Noted,
    Paid,
    Revealed,
    Settled,
    Slashed,
    State,
    TaskEvent,
)
from eigentensor_client.cli import main
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms, Work, escrow_of
from eigentensor_client.task_view import TaskView
from eigentensor_local.actors import SilentOperator
from eigentensor_local.devnet import Devnet, Party
from support.collector import Told
from support.stories.clock import Clock
from support.stories.daemons import start_watcher

TERMS = Terms(to_wei("0.05"), ramp=0, check_rate=WAD // 20, exec=60, accept_within=100)
OWN = {"Posted", "Accepted", "Committed", "Revealed", "Closed"}  # events of a task that nobody checks
LONG = 120.0  # seconds after which a wait is a failure of the test


def deadline_of(task: TaskView) -> int:
    assert task.deadline is not None
    return task.deadline


def finish(client: Client, net: Devnet, tasks: Sequence[TaskView]) -> list[TaskView]:
    """Lets the windows pass when the results are there, and what their verifiers say of them."""
    there = [client.wait(task, "result", timeout=LONG) for task in tasks]
    there = [client.wait(task, "checked", timeout=LONG) if task.answered else task for task in there]
    net.anvil.mine_past(max(map(deadline_of, there)))
    return [client.wait(task, "final", timeout=LONG) for task in tasks]


E = TypeVar("E", bound=TaskEvent)


def steps(task: TaskView) -> list[str]:
    """What happened to a task, without its verifiers and its stake."""
    own = [event for event in task.events if not isinstance(event, Revealed) or event.slot == 0]
    return [name for event in own if (name := type(event).__name__) in OWN]


def closing(task: TaskView) -> Closed:
    return next(event for event in task.events if isinstance(event, Closed))


def await_event(client: Client, task: TaskView, kind: type[E]) -> E:
    """An event that somebody brings about soon."""
    deadline = time.monotonic() + LONG
    while time.monotonic() < deadline:
        if events := [event for event in client.look(task).events if isinstance(event, kind)]:
            return events[0]
        time.sleep(client.poll)
    raise AssertionError(f"no {kind.__name__} of task {task.uuid} came")


def check_bits(client: Client, task: TaskView, work: Work) -> None:
    assert isinstance(work.weights, dict)
    expected = reference.execute(work.program, {**work.inputs, **work.weights}).outputs
    result = client.deliver(task)
    assert result.outputs.keys() == expected.keys()
    for name, array in result.outputs.items():
        assert array.shape == expected[name].shape
        assert array.tobytes() == expected[name].tobytes()


def test_a_task_is_executed_paid_and_equal_to_the_reference(
    client: Client, net: Devnet, operators: list[Party], work: Work
) -> None:
    (posted,) = client.post([work], TERMS)
    (task,) = finish(client, net, [posted])
    check_bits(client, task, work)
    assert task.words == ("final, checked(1)" if task.drawn else "final, unchecked")
    assert task.executor in {party.address for party in operators}
    assert steps(task) == ["Posted", "Accepted", "Committed", "Revealed", "Closed"]
    closed = closing(task)
    assert closed.paid == task.price == TERMS.max_price
    assert closed.refund == escrow_of(task.order) - closed.paid - task.agreed * task.order.check_fee


def test_a_task_that_is_drawn_is_executed_twice_and_its_verifier_is_paid(
    client: Client, net: Devnet, operators: list[Party], work: Work
) -> None:
    terms = replace(TERMS, check_rate=WAD, exec=40)
    (posted,) = client.post([work], terms)
    checked = client.wait(posted, "checked", timeout=LONG)
    assert (checked.words, checked.drawn, checked.agreed, checked.differed) == ("checked(1)", True, 1, 0)
    check_bits(client, checked, work)
    net.anvil.mine_past(deadline_of(checked))
    task = client.wait(checked, timeout=LONG)
    assert task.words == "final, checked(1)"
    answered = next(event for event in task.events if isinstance(event, Answered))
    assert {task.executor, answered.operator} <= {party.address for party in operators}
    assert task.executor != answered.operator
    assert closing(task).refund == 0  # all of it was needed: the price, and the one verifier
    settled = await_event(client, task, Settled)
    parameters = net.network.deployment.parameters
    assert (settled.account, settled.amount) == (
        answered.operator,
        bond(parameters, terms.max_price) + task.order.check_fee,
    )


def test_the_price_rises_until_somebody_accepts_and_the_rest_comes_back(
    client: Client, net: Devnet, operators: list[Party], work: Work
) -> None:
    terms = replace(TERMS, min_price=to_wei("0.01"), ramp=1000)
    (task,) = finish(client, net, client.post([work], terms))
    closed = closing(task)
    assert to_wei("0.01") < closed.paid < to_wei("0.011")
    assert closed.refund == escrow_of(task.order) - closed.paid - task.agreed * task.order.check_fee


@pytest.mark.slow
def test_many_tasks_go_out_in_one_transaction(
    client: Client, net: Devnet, operators: list[Party], graph: GraphProgram
) -> None:
    rng = np.random.default_rng()
    works = [
        Work(
            graph.program,
            {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in (("a", (8, 16)), ("b", (16, 8)))},
            dict(graph.weights),
        )
        for _ in range(4)
    ]
    posted = client.post(works, TERMS)
    tasks = finish(client, net, posted)
    assert len({task.events[0].place.transaction for task in tasks}) == 1
    for task, work in zip(tasks, works, strict=True):
        check_bits(client, task, work)


def test_a_state_moves_on_at_the_position_that_the_order_binds(
    client: Client, net: Devnet, operators: list[Party]
) -> None:
    context = TensorContext()
    row, cache = context.add_graph_input("row", (1, 8)), context.add_state("cache", (4, 8))
    position = context.variable("position", 0, 3)
    cache[position : position + 1].assign(row)
    graph = context.compile_to_graph(cache.sum(axis=0))
    state = np.arange(32, dtype=np.float32).reshape(4, 8)
    work = Work(graph.program, {"row": np.ones((1, 8), np.float32)}, {}, {"cache": state}, {"position": 2})
    (task,) = finish(client, net, client.post([work], TERMS))
    result = client.deliver(task)
    state[2] = 1
    assert np.array_equal(result.states["cache"], state)
    assert np.array_equal(result.outputs["output"], state.sum(axis=0))


@pytest.mark.slow
def test_killed_daemons_go_on_where_they_stopped(
    client: Client, net: Devnet, clock: Clock, operators: list[Party], work: Work
) -> None:
    (task,) = client.post([work], TERMS)
    with clock.stopped():
        for name in ["aggregator", *(party.name for party in operators)]:
            net.processes[name].kill()
        net.start_aggregator().wait_ready()
        for party in operators:
            net.start_operator(party).wait_ready()
    (done,) = finish(client, net, [task])
    check_bits(client, done, work)


@pytest.mark.slow
@pytest.mark.parametrize("state", [State.ACCEPTED, State.COMMITTED], ids=lambda state: state.name.lower())
def test_an_operator_killed_in_the_middle_finishes_its_task(
    client: Client, net: Devnet, clock: Clock, operators: list[Party], work: Work, state: State
) -> None:
    (task,) = client.post([work], TERMS)
    uuid = bytes.fromhex(task.uuid)
    while client.chain.market.task_at(uuid).state < state:
        pass
    with clock.stopped():
        for party in operators:
            net.processes[party.name].kill()
        for party in operators:
            net.start_operator(party).wait_ready()
    (done,) = finish(client, net, [task])
    check_bits(client, done, work)
    assert steps(done) == ["Posted", "Accepted", "Committed", "Revealed", "Closed"]


def test_a_silent_executor_pays_the_penalty_and_the_client_is_refunded(
    client: Client, net: Devnet, operators: list[Party], work: Work
) -> None:
    """Others are there, so that it could be checked: nobody accepts before."""
    party = net.party("silent")
    net.join(party)
    terms = replace(TERMS, exec=5, operators=operators_root([bytes.fromhex(party.address[2:])]))
    parameters, burn = net.network.deployment.parameters, net.network.deployment.burn
    chain = client.chain
    client_before = chain.token.balance_of(client.address) + chain.market.balance_of(client.address).balance
    operator_before, burned_before = chain.market.balance_of(party.address), chain.market.balance_of(burn).balance

    (task,) = client.post([work], terms)
    with Chain(net.network, party.signer, party.folder / "transactions.sqlite") as silent:
        SilentOperator(silent, party.address).accept(task.order, Admission(0, 1, ()))
    held = collateral(parameters, terms.max_price, 1, task.order.check_fee)
    assert chain.market.held_of(party.address) == held
    net.anvil.mine_past(chain.market.deadline_of(bytes.fromhex(task.uuid)))
    with pytest.raises(ExecutorFailed, match=party.address):
        client.wait(task, timeout=LONG)

    h = penalty(parameters, terms.max_price)
    assert chain.token.balance_of(client.address) + chain.market.balance_of(client.address).balance == client_before
    after = chain.market.balance_of(party.address)
    assert (after.balance, chain.market.held_of(party.address)) == (operator_before.balance - h, 0)
    assert chain.market.balance_of(burn).balance == burned_before + h
    failed = next(event for event in client.task(task.uuid).events if isinstance(event, Failed))
    assert (failed.refund, failed.penalty) == (escrow_of(task.order), h)


@pytest.fixture
def telling(told: Told) -> Iterator[Told]:
    """The client here tells of its part, too."""
    traces.begin("client")
    yield told
    traces.end()


def test_a_lie_is_found_convicted_and_told_to_whoever_asks(
    client: Client, net: Devnet, operators: list[Party], work: Work, telling: Told, capsys: pytest.CaptureFixture[str]
) -> None:
    watcher = net.party("watcher")
    start_watcher(net, watcher, tells=True)
    liar = net.party("liar")
    net.join(liar)
    net.start_operator(liar, lies=True).wait_ready()
    parameters, stake = net.network.deployment.parameters, client.chain.stake.of(liar.address)
    terms = replace(TERMS, check_rate=WAD, exec=40, operators=operators_root([bytes.fromhex(liar.address[2:])]))
    before = client.chain.token.balance_of(client.address) + client.chain.market.balance_of(client.address).balance

    (task,) = client.post([work], terms)
    try:
        with pytest.raises(ExecutorConvicted, match="it lost a game about its result; the whole escrow"):
            client.wait(task, timeout=LONG)
    finally:
        net.processes[liar.name].kill()
    after = client.chain.token.balance_of(client.address) + client.chain.market.balance_of(client.address).balance
    assert after == before

    convicted = await_event(client, task, Convicted)
    assert convicted.refund == escrow_of(task.order)
    assert convicted.winner in {party.address for party in operators}
    shares = await_event(client, task, Slashed).shares
    lost = stake_lock(parameters, terms.max_price, 0, WAD, 1)
    assert abs(shares - lost) <= 1024 >= abs(stake - client.chain.stake.of(liar.address) - lost)
    finders = await_event(client, task, Noted).beneficiaries  # whoever answered before it knew of the others
    paid = await_event(client, task, Paid)
    assert set(finders) <= {party.address for party in operators}
    assert abs(2 * paid.share * len(finders) - lost) <= 1024 >= abs(paid.burned - paid.share * len(finders))

    ended = await_event(client, task, GameEnded)
    game = ended.game_id
    assert ended.executor_lost and ended.challenger == convicted.winner in finders
    listed, shown = (as_json(capsys, "challenge", *words) for words in (["list"], ["show", str(game)]))
    assert [entry["state"] for entry in listed["challenges"] if entry["game"] == game] == ["ended"]
    assert (shown["state"], shown["lost_by"], shown["executor"]) == ("ended", "executor", liar.address)
    assert {move["by"] for move in shown["moves"]} == {"executor", "challenger"}
    assert all(move["gas"] > 21_000 for move in shown["moves"])
    assert shown["body"] and "escrow back" in shown["follows"]
    explained = as_json(capsys, "task", "explain", task.uuid)
    assert explained["now"]["stage"] == "convicted"
    is_one_trace(telling, bytes.fromhex(task.uuid))
    net.processes[watcher.name].stop()


def is_one_trace(told: Told, task: bytes) -> None:
    """From the post of a lie to its verdict, over all who had a part in it; each span hangs under another one, and the
    first is the post."""
    wanted = {
        ("client", "post"), ("operator", "fetch"), ("operator", "execute"),
        ("operator", "commit"), ("operator", "answer"), ("operator", "reveal"), ("operator", "play"),
        ("aggregator", "GET /v1/blobs"), ("watcher", "look"), ("whoever is first", "slash"), ("client", "a phase"),
    }  # fmt: skip

    def missing() -> set[object]:
        """What nobody told yet: a span comes when it has ended, after those under it."""
        spans = told.of(task[:16])
        parents = {span.parent_span_id for _, span in spans if span.parent_span_id}
        done = {(service, span.name) for service, span in spans}
        done |= {("whoever is first", name) for _, name in done}
        if {name for service, name in done if service == "client"} - {"post"}:
            done |= {("client", "a phase")}  # those that it saw when it looked
        return {*(wanted - done), *(parents - {span.span_id for _, span in spans})}

    end = time.monotonic() + LONG
    while left := missing():
        assert time.monotonic() < end, left
        time.sleep(0.1)
    roots = [span for _, span in told.of(task[:16]) if not span.parent_span_id]
    assert [(span.name, span.span_id) for span in roots] == [("post", task[16:24])]


def as_json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """What a command says."""
    with pytest.raises(SystemExit) as ended:
        main([*words, "--json"])
    assert not ended.value.code
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer
