"""Paid calls on a real chain: a batch from its begin to its last wei, and what a contradiction costs."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

import pytest

from eigentensor import economics, merkle
from eigentensor.chain import Chain, Opening, Stage, Windows, to_wei
from eigentensor.channel import (
    BatchState,
    Breach,
    CallPlace,
    ChannelState,
    Line,
    Voucher,
    events,
    message_of,
    open_call,
    open_line,
    share_root,
)
from eigentensor.economics import shares
from eigentensor.errors import Reverted
from eigentensor.task import Event, commitment
from eigentensor_local.anvil import Anvil
from support.stories.call_lives import assert_life
from support.stories.channel import DEPOSIT, PAYER, PRICE, SALT, SIGNER, Served, begin_and_open

Chains = Callable[[int], Chain]
E = TypeVar("E", bound=Event)
ANYBODY = 5


@pytest.fixture
def served(client: Chain, operator: Chain) -> Served:
    return begin_and_open(client, operator)


def only(kind: type[E], among: Iterable[Event]) -> E:
    (one,) = [event for event in among if isinstance(event, kind)]
    return one


def test_a_batch_lives_from_its_begin_to_its_last_wei(
    anvil: Anvil, client: Chain, operator: Chain, verifiers: list[Chain], chain_of: Chains, served: Served
) -> None:
    p, offer, batch, anybody = client.deployment.parameters, served.offer, served.batch, chain_of(ANYBODY)
    first = client.node.block_number() - 20
    tokens = client.token.balance_of(client.address)
    held = shares.collateral(p, PRICE, 2)
    account = operator.channels.balance_of(operator.address)
    assert (account.balance, account.collateral) == (to_wei("1") - held + p.g_chunk, held)
    lock = client.stake.lock_of(batch, operator.address)
    assert lock.end == client.channels.batch_at(batch).begun_at + shares.lifetime(p, offer.exec, offer.epoch)
    assert shares.stake(p, offer) <= lock.shares <= shares.stake(p, offer) + 2

    assert_life(client, offer, 1, first)
    for number in range(5):
        served.call()
        if number == 2:
            served.acknowledge()
    mined = operator.channels.commit(offer, 1, [served.sheet()])
    line = only(events.Lined, mined.events).line
    assert line == served.sheet().line(served.domain, 0, 0, 0)
    assert line == Line(served.channel, merkle.tree_root(served.leaves), 0, 5, 0, 5 * PRICE)
    committed = only(events.Committed, mined.events)
    assert committed == events.Committed(committed.place, batch, merkle.tree_root([line.hash()]), 1, 5, 5 * PRICE)
    assert client.channels.roots_at(batch).lines == committed.root
    assert client.channels.channel_at(served.channel).deposit == DEPOSIT - 5 * PRICE

    assert_life(client, offer, 1, first)
    seed = client.channels.seed_block_of(batch)
    assert seed == economics.seed_block(mined.block, p.lag, p.grid)
    anvil.mine_past(seed)
    anybody.market.seed(seed)
    mix = client.market.seed_of(seed)
    assert mix is not None
    roots = []
    for share in range(2):
        numbers = shares.numbers(mix, batch, 5, offer.check_rate, 2, share)
        indices = [line.index_of(number) for number in numbers]
        roots.append(share_root([served.receipts[index].outputs_root for index in indices if index is not None]))
    seats = client.channels.batch_at(batch).seats
    drawn = {client.stake.seat_at(economics.seat_of(mix, batch, index, seats)).operator: index for index in range(16)}
    verifier, index = next((one, drawn[one.address]) for one in verifiers if one.address in drawn)
    bond = economics.bond(p, PRICE)
    verifier.token.mint(verifier.address, bond)
    verifier.channels.deposit(verifier.address, bond)
    hidden = commitment(served.domain, batch, verifier.address, index + 1, roots[0], SALT)
    verifier.channels.answer(verifier.address, offer, 1, index, hidden)
    assert client.channels.balance_of(verifier.address).collateral == bond
    assert client.channels.answer_at(batch, index).stage is Stage.HIDDEN

    assert_life(client, offer, 1, first)
    windows = client.channels.windows_of(offer, 1)
    assert windows == replace(windows, check_by=seed + economics.check_window(p, offer.exec))
    anvil.mine_past(windows.check_by)
    operator.channels.reveal_roots(offer, 1, roots)
    opened = only(
        events.Revealed, anybody.channels.reveal(offer, 1, roots, Opening(batch, roots[0], SALT, index + 1)).events
    )
    assert opened.agrees and client.channels.batch_at(batch).agreed == index % 16 + 1
    with pytest.raises(Reverted, match="TooEarly"):
        anybody.channels.close(offer, 1)

    life = assert_life(client, offer, 1, first)
    assert life.close_from == windows.dispute_by + 1 and life.mix == mix
    anvil.mine_past(windows.dispute_by)
    k = shares.checked(5, offer.check_rate, 2)
    fee = shares.fee(p, offer.check_price, k, 2)
    mined = anybody.channels.close(offer, 1, settles=[index])
    closed = only(events.Closed, mined.events)
    returned = fee - p.g_chk  # of the share that nobody checked
    assert closed == events.Closed(closed.place, batch, BatchState.FINAL, held + 5 * PRICE - 2 * fee, returned)
    account = operator.channels.balance_of(operator.address)
    assert (account.balance, account.collateral) == (to_wei("1") + p.g_chunk + 5 * PRICE - 2 * fee, 0)
    settled = only(events.Settled, mined.events)
    assert settled == events.Settled(settled.place, batch, index + 1, verifier.address, bond + fee)
    refunded = only(events.Refunded, anybody.channels.refund(offer, 1, [open_line([line], 0)]).events)
    assert refunded == events.Refunded(refunded.place, batch, served.channel, client.address, returned)
    life = assert_life(client, offer, 1, first)
    assert not list(life.unrefunded()) and life.answers[index].settled == bond + fee == life.bond + life.fee
    assert client.channels.payback_at(batch).left == 0

    client.channels.leave(offer, served.deal)
    ended = only(events.Ended, anybody.channels.end(offer, served.deal).events)
    assert ended.refund == DEPOSIT - 5 * PRICE
    assert client.channels.channel_at(served.channel).state is ChannelState.ENDED
    assert_life(client, offer, 1, first)
    balance = client.channels.balance_of(client.address).balance
    assert balance == DEPOSIT - 5 * PRICE + returned
    client.channels.withdraw(client.address, balance)
    assert client.token.balance_of(client.address) == tokens + balance
    happened = list(client.history.calls(first))
    kinds = {type(event) for event in happened}
    assert kinds >= {events.Offered, events.Begun, events.Opened, events.Answered, events.RootsRevealed, events.Left}
    for event in happened:
        assert type(event).from_arguments(event.place, json.loads(json.dumps(event.arguments()))) == event


def test_two_results_for_one_call_convict_and_all_lines_are_paid_back(
    anvil: Anvil, client: Chain, operator: Chain, chain_of: Chains, served: Served
) -> None:
    p, offer, batch, anybody = client.deployment.parameters, served.offer, served.batch, chain_of(ANYBODY)
    first = client.node.block_number() - 20
    for _ in range(3):
        receipt, signature = served.call()
    served.acknowledge()
    operator.channels.commit(offer, 1, [served.sheet()])
    with pytest.raises(Reverted, match="NoContradiction"):
        anybody.channels.contradict(offer, served.deal, receipt, signature, receipt, signature)
    other = replace(receipt, outputs_root=b"\xee" * 32)
    mined = anybody.channels.contradict(offer, served.deal, receipt, signature, other, served.signed(other))
    convicted = only(events.Convicted, mined.events)
    assert convicted == events.Convicted(convicted.place, batch, Breach.CONTRADICTION, client.address)
    assert client.channels.judgment_at(batch).breach is Breach.CONTRADICTION
    assert client.channels.batch_at(batch).state is BatchState.CONVICTED
    reward = economics.reward(p, PRICE)
    assert client.channels.balance_of(client.address).balance == reward
    account = operator.channels.balance_of(operator.address)
    assert (account.balance, account.collateral) == (to_wei("1") - shares.collateral(p, PRICE, 2) + p.g_chunk, 0)
    proof = open_line([served.sheet().line(served.domain, 0, 0, 0)], 0)
    anybody.channels.refund(offer, 1, [proof])
    assert client.channels.balance_of(client.address).balance == reward + 3 * PRICE
    slashed = only(events.Slashed, anybody.channels.slash(offer, 1).events)
    assert client.stake.note_of(slashed.slash_id).beneficiaries == (client.address,)
    assert client.channels.judgment_at(batch).slashed
    assert_life(client, offer, 1, first)


def test_a_call_is_demanded_shown_and_a_channel_concluded(
    client: Chain, operator: Chain, chain_of: Chains, served: Served
) -> None:
    offer, batch, anybody = served.offer, served.batch, chain_of(ANYBODY)
    first = client.node.block_number() - 20
    client.channels.fund(served.channel, PRICE)
    for _ in range(2):
        served.call()
    served.acknowledge()
    operator.channels.commit(offer, 1, [served.sheet()])
    line = served.sheet().line(served.domain, 0, 0, 0)
    client.channels.deposit(client.address, client.deployment.parameters.g_chunk)
    client.channels.demand(offer, 1, 1)
    assert client.channels.batch_at(batch).demands == 1
    assert len(assert_life(client, offer, 1, first).open_demands) == 1
    place = CallPlace(open_line([line], 0), open_call(line, served.leaves, served.receipts[1]), served.orders[1])
    with pytest.raises(Reverted, match="NotOutside"):
        anybody.channels.outside(offer, 1, place, [], 1)
    shown = only(events.Shown, anybody.channels.show(offer, 1, place, {}).events)
    assert shown == events.Shown(shown.place, batch, 1, served.orders[1], b"", place.call)
    assert type(shown).from_arguments(shown.place, json.loads(json.dumps(shown.arguments()))) == shown
    assert assert_life(client, offer, 1, first).shown_until
    with pytest.raises(Reverted, match="WrongTask"):
        anybody.channels.show(offer, 1, replace(place, order=served.orders[0]), {})
    with pytest.raises(Reverted, match="NoOmission"):
        anybody.channels.accuse(offer, served.deal, served.receipts[1], served.signed(served.receipts[1]))

    last = Voucher(served.channel, 3, 3 * PRICE, 2, served.acked.root())
    message = message_of(served.domain, last)
    concluded = only(
        events.Concluded,
        anybody.channels.conclude(offer, served.deal, last, PAYER.sign(message), SIGNER.sign(message)).events,
    )
    assert concluded == events.Concluded(concluded.place, served.channel, 3, 3 * PRICE, DEPOSIT - 2 * PRICE)
    assert client.channels.channel_at(served.channel).state is ChannelState.CONCLUDED
    assert_life(client, offer, 1, first)
    assert client.channels.windows_of(offer, 1) != Windows(0, 0, 0, 0, 0)
