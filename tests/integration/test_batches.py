"""Batches of paid calls by daemons on a real chain: served, committed, checked, disputed, paid."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from eigentensor.chain import Chain, Stage, to_wei
from eigentensor.channel import BatchState, Breach, ChannelState, Key, events
from eigentensor.economics import shares
from eigentensor.reexecution.warm import WarmExecution
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.daemon import Daemon
from eigentensor_local.anvil import Anvil
from support.stories.call_operators import (
    PRICE,
    Hiding,
    HttpCaller,
    Lax,
    Mean,
    Operator,
    Street,
    Wrong,
    of_kind,
    offered,
    until,
)
from support.stories.calls import Programs, programs
from support.stories.clock import Clock

pytestmark = pytest.mark.slow
Customers = Callable[[Chain, str], HttpCaller]
DEPOSIT = 200 * PRICE
CALLS = 6
EPOCH = 120  #: blocks in which all calls of a batch are made, on a busy machine


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    some = programs(tmp_path_factory.mktemp("programs"))
    priced = {name: replace(one, price=PRICE // 2) for name, one in some.served.items()}
    yield replace(some, served=priced)
    some.close()


@pytest.fixture
def clock(anvil: Anvil) -> Iterator[Clock]:
    with Clock(anvil, 0.25) as clock:
        yield clock


@pytest.fixture
def street(settings: Settings, serve: Callable[[Settings], tuple[str, Daemon]], tmp_path: Path) -> Street:
    url, _ = serve(settings)
    return Street(url, tmp_path)


@pytest.fixture
def customers() -> Iterator[Customers]:
    """Makes clients, and closes their connections."""
    with ExitStack() as stack:

        def make(chain: Chain, url: str) -> HttpCaller:
            customer = HttpCaller(chain, url)
            stack.callback(customer.close)
            return customer

        yield make


@dataclass
class Market:
    """An operator that sells calls, its first verifier and a client, with tokens in their pockets: what batches need is
    deposited by their operators themselves."""

    clock: Clock
    client: Chain
    operator: Chain
    verifier: Chain
    street: Street
    made: Programs
    customers: Customers

    @property
    def key(self) -> Key:
        assert isinstance(self.operator.account, Key)
        return self.operator.account

    @contextmanager
    def selling(
        self, made: Programs | None = None, listed: Mapping[bytes, int] | None = None, **how: Any
    ) -> Iterator[Operator]:
        """The operator at work, by an offer of these programs."""
        listed = self.made.listed if listed is None else listed
        offer = offered(self.operator, self.key, listed, epoch=EPOCH)
        with self.street.operating(self.operator, offer, made or self.made, self.key, listed, **how) as serving:
            yield serving

    def customer(self, serving: Operator) -> HttpCaller:
        """Whose channel is open in the first batch."""
        customer = self.customers(self.client, serving.url)
        begun = BatchState.BEGUN
        until(lambda: self.client.channels.batch_at(customer.batch(1)).state is begun, "no batch is begun", serving)
        customer.open(DEPOSIT)
        return customer

    def called(self, serving: Operator, twice: Collection[int] = ()) -> tuple[HttpCaller, bytes]:
        """A client that made all calls, `twice` those with two repeats; the batch that has them, once it is committed:
        on a busy machine not always the first one."""
        customer = self.customer(serving)
        for value in range(CALLS):
            customer.call(value, repeat=2 if value in twice else 1)
        names, batch_at = [customer.batch(number) for number in range(1, 9)], self.client.channels.batch_at
        until(lambda: any(batch_at(one).leaves == CALLS for one in names), "the calls are not committed together")
        return customer, next(one for one in names if batch_at(one).leaves == CALLS)

    def convicted(self, batch: bytes) -> tuple[Breach, str]:
        """Why a batch was convicted, and by whom, once it is."""
        state = BatchState.CONVICTED
        until(lambda: self.client.channels.batch_at(batch).state is state, "the operator is not convicted")
        judged = self.client.channels.judgment_at(batch)
        return judged.breach, judged.winner

    def wrong(self, *numbers: int) -> Programs:
        """The programs, of which `scaling` gives something wrong for these calls."""
        honest = self.made.served["scaling"]
        execution = cast(WarmExecution, Wrong(honest.execution, frozenset(numbers)))
        return replace(self.made, served={**self.made.served, "scaling": replace(honest, execution=execution)})


@pytest.fixture
def market(
    clock: Clock, client: Chain, operator: Chain, verifiers: list[Chain], street: Street, made: Programs,
    customers: Customers,
) -> Market:  # fmt: skip
    for chain in (operator, verifiers[0]):
        chain.token.mint(chain.address, to_wei("1"))
    return Market(clock, client, operator, verifiers[0], street, made, customers)


def test_a_batch_is_served_committed_checked_and_paid_to_the_last_wei(market: Market) -> None:
    client, operator, verifier = market.client, market.operator, market.verifier
    before = operator.token.balance_of(operator.address)
    with market.selling() as serving, market.street.operating(verifier):
        customer, batch = market.called(serving)
        until(lambda: client.channels.batch_at(batch).answered, "nobody answers")
        until(lambda: client.channels.batch_at(batch).revealed_at, "the roots are not revealed")
        until(lambda: client.channels.batch_at(batch).state is BatchState.FINAL, "it is not closed")
        stored = client.channels.batch_at(batch)
        (answered,) = of_kind(client, events.Answered, batch)
        until(lambda: client.channels.answer_at(batch, answered.index).stage is Stage.PAID, "the verifier is not paid")
    (settled,) = of_kind(client, events.Settled, batch)
    (closed,) = of_kind(client, events.Closed, batch)
    p, offer = client.deployment.parameters, customer.offer
    k = shares.checked(CALLS, offer.check_rate, 1)
    assert stored.leaves == CALLS and stored.amount == CALLS * PRICE // 2 and stored.agreed
    fee = shares.fee(p, offer.check_price, k, 1)
    assert (settled.account, closed.returned) == (verifier.address, 0)
    assert closed.paid == shares.collateral(p, offer.max_price, 1) + stored.amount - fee
    spent = before - operator.token.balance_of(operator.address)
    account = operator.channels.balance_of(operator.address)
    gained = account.balance + account.collateral - spent
    assert gained == stored.amount - fee + p.g_chunk
    assert client.channels.channel_at(customer.payer.channel).deposit == DEPOSIT - stored.amount


def test_an_operator_sends_the_last_voucher_that_its_client_does_not(market: Market) -> None:
    """And commits the calls of others without those."""
    client = market.client
    with market.selling() as serving:
        first, second = market.customer(serving), market.customer(serving)
        for customer in (first, second):
            for value in range(CALLS):
                customer.call(value)
        batch = first.batch(1)
        first.conclude()
        channel, other = first.payer.channel, second.payer.channel
        until(lambda: client.channels.channel_at(channel).state is ChannelState.CONCLUDED, "it is not paid", serving)
        until(lambda: client.channels.batch_at(batch).state is BatchState.COMMITTED, "it is not committed", serving)
    assert client.channels.channel_at(channel).paid == CALLS * PRICE // 2
    assert client.channels.balance_of(client.address).balance == DEPOSIT - CALLS * PRICE // 2
    (lined,) = of_kind(client, events.Lined, batch)
    assert (lined.line.channel, lined.line.count) == (other, CALLS)


def test_one_wrong_result_among_many_is_convicted_by_the_drawn_verifier_alone(market: Market) -> None:
    client, me = market.client, market.verifier.address
    with market.selling(market.wrong(3)) as serving, market.street.operating(market.verifier) as verifier:
        _, batch = market.called(serving)
        until(lambda: of_kind(client, events.Demanded, batch), "the wrong call is not demanded")
        until(lambda: serving.games == verifier.games == 1, "the wrong call is not challenged, or nobody counts it")
        assert market.convicted(batch) == (Breach.VERDICT, me)
        until(lambda: client.channels.judgment_at(batch).slashed, "nobody slashes")
        until(lambda: client.channels.payback_at(batch).left == 0, "the clients are not paid back")
    (challenged,) = of_kind(client, events.Challenged, batch)
    (demanded,) = of_kind(client, events.Demanded, batch)
    assert demanded.number == 3 and challenged.challenger == me
    assert client.channels.balance_of(client.address).balance == CALLS * PRICE // 2
    (slashed,) = of_kind(client, events.Slashed, batch)
    assert client.stake.note_of(slashed.slash_id).beneficiaries == (me,)
    assert (serving.folder / "draining").exists()


def test_an_operator_whose_shares_nobody_sees_shows_its_calls_or_is_convicted(market: Market) -> None:
    with market.street.operating(market.verifier):
        with market.selling(silent=True) as serving:
            _, batch = market.called(serving)
        until(lambda: of_kind(market.client, events.Demanded, batch), "nobody demands what is withheld")
        assert market.convicted(batch) == (Breach.DEMAND, market.verifier.address)
        until(lambda: market.client.channels.judgment_at(batch).slashed, "nobody slashes")


def test_a_wrong_call_whose_inputs_nobody_serves_is_convicted_by_their_leaves(market: Market) -> None:
    client, lying = market.client, market.wrong(*range(CALLS))
    with market.selling(lying, silent=True) as serving, market.street.operating(market.verifier):
        _, batch = market.called(serving)
        until(lambda: len(of_kind(client, events.Demanded, batch)) == 2, "the inputs are not demanded")
        until(lambda: of_kind(client, events.LeafShown, batch), "the inputs are not shown")
        with market.clock.stopped():  # whatever else the machine does, it has the time that its windows give it
            until(lambda: of_kind(client, events.Challenged, batch), "the wrong call is not challenged")
        assert market.convicted(batch) == (Breach.VERDICT, market.verifier.address)
    first, second = of_kind(client, events.Demanded, batch)
    assert first.number == second.number and (len(first.leaves), len(second.leaves)) == (0, 1)
    (leaf,) = of_kind(client, events.LeafShown, batch)
    assert leaf.number == first.number and len(leaf.data) == 1024


def test_who_shows_a_wrong_call_and_none_of_its_inputs_is_convicted(market: Market) -> None:
    client, lying = market.client, market.wrong(*range(CALLS))
    with market.selling(lying, silent=True, steps_of=Mean) as serving, market.street.operating(market.verifier):
        _, batch = market.called(serving)
        assert market.convicted(batch) == (Breach.DEMAND, market.verifier.address)
    assert len(of_kind(client, events.Shown, batch)) == 1 and not of_kind(client, events.LeafShown, batch)


def test_a_call_that_the_offer_does_not_allow_convicts_its_operator(market: Market) -> None:
    client, once = market.client, dict.fromkeys(market.made.listed, 1)
    with market.selling(listed=once, service_of=Lax) as serving, market.street.operating(market.verifier):
        _, batch = market.called(serving, twice={4})
        assert market.convicted(batch) == (Breach.OUTSIDE, market.verifier.address)
    (demanded,) = of_kind(client, events.Demanded, batch)
    assert demanded.number == 4 and not of_kind(client, events.Challenged, batch)


def test_a_wrong_call_is_convicted_though_another_one_of_its_share_is_withheld(market: Market) -> None:
    with market.selling(market.wrong(3), service_of=Hiding) as serving, market.street.operating(market.verifier):
        _, batch = market.called(serving)
        assert market.convicted(batch) == (Breach.VERDICT, market.verifier.address)
    demanded = [(event.number, len(event.leaves)) for event in of_kind(market.client, events.Demanded, batch)]
    assert demanded[0] == (2, 0) and {(3, 0)} <= {*demanded[1:]} <= {(2, 1), (3, 0)}
