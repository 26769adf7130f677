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
from eigentensor.chain import (
    NONE,
    Accepted,
    Admission,
    Chain,
    Closed,
    Committed,
    Deposited,
    Failed,
    Network,
    Opening,
    OperatorJoined,
    Order,
    Posted,
    Reader,
    Revealed,
    SignerSet,
    State,
    anvil_account,
    commitment,
    joining,
    order_uuid,
    sign_order,
    to_wei,
)
from eigentensor.chain.journal import Journal, Status
from eigentensor.chain.sender import Message, Sender
from eigentensor.errors import ChainError, ConfigError, NotMined, Reverted, Unreachable
from eigentensor.testing.localnet import Anvil

Chains = Callable[[int], Chain]
Orders = Callable[..., Order]
ROOT, SALT = b"\2" * 32, b"\3" * 32


def commit_and_reveal(operator: Chain, task: bytes) -> None:
    c = commitment(operator.deployment.domain, task, operator.address, 0, ROOT, SALT)
    operator.commit(operator.address, task, c)
    operator.reveal(Opening(task, ROOT, SALT))


def test_a_task_lives_from_its_order_to_its_payment(
    anvil: Anvil, client: Chain, operator: Chain, order_of: Orders, chain_of: Chains
) -> None:
    order = order_of(min_price=to_wei("0.01"), ramp_start=1, ramp_length=1000)
    task = order_uuid(order, client.deployment.domain)
    before = operator.balance_of(operator.address)
    posted = client.post(order).events
    assert [type(event) for event in posted] == [Deposited, Posted]
    assert posted[1] == Posted(posted[1].place, task, client.address, order)

    (accepted,) = operator.accept(operator.address, order).events
    assert isinstance(accepted, Accepted) and accepted.executor == operator.address
    parameters = client.deployment.parameters
    block = accepted.place.block
    assert accepted.price == economics.price(order.min_price, order.max_price, 1, 1000, block)
    assert accepted.collateral == economics.collateral(parameters, accepted.price)
    assert operator.balance_of(operator.address).collateral == accepted.collateral

    commit_and_reveal(operator, task)
    assert client.outputs_root_of(task) == ROOT
    assert client.task_at(task).state is State.REVEALED
    anvil.mine_past(client.deadline_of(task))
    (closed,) = chain_of(5).close(order).events
    assert isinstance(closed, Closed) and closed.paid == accepted.price
    after = operator.balance_of(operator.address)
    assert (after.balance, after.collateral) == (before.balance + accepted.price, 0)
    assert client.balance_of(client.address).balance == order.max_price - accepted.price
    assert client.task_at(task).state is State.FINAL

    client.withdraw(client.address, closed.refund)
    assert client.tokens_of(client.address) == to_wei("10") - accepted.price
    names = [type(event) for event in client.events(posted[0].place.block)]
    assert names[1:6] == [Posted, Accepted, Committed, Revealed, Closed]


def test_a_silent_executor_loses_the_penalty_and_nothing_else(
    anvil: Anvil, client: Chain, operator: Chain, order_of: Orders, chain_of: Chains
) -> None:
    order = order_of()
    task = order_uuid(order, client.deployment.domain)
    before = operator.balance_of(operator.address).balance
    client.post(order)
    (accepted,) = operator.accept(operator.address, order).events
    assert isinstance(accepted, Accepted)
    anvil.mine_past(client.deadline_of(task))
    (failed,) = chain_of(5).fail(order).events
    penalty = economics.penalty(client.deployment.parameters, accepted.price)
    assert failed == Failed(failed.place, task, order.max_price, penalty)
    assert operator.balance_of(operator.address).balance == before - penalty
    assert client.balance_of(client.address).balance == order.max_price


