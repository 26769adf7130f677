"""Messages, events and reorganisations on a real chain."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from eigentensor import economics
from eigentensor.chain import Admission, Chain, Head, Network, Opening, Reader, anvil_account, to_wei
from eigentensor.economics.situation import LOCAL
from eigentensor.errors import ChainError, Reverted, Unreachable
from eigentensor.task import (
    NONE,
    Accepted,
    Closed,
    Committed,
    Deposited,
    Failed,
    Locked,
    Order,
    Posted,
    Revealed,
    Seeded,
    State,
    TaskEvent,
    Unlocked,
    commitment,
    order_uuid,
    sign_order,
)
from eigentensor_local.anvil import FIRST_BLOCK, Anvil, pass_seed
from support.web3 import web3_of

Chains = Callable[[int], Chain]
Orders = Callable[..., Order]
ROOT, SALT = b"\2" * 32, b"\3" * 32
MOST = (1 << 96) - 1


def commit(operator: Chain, order: Order, slot: int = 0, root: bytes = ROOT) -> bytes:
    """The commitment of an operator's result."""
    domain = operator.deployment.domain
    return commitment(domain, order_uuid(order, domain), operator.address, slot, root, SALT)


def execute(anvil: Anvil, operator: Chain, order: Order) -> None:
    """From the acceptance to the reveal of a task that is not checked."""
    task = order_uuid(order, operator.deployment.domain)
    operator.market.accept(operator.address, order)
    operator.market.commit(operator.address, task, commit(operator, order))
    pass_seed(anvil, operator, order, drawn=False)
    operator.market.reveal(order, Opening(task, ROOT, SALT))


def test_a_task_lives_from_its_order_to_its_payment(
    anvil: Anvil, client: Chain, operator: Chain, order_of: Orders, chain_of: Chains
) -> None:
    order = order_of(min_price=to_wei("0.01"), ramp_start=1, ramp_length=10_000)
    task = order_uuid(order, client.deployment.domain)
    before = operator.market.balance_of(operator.address)
    posted = client.market.post(order).events
    assert [type(event) for event in posted] == [Deposited, Posted]
    assert posted[1] == Posted(posted[1].place, task, client.address, order)
    assert client.token.balance_of(client.address) == to_wei("10") - order.escrow

    (accepted,) = [e for e in operator.market.accept(operator.address, order).events if isinstance(e, Accepted)]
    parameters = client.deployment.parameters
    assert parameters == LOCAL
    block = accepted.place.block
    assert accepted.executor == operator.address
    assert accepted.price == economics.price(order.min_price, order.max_price, 1, 10_000, block)
    assert accepted.collateral == economics.collateral(parameters, accepted.price, order.verifiers, order.check_fee)
    assert operator.market.held_of(operator.address) == accepted.collateral
    lock = client.stake.lock_of(task, operator.address)
    stake = economics.stake(parameters, accepted.price, 0, order.check_rate, order.verifiers)
    assert stake <= lock.shares <= stake + 2 and lock.end == block + economics.lifetime(parameters, order.exec)
    assert client.stake.locked_stake(operator.address) == lock.shares + lock.rounding

    assert client.market.is_drawn(order) is None and client.market.seed_block_of(task) == 0
    committed = operator.market.commit(operator.address, task, commit(operator, order)).block
    assert client.market.seed_block_of(task) == economics.seed_block(committed, parameters.lag, parameters.grid)
    pass_seed(anvil, operator, order, drawn=False)
    assert client.market.is_drawn(order) is False
    operator.market.reveal(order, Opening(task, ROOT, SALT))
    assert client.market.outputs_root_of(task) == ROOT
    assert client.market.task_at(task).state is State.REVEALED
    anvil.mine_past(client.market.deadline_of(task))
    (closed,) = [e for e in chain_of(5).market.close(order).events if isinstance(e, Closed)]
    assert closed.paid == accepted.price
    after = operator.market.balance_of(operator.address)
    assert (after.balance, operator.market.held_of(operator.address)) == (before.balance + accepted.price, 0)
    assert client.market.balance_of(client.address).balance == order.escrow - accepted.price
    assert client.market.task_at(task).state is State.FINAL and client.stake.locked_stake(operator.address) == 0

    client.market.withdraw(client.address, closed.refund)
    assert client.token.balance_of(client.address) == to_wei("10") - accepted.price
    events = [e for e in client.history.events(posted[0].place.block) if isinstance(e, (TaskEvent, Seeded))]
    kinds = (Posted, Accepted, Locked, Committed, Seeded, Revealed, Unlocked, Closed)
    assert {type(event) for event in events} == set(kinds) and len(events) == len(kinds)


