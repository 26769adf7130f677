"""A client's channel on a real chain, at a toy operator over loopback: its money, its watch, and liars."""

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigentensor import economics
from eigentensor.chain import Chain, Network, Reader, anvil_account, to_wei
from eigentensor.channel import BatchState, Breach, ChannelState, pool_of
from eigentensor.economics import WAD, shares
from eigentensor.errors import CallRefused, ChannelBusy, ChannelClosed, ChannelSpent, NotYet, TermsRefused, WrongReceipt
from eigentensor.program import encode
from eigentensor.program.binding import Results
from eigentensor.receipt.calls import SignedCall, compare, prove
from eigentensor_client.channels.async_channel import AsyncChannel
from eigentensor_client.channels.channel import Channel, Policy
from eigentensor_client.channels.ledger import Stage
from eigentensor_client.channels.opening import Wish
from eigentensor_client.client import Client
from eigentensor_local.anvil import Anvil
from support.stories.calls_place import DEPOSIT, PRICE, QUIET, Place, RealPlace
from support.stories.game_table import CLIENT
from support.stories.paid_calls import doubling, program_root
from support.stories.toy_operator import tampered

Chains = Callable[[int], Chain]


@pytest.fixture
def paying(network: Network, client: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("EIGENTENSOR_CACHE_DIR", str(tmp_path / "cache"))
    with Client(network, anvil_account(CLIENT)) as made:
        yield made


@pytest.fixture
def place(operator: Chain, paying: Client, tmp_path: Path) -> Iterator[Place]:
    made = Place(operator, paying, tmp_path / "channels")
    yield made
    made.ledger.close()


@pytest.fixture(params=["toy", "real"])
def either(
    request: pytest.FixtureRequest, anvil: Anvil, operator: Chain, paying: Client, tmp_path: Path
) -> Iterator[Place]:
    """What holds of one operator holds of the other."""
    with ExitStack() as stack:
        folder = tmp_path / "channels"
        is_real = request.param == "real"
        made = RealPlace(operator, paying, folder, anvil, stack) if is_real else Place(operator, paying, folder)
        stack.callback(made.ledger.close)
        yield made


def double(channel: Channel, value: float) -> np.ndarray[Any, Any]:
    (values,) = channel.call(doubling().program, program_root(), {"x": np.full(4, value, np.float32)}).outputs.values()
    return values


def test_a_channel_lives_from_its_opening_to_its_last_wei(anvil: Anvil, either: Place, client: Chain) -> None:
    place = either
    p, before = client.deployment.parameters, client.token.balance_of(client.address)
    with place.listening() as url, ThreadPoolExecutor(4) as threads:
        wish = Wish(DEPOSIT // 2, programs=(program_root(),))
        with Channel.open(place.client, url, wish, policy=QUIET, ledger=place.ledger) as channel:
            channel.fund(DEPOSIT - DEPOSIT // 2)
            assert channel.account.deposit == channel.payer.deposit == DEPOSIT
            results = list(threads.map(lambda value: double(channel, value), range(100)))
            assert all((result == 2.0 * value).all() for value, result in enumerate(results))
            assert channel.payer.amount == 100 * PRICE and channel.state_of(99) == "signed"
            place.commit()
            assert channel.look() == [] and channel.state_of(99) == "committed"
            assert channel.account.deposit == DEPOSIT - 100 * PRICE

            place.close_batch(anvil)
            place.begin()
            double(channel, 1)  # of the next batch
            seen = channel.look()
            assert [one.what for one in seen] == ["what the line gets back was fetched"]
            assert channel.state_of(0) == channel.state_of(99) == "final, unchecked"
            assert channel.look() == [] and channel.account.first == 2
            fee = shares.fee(p, place.offer.check_price, shares.checked(100, WAD * 3 // 5, 2), 2) - p.g_chk
            assert client.channels.balance_of(client.address).balance == 2 * fee

            with pytest.raises(ChannelClosed, match="Leave it first"):
                channel.end()
            channel.leave()
            with pytest.raises(ChannelClosed, match="left"):
                double(channel, 2)
            with pytest.raises(NotYet, match="last batch, 2"):
                channel.end()
            place.commit()
            channel.end()
            assert channel.account.stage is Stage.ENDED
    spent = 101 * PRICE + p.g_chunk - 2 * fee
    assert client.token.balance_of(client.address) == before - spent


def test_a_channel_that_both_sides_conclude_is_paid_at_once_to_the_last_wei(either: Place, client: Chain) -> None:
    place = either
    p, before = client.deployment.parameters, client.token.balance_of(client.address)
    earned = client.channels.balance_of(place.chain.address).balance
    with place.open() as channel:
        for value in range(3):
            double(channel, value)
        place.commit()
        place.begin()
        for value in range(2):
            double(channel, value)
        channel.conclude()
        assert channel.account.stage is Stage.ENDED and channel.account.deposit == 0
        with pytest.raises(ChannelClosed):
            double(channel, 1)
        channel.conclude()  # once more changes nothing
        place.commit()  # without the channel, which is nothing to say about
        assert channel.look() == []
    assert client.token.balance_of(client.address) == before - p.g_chunk - 5 * PRICE
    stored = client.channels.channel_at(channel.account.agreement.channel)
    assert (stored.state, stored.paid) == (ChannelState.CONCLUDED, 5 * PRICE)
    held = shares.collateral(p, place.offer.max_price, place.offer.verifiers)
    assert client.channels.balance_of(place.chain.address).balance == earned + p.g_chunk + 2 * PRICE - held


def test_where_the_operator_concludes_nothing_a_channel_is_left(place: Place) -> None:
    place.toy.concludes = False
    with place.open() as channel:
        double(channel, 1)
        with pytest.raises(CallRefused, match="no channel is concluded"):
            channel.conclude()
        assert channel.account.stage is Stage.LEFT
        channel.leave()
        place.commit()
        channel.end()
    assert place.ledger.account(channel.name).stage is Stage.ENDED


def test_nothing_is_concluded_with_whoever_lied(place: Place) -> None:
    with place.open() as channel:
        for value in range(3):
            double(channel, value)
        place.commit(tampered)
        assert [one.what for one in channel.look()] == ["call 2 was committed with another result: convicted"]
        with pytest.raises(CallRefused, match="is convicted"):
            channel.conclude()
        assert not place.toy.concluded


def test_a_channel_is_taken_up_by_another_process(place: Place) -> None:
    with place.open() as channel:
        double(channel, 1)
        with pytest.raises(ChannelBusy):
            Channel.take_up(place.client, channel.name, ledger=place.ledger)
    transport = place.toy.transport()
    with Channel.take_up(
        place.client, channel.name[:12], ledger=place.ledger, policy=QUIET, transport=transport
    ) as again:
        assert (double(again, 3) == 6).all() and again.payer.count == 2


def test_a_channel_is_called_from_asyncio(place: Place) -> None:
    asyncio.run(called_together(place))


async def called_together(place: Place) -> None:
    wish, transport = Wish(DEPOSIT, programs=(program_root(),)), place.toy.transport()
    options: dict[str, Any] = {"policy": QUIET, "ledger": place.ledger, "transport": transport}
    async with await AsyncChannel.open(place.client, "http://toy", wish, **options) as channel:
        x = [{"x": np.full(4, value, np.float32)} for value in range(20)]
        results = await asyncio.gather(*(channel.call(doubling().program, program_root(), one) for one in x))
        assert [next(iter(one.outputs.values()))[0] for one in results] == [2.0 * value for value in range(20)]
        assert sorted(one.index for one in results) == list(range(20))
        name = channel.channel.name
    async with await AsyncChannel.take_up(place.client, name, **options) as again:
        await again.leave()
        assert again.account.stage is Stage.LEFT and (await again.receipt(7)).receipt.index == 7


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"deposit": PRICE - 1}, ChannelSpent, "the deposit is"),
        ({"max_price": PRICE - 1}, TermsRefused, "a call costs"),
        ({"value_at_risk": 1}, TermsRefused, "value at risk"),
        ({"repeat": 2}, CallRefused, "2 repeats"),
    ],
)
def test_nothing_is_signed_or_paid_where_a_quote_does_not_fit(
    place: Place, change: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        place.open(**change)
    assert place.ledger.accounts() == [] and not place.toy.deals and not (place.ledger.folder / "keys").exists()


def test_nothing_is_signed_at_operators_that_do_not_serve(place: Place, network: Network) -> None:
    served = place.toy.programs[program_root()]
    place.toy.programs = {b"q" * 32: served}
    with pytest.raises(CallRefused, match=f"it offers {(b'q' * 32).hex()}"):
        place.open()
    place.toy.programs = {program_root(): replace(served, is_warm=False)}
    with pytest.raises(CallRefused, match="not compiled it yet"):
        place.open()
    place.toy.programs = {program_root(): served, b"q" * 32: served}
    with pytest.raises(TermsRefused, match="other programs than its offer names"):
        place.open()
    place.toy.programs = {program_root(): served}
    place.toy.number = 2
    rich = replace(place.offer, most=to_wei("100000"), nonce=2)
    place.chain.channels.offer(rich)
    place.toy.offer, place.toy.pool = rich, pool_of(place.toy.domain, rich)
    with pytest.raises(TermsRefused, match="shares of stake"):
        place.open()
    assert place.ledger.accounts() == []


def test_a_wrong_leaf_in_the_tail_convicts(either: Place, client: Chain) -> None:
    place = either
    with place.open() as channel:
        for value in range(3):
            double(channel, value)
        place.commit(tampered)
        seen = channel.look()
        assert [one.what for one in seen] == ["call 2 was committed with another result: convicted"]
        judgment = client.channels.judgment_at(place.batch)
        assert (judgment.breach, judgment.winner) == (Breach.CONTRADICTION, client.address)
        whats = [one.what for _ in range(3) for one in channel.look()]
        assert "what the line gets back was fetched" in whats and "the operator's stake was slashed" in whats
        assert channel.state_of(2) == "convicted"
        reward = economics.reward(client.deployment.parameters, PRICE)
        assert client.channels.balance_of(client.address).balance == reward + 3 * PRICE


def test_a_receipt_proves_what_was_signed_and_where_it_stands(place: Place, network: Network) -> None:
    reader = Reader(network)
    with place.open() as channel:
        for value in range(5):
            double(channel, value)
        alone = channel.receipt(3)
        assert len(prove(alone)) == 3 and compare(alone, reader).state == "begun"
        place.commit()
        channel.look()
        receipt = SignedCall.from_bytes(channel.receipt(3).to_bytes())
        assert [line.by for line in prove(receipt)] == ["signature", "signature", "signature", "hash"]
        standing = compare(receipt, reader)
        assert (standing.state, standing.is_committed, standing.confirmed) == ("committed", True, 0)
    values = receipt.to_json()
    assert receipt.committed is not None

    def changed(path: tuple[str, ...], value: object) -> SignedCall:
        copy = json.loads(json.dumps(values))
        at = copy
        for name in path[:-1]:
            at = at[name]
        at[path[-1]] = value
        return SignedCall.from_json(copy)

    cases: list[tuple[tuple[str, ...], Any, str]] = [
        (("offer", "nonce"), "7", "deal.pool"),
        (("deal", "most"), "7", "agreed"),
        (("receipt", "channel"), "0x" + "00" * 32, "receipt.channel"),
        (("receipt", "index"), 2, "order"),
        (("receipt", "outputs_root"), "0x" + "00" * 32, "signature"),
        (("receipt", "number"), 2, "signature"),
        (("order", "program"), "0x" + "00" * 32, "receipt.order"),
        (("committed", "root"), "0x" + "00" * 32, "committed.line"),
        (("committed", "path"), [], "committed.path"),
    ]
    for path, value, where in cases:
        with pytest.raises(WrongReceipt) as raised:
            prove(changed(path, value))
        assert raised.value.where == where
    with pytest.raises(WrongReceipt, match="it was block"):
        compare(changed(("committed", "block"), 1), reader)
    with pytest.raises(WrongReceipt, match="not of this network"):
        compare(changed(("chain_id",), 1), reader)
    for name in values:
        with pytest.raises(WrongReceipt, match="no call receipt"):
            SignedCall.from_json({n: v for n, v in values.items() if n != name})


def test_a_call_that_is_left_out_convicts(place: Place, client: Chain) -> None:
    with place.open() as channel:
        for value in range(3):
            double(channel, value)
        place.commit(lambda sheet: place.toy.forget(channel.account.agreement.channel, 2))
        seen = channel.look()
        assert [one.what for one in seen] == ["call 2 was left out: convicted"]
        assert client.channels.judgment_at(place.batch).breach is Breach.OMISSION
        channel.look()
        reward = economics.reward(client.deployment.parameters, PRICE)
        assert client.channels.balance_of(client.address).balance == reward + 2 * PRICE


@pytest.mark.slow
def test_a_call_that_is_executed_again_and_is_wrong_is_challenged(
    anvil: Anvil, place: Place, client: Chain, paying: Client
) -> None:
    """The operator, which plays no game, loses it by its clock."""
    paying.gateway.store.put(encode(doubling().program))
    place.toy.lie = lambda results: Results({n: v + 1 for n, v in results.outputs.items()}, results.states)
    with place.open(policy=Policy(recheck=1, looks=0)) as channel:
        assert (double(channel, 1) == 3).all()
        place.toy.lie = lambda results: results
        assert (double(channel, 1) == 2).all()
        place.commit()
        assert [one.what for one in channel.look()] == ["call 0 is wrong, as this machine computes it: challenged"]
        assert client.channels.batch_at(place.batch).games == 1
        assert channel.look() == []
        anvil.mine_past(
            client.node.block_number() + 2 * economics.clock(client.deployment.parameters, place.offer.exec)
        )
        channel.look()
        judgment = client.channels.judgment_at(place.batch)
        assert (judgment.breach, judgment.winner) == (Breach.VERDICT, client.address)
        whats = [one.what for _ in range(3) for one in channel.look()]
        assert "what the line gets back was fetched" in whats and "the operator's stake was slashed" in whats


def test_a_batch_without_the_channel_convicts(place: Place, client: Chain) -> None:
    with place.open() as channel, place.open() as other:
        double(channel, 1)
        double(other, 2)
        sheets = [sheet for sheet in place.toy.sheets() if sheet.deal == other.account.agreement.deal]
        place.chain.channels.commit(place.offer, 1, sheets)
        assert other.look() == []
        assert [one.what for one in channel.look()] == ["call 0 was left out: convicted"]


def test_an_operator_that_is_silent_after_a_receipt_pays(anvil: Anvil, either: Place, client: Chain) -> None:
    """The client has its deposit, W, and half of what was slashed."""
    place = either
    p, before = client.deployment.parameters, client.token.balance_of(client.address)
    locked = client.stake.lock_of(place.batch, place.chain.address).shares
    with place.open() as channel:
        double(channel, 1)
        assert channel.look() == []
        anvil.mine_past(client.channels.windows_of(place.offer, 1).commit_by)
        assert [one.what for one in channel.look()] == ["call 0 was left out: convicted"]
        assert client.channels.batch_at(place.batch).state is BatchState.CONVICTED
        assert [one.what for one in channel.look()] == ["the operator's stake was slashed"]
        anvil.mine_past(client.node.block_number() + 30)
        assert [one.what for one in channel.look()] == ["half of the slashed stake was paid"]
        channel.end()
        assert channel.account.stage is Stage.ENDED
        half = client.market.balance_of(client.address).balance
        assert abs(half - client.stake.worth_of(locked) // 2) <= 1024
    gained = economics.reward(p, PRICE) - p.g_chunk
    assert client.token.balance_of(client.address) == before + gained