def test_anybody_posts_a_signed_order_and_the_operators_that_it_names_may_accept(
    client: Chain, operator: Chain, order_of: Orders, chain_of: Chains
) -> None:
    vector = json.loads((Path(__file__).parents[1] / "vectors" / "order.json").read_text())["operators"]
    closed = order_of(operators=bytes.fromhex(vector["root"][2:]))
    order = order_of()
    client.deposit(client.address, 2 * order.max_price)
    domain, key = client.deployment.domain, anvil_account(2)
    chain_of(4).post_many([order, closed], [sign_order(o, domain, key) for o in (order, closed)])
    assert client.task_at(order_uuid(order, domain)).state is State.OPEN
    with pytest.raises(Reverted) as refused:
        operator.accept(operator.address, closed, Admission(0, 1, (bytes(32),)))
    assert refused.value.name == "NotAdmitted"
    operator.accept_many(operator.address, [order])
    assert client.task_at(order_uuid(order, domain)).executor == operator.address


def test_an_operator_works_off_many_tasks_in_four_messages(
    anvil: Anvil, client: Chain, operator: Chain, order_of: Orders
) -> None:
    orders = [order_of() for _ in range(3)]
    domain = client.deployment.domain
    tasks = [order_uuid(order, domain) for order in orders]
    client.post_many(orders)
    sent = operator.transaction_count(operator.address)
    operator.accept_many(operator.address, orders)
    operator.commit_many(
        operator.address, tasks, [commitment(domain, task, operator.address, 0, ROOT, SALT) for task in tasks]
    )
    operator.reveal_many([Opening(task, ROOT, SALT) for task in tasks])
    anvil.mine_past(max(map(client.deadline_of, tasks)))
    closed = operator.close_many(orders).events
    assert [event.task for event in closed if isinstance(event, Closed)] == tasks
    assert operator.transaction_count(operator.address) == sent + 4


def test_joining_takes_only_the_steps_that_are_missing(operator: Chain) -> None:
    def steps(cap: str) -> list[tuple[str, bool]]:
        amounts = {"collateral_cap": to_wei(cap), "stake": to_wei("2"), "collateral": to_wei("5")}
        return [(s.name, s.is_done()) for s in joining(operator, signer=operator.address, **amounts)]

    assert all(done for _, done in steps("5"))
    assert [name for name, done in steps("6") if not done] == ["signer"]
    kinds = [type(e) for e in operator.events(0) if isinstance(e, (OperatorJoined, SignerSet))]
    assert kinds == [OperatorJoined, SignerSet]
    poor = joining(operator, signer=operator.address, collateral_cap=0, stake=to_wei("100"), collateral=0)
    with pytest.raises(ConfigError, match="needs 98"):
        poor[1].do()


def test_a_refusal_costs_nothing_and_names_its_reason(client: Chain, order_of: Orders, chain_of: Chains) -> None:
    sent = client.transaction_count(client.address)
    with pytest.raises(Reverted) as refused:
        client.post(order_of(verifiers=1, check_rate=5))
    assert (refused.value.name, refused.value.arguments) == ("ChecksNotAvailable", (5, 1))
    assert "without checks" in refused.value.fix
    with pytest.raises(Reverted, match="ERC20InsufficientBalance"):
        client.ensure_allowance(client.deployment.task_market, to_wei("100"))
        client.post(order_of(max_price=to_wei("99")))
    assert client.transaction_count(client.address) == sent + 1
    with pytest.raises(Reverted, match="WrongSignature"):
        chain_of(3).post(order_of(), b"\0" * 65)


def test_the_same_message_is_sent_once(client: Chain, order_of: Orders) -> None:
    order = order_of()
    first = client.post(order)
    sent = client.transaction_count(client.address)
    assert client.post(order) == first
    assert client.deposit(client.address, 5, once="deposit of monday") == client.deposit(
        client.address, 5, once="deposit of monday"
    )
    client.deposit(client.address, 5)
    assert client.transaction_count(client.address) == sent + 2


def approval(chain: Chain, amount: int) -> Message:
    data = chain.token.encode_abi("approve", [anvil_account(7).address, amount])
    return Message("approve", chain.deployment.token, bytes.fromhex(data[2:]))


class Crash(BaseException):
    pass