def test_a_silent_executor_loses_the_penalty_and_nothing_else(
    anvil: Anvil, client: Chain, operator: Chain, order_of: Orders, chain_of: Chains
) -> None:
    order = order_of()
    task = order_uuid(order, client.deployment.domain)
    before = operator.market.balance_of(operator.address).balance
    client.market.post(order)
    operator.market.accept(operator.address, order)
    anvil.mine_past(client.market.deadline_of(task))
    (failed,) = [e for e in chain_of(5).market.close(order).events if isinstance(e, Failed)]
    penalty = economics.penalty(client.deployment.parameters, order.max_price)
    assert failed == Failed(failed.place, task, order.escrow, penalty)
    assert operator.market.balance_of(operator.address).balance == before - penalty
    assert client.market.balance_of(client.address).balance == order.escrow


def test_anybody_posts_a_signed_order_and_the_operators_that_it_names_may_accept(
    client: Chain, operator: Chain, order_of: Orders, chain_of: Chains
) -> None:
    vector = json.loads((Path(__file__).parents[1] / "vectors" / "order.json").read_text())["operators"]
    closed = order_of(operators=bytes.fromhex(vector["root"][2:]))
    order = order_of()
    client.market.deposit(client.address, 2 * order.escrow)
    domain, key = client.deployment.domain, anvil_account(2)
    chain_of(4).market.post_many([order, closed], [sign_order(o, domain, key) for o in (order, closed)])
    assert client.market.task_at(order_uuid(order, domain)).state is State.OPEN
    with pytest.raises(Reverted) as refused:
        operator.market.accept(operator.address, closed, Admission(0, 1, (bytes(32),)))
    assert refused.value.name == "NotAdmitted"
    operator.market.accept_many(operator.address, [order])
    assert client.market.task_at(order_uuid(order, domain)).executor == operator.address


def test_an_operator_works_off_many_tasks_in_a_few_messages(
    anvil: Anvil, client: Chain, operator: Chain, order_of: Orders, chain_of: Chains
) -> None:
    orders = [order_of() for _ in range(3)]
    domain = client.deployment.domain
    tasks = [order_uuid(order, domain) for order in orders]
    client.market.post_many(orders)
    sent = operator.node.transaction_count(operator.address)
    operator.market.accept_many(operator.address, orders)
    operator.market.commit_many(operator.address, tasks, [commit(operator, order) for order in orders])
    seed = client.market.seed_block_of(tasks[0])
    anvil.mine_past(seed)
    chain_of(5).market.seed(seed)
    undrawn = [order for order in orders if not client.market.is_drawn(order)]
    operator.market.reveal_many(undrawn, [Opening(order_uuid(order, domain), ROOT, SALT) for order in undrawn])
    anvil.mine_past(max(map(client.market.deadline_of, tasks)))
    closed = operator.market.close_many(undrawn).events
    assert [e.task for e in closed if isinstance(e, Closed)] == [order_uuid(order, domain) for order in undrawn]
    assert operator.node.transaction_count(operator.address) == sent + 4


def test_a_refusal_costs_nothing_and_names_its_reason(client: Chain, order_of: Orders, chain_of: Chains) -> None:
    sent = client.node.transaction_count(client.address)
    floor = client.deployment.parameters.check_floor
    with pytest.raises(Reverted) as refused:
        client.market.post(order_of(check_rate=5))
    assert (refused.value.name, refused.value.arguments) == ("WrongCheckRate", (5, floor, economics.WAD))
    assert "floor" in refused.value.fix
    with pytest.raises(Reverted, match="ERC20InsufficientBalance"):
        client.token.ensure_allowance(client.deployment.task_market, to_wei("100"))
        client.market.post(order_of(max_price=to_wei("40")))
    assert client.node.transaction_count(client.address) == sent + 1
    with pytest.raises(Reverted, match="WrongSignature"):
        chain_of(3).market.post(order_of(), b"\0" * 65)


