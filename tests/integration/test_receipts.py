"""Receipts of tasks on a real chain: what they say, what proves it, and what the chain refuses."""

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import pytest
from eth_account import Account

from eigentensor.chain import Chain, Network, Reader
from eigentensor.chain.history import Topics
from eigentensor.chain.keys import ANVIL_KEYS
from eigentensor.chain.transactions import read_transaction
from eigentensor.errors import ExecutorConvicted, WrongReceipt
from eigentensor.receipt import Receipt, compare, prove, read
from eigentensor.task import Event
from eigentensor_client.receipts import Checked
from eigentensor_local.anvil import Anvil
from support.hostile.receipts import CHAIN_ONLY, forged, forgeries
from support.stories.market import Life
from support.stories.receipts import (
    OUTPUTS,
    STATES,
    STORIES,
    Story,
    checked,
    confirmed,
    contradicted,
    convict,
    silent,
)
from support.web3 import web3_of

WORDS = {
    "confirmed": "final, checked(1)",
    "checked": "checked(1)",
    "unanswered": "final, unchecked",
    "contradicted": "result, challenged",
    "convicted": "convicted",
    "silent": "convicted",
    "demanded": "convicted",
    "defended": "final, unchecked",
}


class Watched(Reader):
    """Remembers of which blocks it asked for logs."""

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self.asked: list[tuple[int, int]] = []
        logs = self.history.logs

        def watched(start: int, stop: int, topics: Topics = ()) -> list[Event]:
            self.asked.append((start, stop))
            return logs(start, stop, topics)

        self.history.logs = watched  # type: ignore[method-assign]


def proved_on_chain(story: Story, life: Life, verifiers: list[Chain]) -> Receipt:
    """The receipt of a task so led: read, written, read again, proved, confirmed."""
    story(life, verifiers)
    receipt = read(life.client, life.order, None if story is silent else (OUTPUTS, STATES))
    assert receipt.task == life.task.hex()
    assert receipt.state == WORDS[story.__name__]
    assert Receipt.from_bytes(receipt.to_bytes()) == receipt
    assert {line.by for line in prove(receipt)} - {"chain"} == {"hash", "signature", "formula"}
    standing = compare(receipt, life.client)
    assert standing.words == receipt.state
    return receipt


def refused_by_the_chain(receipt: Receipt, life: Life, *, once: bool) -> set[str]:
    """The patterns of forgeries that nothing refuses offline; the chain refuses each, or (`once`) one of a pattern."""
    seen: set[str] = set()
    for what, value in forgeries(receipt):
        pattern = next((p for p in CHAIN_ONLY if fnmatchcase(what, p)), None)
        if pattern is None or (once and pattern in seen) or not isinstance(other := forged(value), Receipt):
            continue
        with pytest.raises(WrongReceipt):
            compare(other, life.client)
        seen.add(pattern)
    return seen


def test_a_receipt_is_confirmed_by_the_chain_which_refuses_what_a_forger_got_past_all_else(
    life: Life, verifiers: list[Chain]
) -> None:
    receipt = proved_on_chain(confirmed, life, verifiers)
    assert len(refused_by_the_chain(receipt, life, once=True)) >= 7

    life.anvil.mine(600)
    chain = Watched(life.client.network)
    standing = compare(receipt, chain)
    assert (standing.first, standing.last) == (receipt.events[0].place.block, receipt.head.number)
    assert chain.asked and all(standing.first <= start <= stop <= standing.last for start, stop in chain.asked)
    result = Checked(receipt, tuple(prove(receipt)), standing)
    assert f"in blocks {standing.first} to {standing.last}" in " ".join(result.proves())
    late = replace(receipt, head=chain.node.head())
    assert compare(late, chain).last == receipt.life.end < late.head.number


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES, ids=lambda story: str(story.__name__))
def test_of_any_receipt_the_chain_refuses_every_forgery(story: Story, life: Life, verifiers: list[Chain]) -> None:
    receipt = proved_on_chain(story, life, verifiers)
    assert len(refused_by_the_chain(receipt, life, once=False)) >= 7


@pytest.mark.slow
def test_a_true_receipt_of_a_task_that_was_convicted_since_is_said_to_be_one(
    life: Life, verifiers: list[Chain]
) -> None:
    receipt = proved_on_chain(contradicted, life, verifiers)
    convict(life, verifiers)
    standing = compare(receipt, life.client)
    assert (standing.words, standing.lock.shares) == ("convicted", 0)
    assert isinstance(Checked(receipt, (), standing).failure(), ExecutorConvicted)
    now = read(life.client, life.order, receipt.parts)
    assert Checked(now, (), compare(now, life.client)).failure() is None


@pytest.mark.slow
def test_a_chain_that_never_had_the_task_refuses_its_receipt(life: Life, verifiers: list[Chain]) -> None:
    before = life.anvil.rpc("evm_snapshot")
    receipt = proved_on_chain(checked, life, verifiers)
    assert life.anvil.rpc("evm_revert", before)
    with pytest.raises(WrongReceipt, match="newest block"):
        compare(receipt, life.client)
    life.anvil.mine(200)
    with pytest.raises(WrongReceipt, match="another one"):
        compare(receipt, life.client)
    there = replace(receipt, head=life.client.node.head())
    with pytest.raises(WrongReceipt, match="no such task"):
        compare(there, life.client)


@pytest.mark.slow
def test_while_there_is_no_result_there_is_no_receipt(life: Life) -> None:
    life.committed()
    with pytest.raises(WrongReceipt, match="no result was revealed"):
        read(life.client, life.order).to_bytes()


@pytest.mark.slow
def test_every_type_of_transaction_is_told_by_the_node_as_it_was_signed(anvil: Anvil, client: Chain) -> None:
    account, chain_id = Account.from_key(ANVIL_KEYS[7]), client.deployment.chain_id
    nonce = client.node.transaction_count(account.address)
    common: dict[str, Any] = {"chainId": chain_id, "to": client.address, "value": 1, "gas": 100_000, "data": b"\1\2"}
    fee: dict[str, Any] = {"maxFeePerGas": 10**10, "maxPriorityFeePerGas": 1}
    keys = ({"address": client.address, "storageKeys": ["0x" + "01" * 32]},)
    authorization = account.sign_authorization({"chainId": chain_id, "address": client.address, "nonce": nonce + 4})
    transactions: tuple[dict[str, Any], ...] = (
        {"gasPrice": 10**10},
        {"gasPrice": 10**10, "accessList": keys, "type": 1},
        fee | {"accessList": keys, "type": 2},
        fee | {"authorizationList": [authorization], "type": 4},
    )
    for number, fields in enumerate(transactions):
        signed = account.sign_transaction(common | fields | {"nonce": nonce + number})
        hash_ = web3_of(anvil).eth.send_raw_transaction(signed.raw_transaction)
        web3_of(anvil).eth.wait_for_transaction_receipt(hash_)
        raw = client.node.transaction(bytes(hash_))
        assert raw == bytes(signed.raw_transaction)
        read = read_transaction(raw)
        assert (read.sender, read.to, read.data, read.chain_id) == (account.address, client.address, b"\1\2", chain_id)
