"""Fees that rise, nodes that forget, threads that hurry: what was sent once gets into the chain once."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from eigentensor.chain import Chain, Message, Reader, Sender, anvil_account
from eigentensor.chain.journal import Status
from eigentensor.chain.sender import TIP_ALWAYS, TIP_MOST, Fee, Fees
from eigentensor.chain.units import GWEI
from eigentensor.errors import FeeTooHigh, NotMined
from eigentensor_local.anvil import Anvil
from support.hostile.node import false_node

SPIKE = 300 * GWEI
LONG = 60.0  #: seconds of patience that no test waits for


@pytest.fixture
def cheap(anvil: Anvil) -> Iterator[Anvil]:
    """A chain whose fees come down again with the test."""
    yield anvil
    spike(anvil, GWEI)


def spike(anvil: Anvil, base: int) -> None:
    """A block with this base fee, which takes nothing that offers less."""
    anvil.rpc("anvil_setNextBlockBaseFeePerGas", hex(base))
    anvil.mine()


def approval(chain: Chain, amount: int) -> Message:
    return Message.of(chain.node.token, "approve", anvil_account(7).address, amount)


def allowed(chain: Chain) -> int:
    return chain.token.allowance(chain.address, anvil_account(7).address)


def stuck(anvil: Anvil, chain: Chain, sender: Sender, amount: int) -> str:
    """A message that left before the fees rose above what it offers."""
    anvil.rpc("evm_setAutomine", False)
    key = sender.submit(approval(chain, amount))
    spike(anvil, SPIKE)
    anvil.rpc("evm_setAutomine", True)
    assert allowed(chain) != amount
    return key


def patient(chain: Chain, deadline: float = 20.0, max_fee: int | None = None) -> Sender:
    """A sender that restarted just now, which raises no fee only because time has passed."""
    node = Reader(chain.network).node
    return Sender(node, chain.account, chain.journal, patience=LONG, deadline=deadline, max_fee=max_fee)


def test_a_message_that_the_fees_have_overtaken_is_replaced_at_once(cheap: Anvil, client: Chain) -> None:
    key = stuck(cheap, client, patient(client), 5)
    receipt = patient(client).wait(key)
    intent = client.journal.get(key)
    assert intent is not None and len(intent.attempts) == 2
    first, second = intent.attempts
    assert first.fee < SPIKE < second.fee and receipt.transaction == second.hash
    assert allowed(client) == 5


def test_no_message_pays_more_than_is_allowed_and_it_goes_on_when_fees_come_down(cheap: Anvil, client: Chain) -> None:
    sender = patient(client, max_fee=SPIKE // 2, deadline=0.3)
    key = stuck(cheap, client, sender, 5)
    with pytest.raises(NotMined) as late:
        sender.wait(key)
    assert sender.fees.capped and "allow more in the settings" in late.value.fix
    count = client.node.transaction_count(client.address)
    with pytest.raises(FeeTooHigh, match=r"gas costs .* gwei, at most 150 gwei is allowed"):
        sender.send(approval(client, 6))
    assert client.journal.get(approval(client, 6).key) is None
    assert client.node.transaction_count(client.address, "pending") - count <= 1
    spike(cheap, GWEI)
    sender.send(approval(client, 5))
    sender.send(approval(client, 6))
    intent = client.journal.get(key)
    assert intent is not None and max(attempt.fee for attempt in intent.attempts) <= SPIKE // 2
    assert (sender.fees.capped, allowed(client)) == (False, 6)


def test_a_node_that_names_a_tip_beyond_all_sense_is_not_believed(cheap: Anvil, client: Chain) -> None:
    def says(method: str, true: bytes) -> tuple[int, bytes]:
        greedy = b'{"jsonrpc": "2.0", "id": 0, "result": "%s"}' % hex(10**17).encode()
        return 200, greedy if method == "eth_maxPriorityFeePerGas" else true

    with false_node(says, client.network.rpc_url) as url:
        fees = Fees(Reader(replace(client.network, rpc_url=url)).node, None)
        assert fees.first().tip == TIP_ALWAYS
        spike(cheap, SPIKE)
        assert TIP_ALWAYS < fees.first().tip <= SPIKE
        assert Fees(client.node, None).first().tip <= GWEI, "an honest node's is what it says"
        dear = fees.next(Fee(4 * SPIKE, TIP_MOST * 9 // 10), waited=True)
        assert dear is not None and dear.tip == TIP_MOST and fees.next(dear, waited=True) is None


def test_a_message_of_a_clock_that_was_set_back_by_hours_has_waited(
    anvil: Anvil, client: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, now = patient(client), time.time
    anvil.rpc("evm_setAutomine", False)
    key = sender.submit(approval(client, 5))
    monkeypatch.setattr(time, "time", lambda: now() - 3 * 3600)
    for _ in range(2):  # from then on it waits by the new clock
        sender.resume()
    intent = client.journal.get(key)
    assert intent is not None and len(intent.attempts) == 2
    anvil.rpc("evm_setAutomine", True)
    assert sender.wait(key).block and allowed(client) == 5


def test_a_message_that_the_node_has_dropped_is_offered_again(anvil: Anvil, client: Chain) -> None:
    sender = patient(client)
    anvil.rpc("evm_setAutomine", False)
    key = sender.submit(approval(client, 5))
    intent = client.journal.get(key)
    assert intent is not None
    anvil.rpc("anvil_dropTransaction", "0x" + intent.attempts[0].hash.hex())
    anvil.rpc("evm_setAutomine", True)
    assert sender.wait(key).transaction == intent.attempts[0].hash and allowed(client) == 5


def test_a_restart_after_a_spike_takes_up_what_no_node_knows_any_more(cheap: Anvil, client: Chain) -> None:
    count = client.node.transaction_count(client.address)
    stuck(cheap, client, patient(client), 5)
    cheap.rpc("anvil_dropAllTransactions")
    again = patient(client)
    again.resume()
    again.send(approval(client, 5))
    assert allowed(client) == 5 and client.node.transaction_count(client.address) == count + 1


def test_nothing_waits_behind_a_message_that_is_too_cheap_and_that_nobody_waits_for(
    cheap: Anvil, client: Chain
) -> None:
    abandoned = stuck(cheap, client, patient(client), 5)
    patient(client).send(approval(client, 6))
    assert allowed(client) == 6
    assert client.sender.wait(abandoned).block and client.journal.pending() == []


def test_threads_that_send_the_same_send_it_once(client: Chain) -> None:
    count = client.node.transaction_count(client.address)
    with ThreadPoolExecutor(6) as pool:
        receipts = list(pool.map(lambda _: client.sender.send(approval(client, 5)), range(6)))
    assert len({receipt.transaction for receipt in receipts}) == 1
    assert client.node.transaction_count(client.address) == count + 1
    intent = client.journal.get(approval(client, 5).key)
    assert intent is not None and intent.status is Status.MINED