def test_changes_tell_every_event_once_and_take_back_what_a_reorganisation_threw_out(
    anvil: Anvil, client: Chain, operator: Chain, order_of: Orders
) -> None:
    order = order_of()
    task = order_uuid(order, client.deployment.domain)
    reader = Reader(client.network)
    heads = list(reader.history.changes().heads)
    client.market.post(order)
    first = reader.history.changes(heads)
    assert [type(e) for e in first.events] == [Deposited, Posted] and first.rolled_back_to is None
    heads += first.heads
    kept = heads[-1].number
    operator.market.accept(operator.address, order)
    anvil.mine(3)
    second = reader.history.changes(heads)
    assert {type(e) for e in second.events} == {Accepted, Locked} and second.complete
    heads += second.heads
    assert reader.history.changes(heads) == replace(second, events=(), heads=())

    anvil.rollback(4)
    assert client.market.task_at(task).state is State.OPEN
    with pytest.raises(ChainError, match="was read already"):  # nothing else is in the chain: its node may be behind
        reader.history.changes(heads)
    anvil.mine()
    gone = reader.history.changes(heads)
    assert gone.rolled_back_to == kept and gone.events == ()
    heads = [head for head in heads if head.number <= kept] + list(gone.heads)
    receipt = operator.market.accept(operator.address, order)
    assert client.market.task_at(task).executor == operator.address
    back = reader.history.changes(heads)
    assert back.rolled_back_to is None and back.events == receipt.events


def test_a_reorganisation_deeper_than_memory_starts_again(anvil: Anvil, client: Chain, order_of: Orders) -> None:
    reader = Reader(client.network)
    client.market.post(order_of())
    everything = reader.history.changes()
    memory = everything.heads[-1:]
    anvil.rollback(1)
    anvil.mine(3)
    again = reader.history.changes(memory)
    assert again.rolled_back_to == client.deployment.block - 1
    assert [type(e) for e in again.events] == [type(e) for e in everything.events[:-2]]


def test_long_histories_are_read_in_parts(anvil: Anvil, client: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eigentensor.chain.history.SPAN", 3)
    client.market.deposit(client.address, 1)
    anvil.mine(5)
    client.market.deposit(client.address, 2)
    reader = Reader(client.network)
    heads: list[Head] = []
    amounts, complete = [], False
    while not complete:
        changes = reader.history.changes(heads)
        heads += changes.heads
        amounts += [e.amount for e in changes.events if isinstance(e, Deposited)]
        complete = changes.complete
    assert amounts[-2:] == [1, 2]
    assert [e.amount for e in reader.history.events(0) if isinstance(e, Deposited)] == amounts


def test_a_node_that_is_away_or_of_another_chain_is_said(network: Network, anvil: Anvil) -> None:
    away = Reader(replace(network, rpc_url="http://127.0.0.1:9"), timeout=0.2)
    with pytest.raises(Unreachable, match="no answer"):
        away.node.block_number()
    other = replace(network, deployment=replace(network.deployment, chain_id=1))
    with pytest.raises(ChainError, match="does not have the market"):
        Reader(other).node.check()
    nowhere = replace(network, deployment=replace(network.deployment, task_market=anvil_account(8).address))
    with pytest.raises(ChainError, match="does not have the market"):
        Reader(nowhere).node.check()


def test_a_journal_of_the_default_place_belongs_to_one_chain(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with Chain(network, anvil_account(6)) as chain:
        name = f"{chain.node.genesis()[:8].hex()}-{chain.address.lower()}.sqlite"
        assert (tmp_path / "eigentensor" / "journals" / name).exists()
        assert chain.market.task_at(NONE).state is State.NONE


def test_a_chain_ends_with_its_block(anvil: Anvil) -> None:
    from eigentensor_local.anvil import start_anvil

    with start_anvil() as other:
        pid = other.process.pid
        assert web3_of(other).eth.block_number == FIRST_BLOCK
    assert other.process.returncode is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_chain_ends_with_the_process_that_started_it() -> None:
    program = (
        "import time; from eigentensor_local.anvil import start_anvil; "
        "print(start_anvil().process.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        chain = psutil.Process(int(starter.stdout.readline()))
        assert chain.name() == "anvil"
        starter.kill()
    chain.wait(30)
    assert not chain.is_running()
