"""A client's channel on a real chain, at a toy operator over loopback: its money, its watch, and liars."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigentensor import economics, merkle
from eigentensor.chain import Chain, Network, anvil_account, to_wei
from eigentensor.channel import BatchState, Breach, Key, Offer, Sheet, batch_of, pool_of
from eigentensor.economics import WAD, shares
from eigentensor.errors import CallRefused, ChannelBusy, ChannelClosed, ChannelSpent, NotYet, TermsRefused
from eigentensor_client.channels.channel import Channel, Policy
from eigentensor_client.channels.ledger import Ledger, Stage
from eigentensor_client.channels.opening import Wish
from eigentensor_client.client import Client
from eigentensor_local.anvil import Anvil
from support.stories.game_table import CLIENT
from support.stories.paid_calls import doubling, program_root
from support.stories.toy_operator import Served, ToyOperator, tampered

Chains = Callable[[int], Chain]
PRICE = to_wei("0.00001")
DEPOSIT = to_wei("0.01")
SIGNER = Key(b"\x11" * 32)
QUIET = Policy(looks=0)


class Place:
    """An operator that has begun a batch, and a client with a ledger of its own."""

    def __init__(self, operator: Chain, client: Client, folder: Path) -> None:
        self.chain, self.client = operator, client
        self.offer = Offer(
            operator=operator.address, signer=SIGNER.address, nonce=1, max_price=PRICE, check_price=PRICE // 2,
            most=1000 * PRICE, risk_each=0, risk_all=0, check_rate=WAD * 3 // 5, verifiers=2, exec=10, epoch=60, tail=8,
            programs=merkle.programs_root({program_root(): 1}),
        )  # fmt: skip
        domain = client.network.deployment.channels_domain
        self.toy = ToyOperator(domain, self.offer, SIGNER, {program_root(): Served(doubling().program, PRICE)})
        self.toy.deposits = lambda channel: operator.channels.channel_at(channel).deposit
        self.ledger = Ledger(folder, durable=False)
        operator.token.mint(operator.address, to_wei("1"))
        operator.channels.deposit(operator.address, to_wei("1"))
        operator.channels.offer(self.offer)
        self.begin()

    @property
    def batch(self) -> bytes:
        return batch_of(self.toy.pool, 1)

    def begin(self) -> None:
        self.chain.channels.begin(self.offer)
        self.toy.commit_by = self.chain.node.block_number() + self.offer.epoch

    def open(self, deposit: int = DEPOSIT, policy: Policy = QUIET, **wishes: Any) -> Channel:
        wish = Wish(deposit, programs=(program_root(),), **wishes)
        transport = self.toy.transport()
        return Channel.open(self.client, "http://toy", wish, policy=policy, ledger=self.ledger, transport=transport)

    def commit(self, change: Callable[[Sheet], Sheet] = lambda sheet: sheet) -> None:
        sheets = self.toy.sheets()
        self.chain.channels.commit(self.offer, self.toy.number - 1, [change(sheet) for sheet in sheets])
        self.toy.committed(sheets)

    def close_batch(self, anvil: Anvil, number: int = 1) -> None:
        seed = self.chain.channels.seed_block_of(batch_of(self.toy.pool, number))
        anvil.mine_past(seed)
        self.chain.market.seed(seed)
        anvil.mine_past(self.chain.channels.windows_of(self.offer, number).dispute_by)
        self.chain.channels.close(self.offer, number)


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


def double(channel: Channel, value: float) -> np.ndarray[Any, Any]:
    (values,) = channel.call(doubling().program, program_root(), {"x": np.full(4, value, np.float32)}).outputs.values()
    return values


def test_a_channel_lives_from_its_opening_to_its_last_wei(anvil: Anvil, place: Place, client: Chain) -> None:
    p, before = client.deployment.parameters, client.token.balance_of(client.address)
    with place.toy.listening() as url, ThreadPoolExecutor(4) as threads:
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
    place.toy.programs = {program_root(): served}
    place.toy.number = 2
    rich = replace(place.offer, most=to_wei("100000"), nonce=2)
    place.chain.channels.offer(rich)
    place.toy.offer, place.toy.pool = rich, pool_of(place.toy.domain, rich)
    with pytest.raises(TermsRefused, match="shares of stake"):
        place.open()
    assert place.ledger.accounts() == []


def test_a_wrong_leaf_in_the_tail_convicts(place: Place, client: Chain) -> None:
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


def test_a_batch_without_the_channel_convicts(place: Place, client: Chain) -> None:
    with place.open() as channel, place.open() as other:
        double(channel, 1)
        double(other, 2)
        sheets = [sheet for sheet in place.toy.sheets() if sheet.deal == other.account.agreement.deal]
        place.chain.channels.commit(place.offer, 1, sheets)
        assert other.look() == []
        assert [one.what for one in channel.look()] == ["call 0 was left out: convicted"]


def test_an_operator_that_is_silent_after_a_receipt_pays(anvil: Anvil, place: Place, client: Chain) -> None:
    """The client has its deposit, W, and half of what was slashed."""
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
