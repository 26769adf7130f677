"""Batches of paid calls by daemons on a real chain: served, committed, checked, disputed, paid."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from eigentensor.chain import Chain, Stage, to_wei
from eigentensor.channel import BatchState, Breach, ChannelState, Key, events
from eigentensor.economics import shares
from eigentensor.reexecution.warm import WarmExecution
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.daemon import Daemon
from eigentensor_local.anvil import Anvil
from support.stories.call_operators import PRICE, Hiding, HttpCaller, Lax, Mean, Street, Wrong, of_kind, offered, until
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


def funded(*chains: Chain) -> None:
    """Tokens in their pockets: what batches need is deposited by their operators themselves."""
    for chain in chains:
        chain.token.mint(chain.address, to_wei("1"))


def key_of(chain: Chain) -> Key:
    return Key(bytes(chain.account.key))  # type: ignore[attr-defined]


def test_a_batch_is_served_committed_checked_and_paid_to_the_last_wei(
    clock: Clock,
    client: Chain,
    operator: Chain,
    verifiers: list[Chain],
    street: Street,
    made: Programs,
    customers: Customers,
) -> None:
    funded(operator, *verifiers)
    key = key_of(operator)
    offer = offered(operator, key, made.listed)
    before = operator.token.balance_of(operator.address)
    with street.operating(operator, offer, made, key) as serving, street.operating(verifiers[0]):
        customer = customers(client, serving.url)
        batch = customer.batch(1)
        until(lambda: client.channels.batch_at(batch).state is BatchState.BEGUN, "no batch is begun", serving)
        customer.open(DEPOSIT)
        for value in range(CALLS):
            customer.call(value)
        until(lambda: client.channels.batch_at(batch).state is BatchState.COMMITTED, "it is not committed")
        until(lambda: client.channels.batch_at(batch).answered, "nobody answers")
        until(lambda: client.channels.batch_at(batch).revealed_at, "the roots are not revealed")
        until(lambda: client.channels.batch_at(batch).state is BatchState.FINAL, "it is not closed")
        stored = client.channels.batch_at(batch)
        (answered,) = of_kind(client, events.Answered, batch)
        until(lambda: client.channels.answer_at(batch, answered.index).stage is Stage.PAID, "the verifier is not paid")
    (settled,) = of_kind(client, events.Settled, batch)
    (closed,) = of_kind(client, events.Closed, batch)
    p = client.deployment.parameters
    k = shares.checked(CALLS, offer.check_rate, 1)
    assert stored.leaves == CALLS and stored.amount == CALLS * PRICE // 2 and stored.agreed
    fee = shares.fee(p, offer.check_price, k, 1)
    assert (settled.account, closed.returned) == (verifiers[0].address, 0)
    assert closed.paid == shares.collateral(p, offer.max_price, 1) + stored.amount - fee
    spent = before - operator.token.balance_of(operator.address)
    account = operator.channels.balance_of(operator.address)
    gained = account.balance + account.collateral - spent
    assert gained == stored.amount - fee + p.g_chunk
    assert client.channels.channel_at(customer.payer.channel).deposit == DEPOSIT - stored.amount


def test_an_operator_sends_the_last_voucher_that_its_client_does_not(
    clock: Clock, client: Chain, operator: Chain, street: Street, made: Programs, customers: Customers
) -> None:
    """And commits the calls of others without those."""
    funded(operator)
    key = key_of(operator)
    offer = offered(operator, key, made.listed)
    with street.operating(operator, offer, made, key) as serving:
        first, second = customers(client, serving.url), customers(client, serving.url)
        batch = first.batch(1)
        until(lambda: client.channels.batch_at(batch).state is BatchState.BEGUN, "no batch is begun", serving)
        for customer in (first, second):
            customer.open(DEPOSIT)
            for value in range(CALLS):
                customer.call(value)
        first.conclude()
        channel, other = first.payer.channel, second.payer.channel
        until(lambda: client.channels.channel_at(channel).state is ChannelState.CONCLUDED, "it is not paid", serving)
        until(lambda: client.channels.batch_at(batch).state is BatchState.COMMITTED, "it is not committed", serving)
    assert client.channels.channel_at(channel).paid == CALLS * PRICE // 2
    assert client.channels.balance_of(client.address).balance == DEPOSIT - CALLS * PRICE // 2
    (lined,) = of_kind(client, events.Lined, batch)
    assert (lined.line.channel, lined.line.count) == (other, CALLS)


def test_one_wrong_result_among_many_is_convicted_by_the_drawn_verifier_alone(
    clock: Clock,
    client: Chain,
    operator: Chain,
    verifiers: list[Chain],
    street: Street,
    made: Programs,
    customers: Customers,
) -> None:
    funded(operator, *verifiers)
    key = key_of(operator)
    offer = offered(operator, key, made.listed)
    honest = made.served["scaling"]
    wrong = cast(WarmExecution, Wrong(honest.execution, frozenset({3})))
    lying = replace(made, served={**made.served, "scaling": replace(honest, execution=wrong)})
    selling, checking = street.operating(operator, offer, lying, key), street.operating(verifiers[0])
    with selling as serving, checking as verifier:
        customer = customers(client, serving.url)
        batch = customer.batch(1)
        until(lambda: client.channels.batch_at(batch).state is BatchState.BEGUN, "no batch is begun", serving)
        customer.open(DEPOSIT)
        for value in range(CALLS):
            customer.call(value)
        until(lambda: of_kind(client, events.Demanded, batch), "the wrong call is not demanded")
        until(lambda: serving.games == verifier.games == 1, "the wrong call is not challenged, or nobody counts it")
        until(lambda: client.channels.batch_at(batch).state is BatchState.CONVICTED, "the liar is not convicted")
        until(lambda: client.channels.judgment_at(batch).slashed, "nobody slashes")
        until(lambda: client.channels.payback_at(batch).left == 0, "the clients are not paid back")
    judged = client.channels.judgment_at(batch)
    assert (judged.breach, judged.winner) == (Breach.VERDICT, verifiers[0].address)
    (challenged,) = of_kind(client, events.Challenged, batch)
    (demanded,) = of_kind(client, events.Demanded, batch)
    assert demanded.number == 3 and challenged.challenger == verifiers[0].address
    assert client.channels.balance_of(client.address).balance == CALLS * PRICE // 2
    (slashed,) = of_kind(client, events.Slashed, batch)
    assert client.stake.note_of(slashed.slash_id).beneficiaries == (verifiers[0].address,)
    assert (serving.folder / "draining").exists()


def test_an_operator_whose_shares_nobody_sees_shows_its_calls_or_is_convicted(
    clock: Clock,
    client: Chain,
    operator: Chain,
    verifiers: list[Chain],
    street: Street,
    made: Programs,
    customers: Customers,
) -> None:
    funded(operator, *verifiers)
    key = key_of(operator)
    offer = offered(operator, key, made.listed)
    with street.operating(verifiers[0]):
        with street.operating(operator, offer, made, key, silent=True) as serving:
            customer = customers(client, serving.url)
            batch = customer.batch(1)
            until(lambda: client.channels.batch_at(batch).state is BatchState.BEGUN, "no batch is begun", serving)
            customer.open(DEPOSIT)
            for value in range(CALLS):
                customer.call(value)
            until(lambda: client.channels.batch_at(batch).state is BatchState.COMMITTED, "it is not committed")
        until(lambda: of_kind(client, events.Demanded, batch), "nobody demands what is withheld")
        until(lambda: client.channels.batch_at(batch).state is BatchState.CONVICTED, "the silent one is not convicted")
        until(lambda: client.channels.judgment_at(batch).slashed, "nobody slashes")
    judged = client.channels.judgment_at(batch)
    assert (judged.breach, judged.winner) == (Breach.DEMAND, verifiers[0].address)


def lying(made: Programs) -> Programs:
    """The same, of which every call gives something wrong."""
    honest = made.served["scaling"]
    wrong = cast(WarmExecution, Wrong(honest.execution, frozenset(range(CALLS))))
    return replace(made, served={**made.served, "scaling": replace(honest, execution=wrong)})


def committed(client: Chain, customer: HttpCaller) -> bytes:
    """The batch that has all calls, as soon as it is committed: on a busy machine not always the first one."""
    batches = [customer.batch(number) for number in range(1, 9)]

    def full() -> bytes | None:
        known = {batch: client.channels.batch_at(batch) for batch in batches}
        return next((batch for batch, stored in known.items() if stored.leaves == CALLS), None)

    until(full, "the calls are not committed together")
    batch = full()
    assert batch is not None
    return batch


def test_a_wrong_call_whose_inputs_nobody_serves_is_convicted_by_their_leaves(
    clock: Clock,
    client: Chain,
    operator: Chain,
    verifiers: list[Chain],
    street: Street,
    made: Programs,
    customers: Customers,
) -> None:
    funded(operator, *verifiers)
    key = key_of(operator)
    offer = offered(operator, key, made.listed, epoch=EPOCH)
    with street.operating(operator, offer, lying(made), key, silent=True) as serving, street.operating(verifiers[0]):
        customer = customers(client, serving.url)
        first = customer.batch(1)
        until(lambda: client.channels.batch_at(first).state is BatchState.BEGUN, "no batch is begun", serving)
        customer.open(DEPOSIT)
        for value in range(CALLS):
            customer.call(value)
        batch = committed(client, customer)
        until(lambda: len(of_kind(client, events.Demanded, batch)) == 2, "the inputs are not demanded")
        until(lambda: of_kind(client, events.LeafShown, batch), "the inputs are not shown")
        with clock.stopped():  # whatever else the machine does, it has the time that its windows give it
            until(lambda: of_kind(client, events.Challenged, batch), "the wrong call is not challenged")
        until(lambda: client.channels.batch_at(batch).state is BatchState.CONVICTED, "the liar is not convicted")
    judged = client.channels.judgment_at(batch)
    assert (judged.breach, judged.winner) == (Breach.VERDICT, verifiers[0].address)
    first, second = of_kind(client, events.Demanded, batch)
    assert first.number == second.number and (len(first.leaves), len(second.leaves)) == (0, 1)
    (leaf,) = of_kind(client, events.LeafShown, batch)
    assert leaf.number == first.number and len(leaf.data) == 1024


def test_who_shows_a_wrong_call_and_none_of_its_inputs_is_convicted(
    clock: Clock,
    client: Chain,
    operator: Chain,
    verifiers: list[Chain],
    street: Street,
    made: Programs,
    customers: Customers,
) -> None:
    funded(operator, *verifiers)
    key = key_of(operator)
    offer = offered(operator, key, made.listed, epoch=EPOCH)
    selling = street.operating(operator, offer, lying(made), key, silent=True, steps_of=Mean)
    with selling as serving, street.operating(verifiers[0]):
        customer = customers(client, serving.url)
        first = customer.batch(1)
        until(lambda: client.channels.batch_at(first).state is BatchState.BEGUN, "no batch is begun", serving)
        customer.open(DEPOSIT)
        for value in range(CALLS):
            customer.call(value)
        batch = committed(client, customer)
        until(lambda: client.channels.batch_at(batch).state is BatchState.CONVICTED, "the liar is not convicted")
    judged = client.channels.judgment_at(batch)
    assert (judged.breach, judged.winner) == (Breach.DEMAND, verifiers[0].address)
    assert len(of_kind(client, events.Shown, batch)) == 1 and not of_kind(client, events.LeafShown, batch)


def test_a_call_that_the_offer_does_not_allow_convicts_its_operator(
    clock: Clock,
    client: Chain,
    operator: Chain,
    verifiers: list[Chain],
    street: Street,
    made: Programs,
    customers: Customers,
) -> None:
    funded(operator, *verifiers)
    key = key_of(operator)
    once = dict.fromkeys(made.listed, 1)
    offer = offered(operator, key, once, epoch=EPOCH)
    selling = street.operating(operator, offer, made, key, once, service_of=Lax)
    with selling as serving, street.operating(verifiers[0]):
        customer = customers(client, serving.url)
        first = customer.batch(1)
        until(lambda: client.channels.batch_at(first).state is BatchState.BEGUN, "no batch is begun", serving)
        customer.open(DEPOSIT)
        for value in range(CALLS):
            customer.call(value, repeat=2 if value == 4 else 1)
        batch = committed(client, customer)
        until(lambda: client.channels.batch_at(batch).state is BatchState.CONVICTED, "the operator is not convicted")
    judged = client.channels.judgment_at(batch)
    assert (judged.breach, judged.winner) == (Breach.OUTSIDE, verifiers[0].address)
    (demanded,) = of_kind(client, events.Demanded, batch)
    assert demanded.number == 4 and not of_kind(client, events.Challenged, batch)


def test_a_wrong_call_is_convicted_though_another_one_of_its_share_is_withheld(
    clock: Clock,
    client: Chain,
    operator: Chain,
    verifiers: list[Chain],
    street: Street,
    made: Programs,
    customers: Customers,
) -> None:
    funded(operator, *verifiers)
    key = key_of(operator)
    offer = offered(operator, key, made.listed, epoch=EPOCH)
    honest = made.served["scaling"]
    wrong = cast(WarmExecution, Wrong(honest.execution, frozenset({3})))
    some = replace(made, served={**made.served, "scaling": replace(honest, execution=wrong)})
    with street.operating(operator, offer, some, key, service_of=Hiding) as serving, street.operating(verifiers[0]):
        customer = customers(client, serving.url)
        first = customer.batch(1)
        until(lambda: client.channels.batch_at(first).state is BatchState.BEGUN, "no batch is begun", serving)
        customer.open(DEPOSIT)
        for value in range(CALLS):
            customer.call(value)
        batch = committed(client, customer)
        until(lambda: client.channels.batch_at(batch).state is BatchState.CONVICTED, "the liar is not convicted")
    judged = client.channels.judgment_at(batch)
    assert (judged.breach, judged.winner) == (Breach.VERDICT, verifiers[0].address)
    demanded = [(event.number, len(event.leaves)) for event in of_kind(client, events.Demanded, batch)]
    assert demanded[0] == (2, 0) and {(3, 0)} <= {*demanded[1:]} <= {(2, 1), (3, 0)}
