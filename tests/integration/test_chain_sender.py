"""Sending on a real chain: once, in order, whatever dies or gets stuck on the way."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from eigentensor.chain import Chain, Network, Reader, anvil_account
from eigentensor.chain.journal import Journal, Status
from eigentensor.chain.sender import Message, Sender
from eigentensor.errors import ChainError, NotMined, Reverted, Unreachable
from eigentensor.task import Order
from eigentensor_local.anvil import Anvil

Chains = Callable[[int], Chain]
Orders = Callable[..., Order]


def test_the_same_message_is_sent_once(client: Chain, order_of: Orders) -> None:
    order = order_of()
    first = client.market.post(order)
    sent = client.node.transaction_count(client.address)
    assert client.market.post(order) == first
    assert client.market.deposit(client.address, 5, once="deposit of monday") == client.market.deposit(
        client.address, 5, once="deposit of monday"
    )
    client.market.deposit(client.address, 5)
    assert client.node.transaction_count(client.address) == sent + 2


def approval(chain: Chain, amount: int) -> Message:
    return Message.of(chain.node.token, "approve", anvil_account(7).address, amount)


class Crash(BaseException):
    pass


@pytest.mark.parametrize("moment", ["before the transaction leaves", "after the transaction left"])
def test_a_process_that_dies_while_sending_sends_once(
    client: Chain, network: Network, tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "crashing.sqlite"
    journal = Journal(path)
    dying = Reader(network)
    offer = dying.node.send

    def die(raw: bytes) -> None:
        if moment.startswith("after"):
            offer(raw)
        raise Crash

    monkeypatch.setattr(dying.node, "send", die)
    count = client.node.transaction_count(client.address)
    with pytest.raises(Crash):
        Sender(dying.node, client.account, journal).send(approval(client, 77))
    journal.close()

    journal = Journal(path)
    again = Sender(Reader(network).node, client.account, journal)
    again.resume()
    receipt = again.send(approval(client, 77))
    assert receipt.transaction == journal.get(approval(client, 77).key).attempts[0].hash  # type: ignore[union-attr]
    assert client.node.transaction_count(client.address) == count + 1
    assert client.token.allowance(client.address, anvil_account(7).address) == 77
    journal.close()


def test_a_stuck_transaction_is_replaced_and_either_of_them_counts(anvil: Anvil, client: Chain) -> None:
    anvil.rpc("evm_setAutomine", False)
    sender = Sender(client.node, client.account, client.journal, patience=0, deadline=0.5)
    with pytest.raises(NotMined, match="not in the chain"):
        sender.send(approval(client, 5))
    intent = client.journal.get(approval(client, 5).key)
    assert intent is not None and len(intent.attempts) > 1
    fees = [attempt.fee for attempt in intent.attempts]
    assert fees == sorted(set(fees)) and intent.status is Status.PENDING
    anvil.mine()
    receipt = sender.send(approval(client, 5))
    assert receipt.transaction == intent.attempts[-1].hash
    assert client.node.transaction_count(client.address) == intent.nonce + 1


def test_several_messages_wait_in_line(anvil: Anvil, client: Chain) -> None:
    anvil.rpc("evm_setAutomine", False)
    keys = [client.sender.submit(approval(client, amount)) for amount in (1, 2, 3)]
    nonces = [client.journal.get(key).nonce for key in keys]  # type: ignore[union-attr]
    assert nonces == list(range(nonces[0], nonces[0] + 3))
    anvil.mine()
    assert len({client.sender.wait(key).block for key in keys}) == 1
    assert client.token.allowance(client.address, anvil_account(7).address) == 3


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
    assert client.token.allowance(client.address, anvil_account(7).address) == 1


def test_a_transaction_that_the_node_refuses_blocks_no_other(anvil: Anvil, client: Chain) -> None:
    coins = client.node.ether_of(client.address)
    anvil.fund(client.address, 0)
    with pytest.raises(ChainError, match="nsufficient funds"):
        client.token.approve(anvil_account(7).address, 1, once="refused")
    assert client.journal.pending() == []
    anvil.rpc("anvil_setBalance", client.address, hex(coins))
    client.token.approve(anvil_account(7).address, 2)
    client.token.approve(anvil_account(7).address, 1, once="refused")
    assert client.token.allowance(client.address, anvil_account(7).address) == 1


def test_messages_behind_one_that_no_node_took_are_not_held_back(
    anvil: Anvil, client: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    anvil.rpc("evm_setAutomine", False)
    sender = Sender(client.node, client.account, client.journal, patience=0, deadline=20)
    offer = client.node.send

    def refuse(raw: bytes) -> None:
        monkeypatch.setattr(client.node, "send", offer)
        sender.submit(approval(client, 2))  # another thread was quicker with the next nonce
        raise ChainError("no room for it")

    monkeypatch.setattr(client.node, "send", refuse)
    with pytest.raises(ChainError, match="no room"):
        sender.submit(approval(client, 1))
    anvil.rpc("evm_setAutomine", True)
    sender.wait(approval(client, 2).key)
    assert client.token.allowance(client.address, anvil_account(7).address) == 2
    sender.send(approval(client, 1))
    assert client.token.allowance(client.address, anvil_account(7).address) == 1


def test_a_message_that_never_reached_the_node_is_offered_by_the_one_behind_it(
    client: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = Sender(client.node, client.account, client.journal, patience=0, deadline=20)

    def unreachable(raw: bytes) -> None:
        raise Unreachable("no route")

    with monkeypatch.context() as patch:
        patch.setattr(client.node, "send", unreachable)
        with pytest.raises(Unreachable):
            sender.submit(approval(client, 1))
    sender.send(approval(client, 2))
    assert client.token.allowance(client.address, anvil_account(7).address) == 2
    assert sender.wait(approval(client, 1).key).block
    assert client.journal.pending() == []


def test_threads_send_side_by_side(client: Chain) -> None:
    sent = client.node.transaction_count(client.address)
    with ThreadPoolExecutor(4) as pool:
        receipts = list(pool.map(lambda amount: client.sender.send(approval(client, amount)), range(1, 9)))
    assert len({receipt.transaction for receipt in receipts}) == 8
    assert client.node.transaction_count(client.address) == sent + 8


def test_what_fails_in_the_chain_after_a_good_simulation_is_a_refusal(
    anvil: Anvil, client: Chain, chain_of: Chains, order_of: Orders
) -> None:
    order = order_of(accept_by=client.node.block_number() + 3)
    client.market.post(order)
    anvil.mine(4)
    other = chain_of(5)
    expire = Message.of(client.node.market, "expire", order.as_tuple())
    anvil.rpc("evm_setAutomine", False)
    key = other.sender.submit(expire)
    # Somebody else sends the same afterwards and pays more to be first.
    faster = {"from": client.address, "to": expire.to, "data": "0x" + expire.data.hex(), "gas": hex(300_000)}
    fees = {"maxFeePerGas": hex(10**12), "maxPriorityFeePerGas": hex(10**11)}
    anvil.rpc("eth_sendTransaction", faster | fees)
    anvil.mine()
    with pytest.raises(Reverted, match="WrongState"):
        other.sender.wait(key)
    assert other.journal.get(key).status is Status.REVERTED  # type: ignore[union-attr]


def test_another_account_takes_a_journal_over_and_sends_anew_what_is_not_in_the_chain(
    anvil: Anvil, chain_of: Chains, tmp_path: Path
) -> None:
    old, new, spender = chain_of(6), chain_of(8), anvil_account(7).address
    with closing(Journal(tmp_path / "taken over.sqlite")) as journal:
        before = Sender(old.node, old.account, journal, deadline=0.5)
        before.send(approval(old, 5))
        anvil.rpc("evm_setAutomine", False)
        with pytest.raises(NotMined):
            before.send(approval(old, 6))
        anvil.rpc("anvil_dropAllTransactions")
        anvil.rpc("evm_setAutomine", True)
        after, nonce = Sender(new.node, new.account, journal, deadline=20), new.node.transaction_count(new.address)
        after.resume()
        assert journal.pending() == []
        after.send(approval(old, 5))
        after.send(approval(old, 6))
        assert new.node.transaction_count(new.address) == nonce + 1
        assert (old.token.allowance(old.address, spender), new.token.allowance(new.address, spender)) == (5, 6)