@pytest.mark.parametrize("moment", ["before the transaction leaves", "after the transaction left"])
def test_a_process_that_dies_while_sending_sends_once(
    client: Chain, network: Network, tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "crashing.sqlite"
    journal = Journal(path)
    dying = Reader(network)
    offer = dying.web3.eth.send_raw_transaction

    def die(raw: bytes) -> None:
        if moment.startswith("after"):
            offer(raw)
        raise Crash

    monkeypatch.setattr(dying.web3.eth, "send_raw_transaction", die)
    count = client.transaction_count(client.address)
    with pytest.raises(Crash):
        Sender(dying, client.account, journal).send(approval(client, 77))
    journal.close()

    journal = Journal(path)
    again = Sender(Reader(network), client.account, journal)
    again.resume()
    receipt = again.send(approval(client, 77))
    assert receipt.transaction == journal.get(approval(client, 77).key).attempts[0].hash  # type: ignore[union-attr]
    assert client.transaction_count(client.address) == count + 1
    assert client.allowance(client.address, anvil_account(7).address) == 77
    journal.close()


def test_a_stuck_transaction_is_replaced_and_either_of_them_counts(anvil: Anvil, client: Chain) -> None:
    anvil.rpc("evm_setAutomine", False)
    sender = Sender(client, client.account, client.journal, patience=0, deadline=0.5)
    with pytest.raises(NotMined, match="not in the chain"):
        sender.send(approval(client, 5))
    intent = client.journal.get(approval(client, 5).key)
    assert intent is not None and len(intent.attempts) > 1
    fees = [attempt.fee for attempt in intent.attempts]
    assert fees == sorted(set(fees)) and intent.status is Status.PENDING
    anvil.mine()
    receipt = sender.send(approval(client, 5))
    assert receipt.transaction == intent.attempts[-1].hash
    assert client.transaction_count(client.address) == intent.nonce + 1


def test_several_messages_wait_in_line(anvil: Anvil, client: Chain) -> None:
    anvil.rpc("evm_setAutomine", False)
    keys = [client.sender.submit(approval(client, amount)) for amount in (1, 2, 3)]
    nonces = [client.journal.get(key).nonce for key in keys]  # type: ignore[union-attr]
    assert nonces == list(range(nonces[0], nonces[0] + 3))
    anvil.mine()
    assert len({client.sender.wait(key).block for key in keys}) == 1
    assert client.allowance(client.address, anvil_account(7).address) == 3


def test_a_nonce_that_somebody_else_used_is_not_waited_for(
    anvil: Anvil, client: Chain, network: Network, tmp_path: Path
) -> None:
    anvil.rpc("evm_setAutomine", False)
    client.sender.submit(approval(client, 1))
    anvil.rpc("anvil_dropAllTransactions")
    anvil.rpc("evm_setAutomine", True)
    with Chain(network, client.account, tmp_path / "other.sqlite") as other:
        other.sender.send(approval(client, 2))
    with pytest.raises(ChainError, match="took nonce"):
        client.sender.wait(approval(client, 1).key)
    client.sender.send(approval(client, 1))
    assert client.allowance(client.address, anvil_account(7).address) == 1


def test_a_transaction_that_the_node_refuses_blocks_no_other(anvil: Anvil, client: Chain) -> None:
    coins = client.ether_of(client.address)
    anvil.fund(client.address, 0)
    with pytest.raises(ChainError, match="nsufficient funds"):
        client.approve(anvil_account(7).address, 1, once="refused")
    assert client.journal.pending() == []
    anvil.rpc("anvil_setBalance", client.address, hex(coins))
    client.approve(anvil_account(7).address, 2)
    client.approve(anvil_account(7).address, 1, once="refused")
    assert client.allowance(client.address, anvil_account(7).address) == 1


def test_what_fails_in_the_chain_after_a_good_simulation_is_a_refusal(
    anvil: Anvil, client: Chain, chain_of: Chains, order_of: Orders
) -> None:
    order = order_of(accept_by=client.block_number() + 3)
    client.post(order)
    anvil.mine(4)
    other = chain_of(5)
    data = client.market.encode_abi("expire", [order.as_tuple()])
    expire = Message("expire", client.deployment.task_market, bytes.fromhex(data[2:]))
    anvil.rpc("evm_setAutomine", False)
    key = other.sender.submit(expire)
    # Somebody else sends the same afterwards and pays more to be first.
    faster = {"from": client.address, "to": expire.to, "data": data, "gas": hex(300_000)}
    fees = {"maxFeePerGas": hex(10**12), "maxPriorityFeePerGas": hex(10**11)}
    anvil.rpc("eth_sendTransaction", faster | fees)
    anvil.mine()
    with pytest.raises(Reverted, match="WrongState"):
        other.sender.wait(key)
    assert other.journal.get(key).status is Status.REVERTED  # type: ignore[union-attr]


def test_changes_tell_every_event_once_and_take_back_what_a_reorganisation_threw_out(
    anvil: Anvil, client: Chain, operator: Chain, order_of: Orders
) -> None:
    order = order_of()
    task = order_uuid(order, client.deployment.domain)
    reader = Reader(client.network)
    heads = list(reader.changes().heads)
    client.post(order)
    first = reader.changes(heads)
    assert [type(e) for e in first.events] == [Deposited, Posted] and first.rolled_back_to is None
    heads += first.heads
    kept = heads[-1].number
    operator.accept(operator.address, order)
    anvil.mine(3)
    second = reader.changes(heads)
    assert [type(e) for e in second.events] == [Accepted] and second.complete
    heads += second.heads
    assert reader.changes(heads) == replace(second, events=(), heads=())

    anvil.rollback(4)
    assert client.task_at(task).state is State.OPEN
    gone = reader.changes(heads)
    assert gone.rolled_back_to == kept and gone.events == ()
    heads = [head for head in heads if head.number <= kept] + list(gone.heads)
    receipt = operator.accept(operator.address, order)
    assert client.task_at(task).executor == operator.address
    back = reader.changes(heads)
    assert back.rolled_back_to is None and back.events == receipt.events


def test_a_reorganisation_deeper_than_memory_starts_again(anvil: Anvil, client: Chain, order_of: Orders) -> None:
    reader = Reader(client.network)
    client.post(order_of())
    everything = reader.changes()
    memory = everything.heads[-1:]
    anvil.rollback(1)
    anvil.mine(3)
    again = reader.changes(memory)
    assert again.rolled_back_to == client.deployment.block - 1
    assert [type(e) for e in again.events] == [type(e) for e in everything.events[:-2]]


def test_long_histories_are_read_in_parts(anvil: Anvil, client: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eigentensor.chain.reader.SPAN", 3)
    client.deposit(client.address, 1)
    anvil.mine(5)
    client.deposit(client.address, 2)
    reader = Reader(client.network)
    heads, amounts, complete = [], [], False
    while not complete:
        changes = reader.changes(heads)
        heads += changes.heads
        amounts += [e.amount for e in changes.events if isinstance(e, Deposited)]
        complete = changes.complete
    assert amounts[-2:] == [1, 2]
    assert [e.amount for e in reader.events(0) if isinstance(e, Deposited)] == amounts


def test_a_node_that_is_away_or_of_another_chain_is_said(network: Network, anvil: Anvil) -> None:
    away = Reader(replace(network, rpc_url="http://127.0.0.1:9"), timeout=0.2)
    with pytest.raises(Unreachable, match="no answer"):
        away.block_number()
    other = replace(network, deployment=replace(network.deployment, chain_id=1))
    with pytest.raises(ChainError, match="does not have the market"):
        Reader(other).check()
    nowhere = replace(network, deployment=replace(network.deployment, task_market=anvil_account(8).address))
    with pytest.raises(ChainError, match="does not have the market"):
        Reader(nowhere).check()


def test_a_journal_of_the_default_place_belongs_to_one_chain(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with Chain(network, anvil_account(6)) as chain:
        name = f"{chain.genesis()[:8].hex()}-{chain.address.lower()}.sqlite"
        assert (tmp_path / "eigentensor" / "journals" / name).exists()
        assert chain.task_at(NONE).state is State.NONE


def test_a_chain_ends_with_its_block(anvil: Anvil) -> None:
    from eigentensor.testing.localnet import start_anvil

    with start_anvil() as other:
        pid = other.process.pid
        assert other.web3.eth.block_number == 0
    assert other.process.returncode is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_chain_ends_with_the_process_that_started_it() -> None:
    program = (
        "import time; from eigentensor.testing.localnet import start_anvil; "
        "print(start_anvil().process.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        chain = psutil.Process(int(starter.stdout.readline()))
        assert chain.name() == "anvil"
        starter.kill()
    chain.wait(30)
    assert not chain.is_running()
