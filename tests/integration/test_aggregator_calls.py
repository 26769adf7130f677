"""The aggregator and paid calls on a real chain: what it tells of pools, channels and batches, and what it sends."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from eigentensor import economics
from eigentensor.chain import Chain, Opening
from eigentensor.channel import BatchState, ChannelState, Deal, Offer, batch_of, events, share_root
from eigentensor.economics import shares
from eigentensor.task import commitment
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.daemon import Daemon
from eigentensor_local.anvil import Anvil
from support.screens.objects import hold
from support.stories.channel import DEPOSIT, PRICE, SALT, Served, begin_and_open

Chains = Callable[[int], Chain]
Serve = Callable[[Settings], tuple[str, Daemon]]


@pytest.fixture
def served(client: Chain, operator: Chain) -> Served:
    return begin_and_open(client, operator)


def get(url: str, path: str, status: int = 200) -> dict[str, Any]:
    response = httpx.get(url + path)
    assert response.status_code == status, response.text
    value: dict[str, Any] = response.json()
    hold(value)
    return value


def rounds(daemon: Daemon, count: int = 2) -> None:
    for _ in range(count):
        daemon.turn()


@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
def test_a_batch_is_followed_to_its_end_seeded_closed_and_settled(
    anvil: Anvil, client: Chain, operator: Chain, verifiers: list[Chain], served: Served, serve: Serve,
    settings: Settings,
) -> None:  # fmt: skip
    p, offer, batch = client.deployment.parameters, served.offer, served.batch
    url, daemon = serve(settings)
    rounds(daemon)
    (pool,) = get(url, f"/v1/pools?operator={operator.address.lower()}")["pools"]
    assert (pool["pool"], pool["begun"], pool["channels"]) == (served.pool.hex(), 1, 1)
    assert Offer.from_json(pool["offer"]) == offer and get(url, f"/v1/pools?operator={client.address}")["pools"] == []
    channel = get(url, f"/v1/channels/0x{served.channel.hex().upper()}")
    assert (channel["state"], channel["deposit"], channel["count"]) == ("open", str(DEPOSIT), 0)
    assert Deal.from_json(channel["deal"]) == served.deal and channel["operator"] == operator.address
    assert get(url, f"/v1/batches/{batch.hex()}")["state"] == "begun"

    for _ in range(5):
        served.call()
    mined = operator.channels.commit(offer, 1, [served.sheet()], begins=True)
    assert {events.Committed, events.Begun} <= {type(event) for event in mined.events}, "both in one transaction"
    rounds(daemon)
    whole = get(url, f"/v1/batches/{batch.hex()}")
    line = served.sheet().line(served.domain, 0, 0, 0)
    assert (whole["state"], whole["calls"], whole["amount"]) == ("committed", 5, str(5 * PRICE))
    assert whole["lines"] == [line.to_json()] and whole["windows"]["dispute_by"] is not None
    channel = get(url, f"/v1/channels/{served.channel.hex()}")
    assert (channel["deposit"], channel["paid"], channel["count"]) == (str(DEPOSIT - 5 * PRICE), str(5 * PRICE), 5)
    listed = get(url, f"/v1/batches?channel={served.channel.hex()}")["batches"]
    assert [one["batch"] for one in listed] == [batch.hex()] and "lines" not in listed[0]
    both = get(url, "/v1/batches?limit=1")
    assert [one["number"] for one in both["batches"]] == [2]
    assert get(url, f"/v1/batches?limit=1&cursor={both['next']}")["batches"][0]["number"] == 1
    assert get(url, f"/v1/batches?state=begun&pool={served.pool.hex()}")["batches"] == both["batches"]

    seed = whole["draw"]["seed_block"]
    anvil.mine_past(seed)
    rounds(daemon)
    mix = client.market.seed_of(seed)
    assert mix is not None, "the aggregator recorded it"
    verifier, index, root = _answers(client, verifiers, served, mix)
    anvil.mine_past(client.channels.windows_of(offer, 1).reveal_by)
    client.channels.reveal(offer, 1, [], Opening(batch, root, SALT, index + 1))
    rounds(daemon)
    (answer,) = get(url, f"/v1/batches/{batch.hex()}")["answers"]
    assert (answer["index"], answer["agrees"], answer["settled"]) == (index, True, None)

    anvil.mine_past(client.channels.windows_of(offer, 1).dispute_by)
    rounds(daemon, 3)
    assert client.channels.batch_at(batch).state is BatchState.FINAL
    whole = get(url, f"/v1/batches/{batch.hex()}")
    k = shares.checked(5, offer.check_rate, 2)
    fee = shares.fee(p, offer.check_price, k, 2)
    assert whole["answers"][0]["settled"] == str(economics.bond(p, PRICE) + fee)
    assert (whole["state"], whole["returned"]) == ("final", str(fee - p.g_chk))
    assert [one["event"] for one in whole["events"]] == [
        "Begun", "Lined", "Committed", "Seeded", "Answered", "Revealed", "Closed", "Settled",
    ]  # fmt: skip
    assert client.channels.balance_of(verifier.address).collateral == 0
    metrics = httpx.get(url + "/metrics").text
    assert 'et_batches{state="final"} 1.0' in metrics and "et_channels_open 1.0" in metrics
    assert 'et_batches{state="lapsed"} 1.0' in metrics, "the second one, which nobody committed"
    for kind, count in {"seed": 1, "close_batch": 2, "settle_batch": 1}.items():
        assert f'et_tx_total{{kind="{kind}",outcome="mined"}} {count}.0' in metrics


def _answers(client: Chain, verifiers: list[Chain], served: Served, mix: bytes) -> tuple[Chain, int, bytes]:
    """A verifier that is drawn for share 0 answers: which one, at which index, with which root."""
    batch, offer = served.batch, served.offer
    numbers = shares.numbers(mix, batch, len(served.receipts), offer.check_rate, 2, 0)
    root = share_root([served.receipts[number].outputs_root for number in numbers])
    seats = client.channels.batch_at(batch).seats
    drawn = {client.stake.seat_at(economics.seat_of(mix, batch, index, seats)).operator: index for index in range(16)}
    verifier, index = next((one, drawn[one.address]) for one in verifiers if one.address in drawn)
    bond = economics.bond(client.deployment.parameters, PRICE)
    verifier.token.mint(verifier.address, bond)
    verifier.channels.deposit(verifier.address, bond)
    hidden = commitment(served.domain, batch, verifier.address, index + 1, root, SALT)
    verifier.channels.answer(verifier.address, offer, 1, index, hidden)
    return verifier, index, root


def test_a_batch_that_nobody_commits_lapses_and_a_convicted_one_is_slashed(
    anvil: Anvil, client: Chain, operator: Chain, served: Served, serve: Serve, settings: Settings
) -> None:
    offer, first = served.offer, served.batch
    url, daemon = serve(settings)
    operator.channels.begin(offer)
    receipt, signature = served.call()
    served.acknowledge()
    operator.channels.commit(offer, 1, [served.sheet()])
    other = replace(receipt, outputs_root=b"\xee" * 32)
    client.channels.contradict(offer, served.deal, receipt, signature, other, served.signed(other))
    rounds(daemon, 3)
    whole = get(url, f"/v1/batches/{first.hex()}")
    assert whole["state"] == "convicted" and whole["convicted"]["breach"] == "contradiction"
    assert whole["convicted"]["winner"] == client.address and whole["convicted"]["slashed"] is not None
    assert client.channels.judgment_at(first).slashed

    second = batch_of(served.pool, 2)
    anvil.mine_past(get(url, f"/v1/batches/{second.hex()}")["windows"]["close_from"] - 1)
    rounds(daemon)
    assert client.channels.batch_at(second).state is BatchState.LAPSED
    client.channels.leave(offer, served.deal)
    rounds(daemon)
    channel = get(url, f"/v1/channels/{served.channel.hex()}")
    assert (channel["state"], channel["last"]) == ("left", 2)
    assert client.channels.channel_at(served.channel).state is ChannelState.LEFT


def test_what_is_taken_back_is_forgotten(
    anvil: Anvil, client: Chain, operator: Chain, served: Served, serve: Serve, settings: Settings
) -> None:
    url, daemon = serve(settings)
    rounds(daemon)
    snapshot = anvil.rpc("evm_snapshot")
    served.call()
    operator.channels.commit(served.offer, 1, [served.sheet()])
    rounds(daemon)
    assert get(url, f"/v1/batches/{served.batch.hex()}")["state"] == "committed"
    assert anvil.rpc("evm_revert", snapshot)
    anvil.mine_past(client.node.block_number() + 1)
    rounds(daemon)
    assert get(url, f"/v1/batches/{served.batch.hex()}")["state"] == "begun"
    assert get(url, f"/v1/channels/{served.channel.hex()}")["count"] == 0
    assert get(url, f"/v1/batches?channel={served.channel.hex()}")["batches"] == []


@pytest.mark.parametrize("path", ["/v1/batches/{}", "/v1/channels/{}"])
@pytest.mark.parametrize("name", ["ab" * 32, "nonsense", "0x"])
def test_what_is_not_there_is_not_told(serve: Serve, settings: Settings, path: str, name: str) -> None:
    url, _ = serve(settings)
    problem = get(url, path.format(name), 404)
    assert problem["code"] == "ChannelNotFound"
    assert get(url, "/v1/pools")["pools"] == get(url, "/v1/batches")["batches"] == []
