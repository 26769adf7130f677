"""Batches of paid calls, told by events."""

from dataclasses import replace
from functools import reduce
from typing import Any

from eigentensor import economics, merkle
from eigentensor.chain import anvil_account
from eigentensor.channel import (
    BatchState,
    Breach,
    CallProof,
    Deal,
    Key,
    Line,
    Offer,
    batch_of,
    channel_of,
    events,
    pool_of,
)
from eigentensor.channel.life import BatchLife
from eigentensor.channel.pools import Pools
from eigentensor.dispute import Phase, Position, Reason
from eigentensor.task import NONE, Domain, Ended, Event, Moved, Opened, Order, Place, Seeded
from support.stories.aggregator import CHALLENGER, CLIENT, EXECUTOR, PARAMETERS, VERIFIER, at

DOMAIN = Domain(31337, anvil_account(9).address)
SIGNER, PAYER = Key(b"\x11" * 32), Key(b"\x22" * 32)
OFFER = Offer(
    operator=EXECUTOR, signer=SIGNER.address, nonce=1, max_price=9, check_price=5, most=900, risk_each=0, risk_all=0,
    check_rate=10**18 // 2, verifiers=2, exec=20, epoch=50, tail=8, programs=merkle.programs_root({b"p" * 32: 1}),
)  # fmt: skip
POOL = pool_of(DOMAIN, OFFER)
DEAL = Deal(POOL, CLIENT, PAYER.address, 1, 500, 0, 900)
CHANNEL = channel_of(DOMAIN, DEAL)
BATCH = batch_of(POOL, 1)
TASK, ROOT, MIX = b"\7" * 32, b"\2" * 32, b"\x05" * 32
ORDER = Order(
    client=PAYER.address, nonce=1, semantics=1, program=b"p" * 32, inputs=NONE, weights=NONE, states=NONE,
    variables=NONE, repeat=1, min_price=0, max_price=0, ramp_start=0, ramp_length=0, check_fee=0, check_rate=0,
    verifiers=0, value_at_risk=0, exec=0, accept_by=0, operators=CHANNEL,
)  # fmt: skip
#: A call that was shown.
CALL = CallProof(3, TASK, ROOT, ())
#: Blocks of the begin and the commit, S, and the last blocks of the seed's record, of openings and of disputes.
BEGUN, COMMITTED, SEED = 10, 30, 32


def line(first: int = 0, count: int = 8, amount: int = 72, channel: bytes = CHANNEL, offset: int = 0) -> Line:
    return Line(channel, ROOT, first, count, offset, amount)


def begun(block: int = BEGUN, number: int = 1) -> events.Begun:
    return events.Begun(at(block), POOL, number, batch_of(POOL, number), block + OFFER.epoch, block + 900)


def committed(block: int = COMMITTED, leaves: int = 8) -> list[Event]:
    lined = events.Lined(at(block), BATCH, 0, line(count=leaves, amount=9 * leaves))
    return [lined] * (leaves > 0) + [events.Committed(at(block), BATCH, ROOT, leaves > 0, leaves, 9 * leaves)]


def seeded(block: int = SEED + 1) -> Seeded:
    return Seeded(at(block), SEED, MIX)


def answered(index: int = 0, block: int = 40, operator: str = VERIFIER) -> events.Answered:
    return events.Answered(at(block), BATCH, index, operator, b"\4" * 32)


def opened_answer(index: int = 0, *, agrees: bool, block: int = 95) -> events.Revealed:
    return events.Revealed(at(block), BATCH, index + 1, ROOT, agrees)


def position(phase: Phase = Phase.PUBLISH, since: int = 60, **more: Any) -> Position:
    return Position(TASK, EXECUTOR, CHALLENGER, phase, since, 80, 80, **more)


def challenged(block: int = 60, game: int = 1, slot: int = 0) -> list[Event]:
    place = at(block, b"g" * 32)
    opened = Opened(place, TASK, game, CHALLENGER, position(since=block))
    return [opened, events.Challenged(place, BATCH, game, CHALLENGER, 24, slot, ORDER, ROOT)]


def moved(block: int, phase: Phase, game: int = 1) -> Moved:
    return Moved(at(block), TASK, game, position(phase, block), b"")


def ended(block: int = 70, game: int = 1, *, executor_lost: bool) -> list[Event]:
    return [
        Ended(at(block), TASK, game, executor_lost, Reason.VERDICT),
        events.GameEnded(at(block), BATCH, game, CHALLENGER, executor_lost),
    ]


def convicted(block: int = 70, breach: Breach = Breach.VERDICT) -> events.Convicted:
    return events.Convicted(at(block), BATCH, breach, CHALLENGER)


def closed(block: int = 200, state: BatchState = BatchState.FINAL) -> events.Closed:
    return events.Closed(at(block), BATCH, state, 72, 4)


#: A pool with a channel, and its first batch with the seed that decides about it.
BEFORE: list[Event] = [events.Offered(at(5), POOL, EXECUTOR, OFFER), begun()]
OPEN: list[Event] = [*BEFORE, events.Opened(at(11), CHANNEL, POOL, CLIENT, DEAL, 600)]
DRAWN: list[Event] = [*OPEN, *committed(), seeded()]


def in_order(happened: list[Event]) -> list[Event]:
    """The same, each with a place of its own in its block, and blocks of one hash each."""
    placed, index, block = [], 0, -1
    for event in happened:
        index, block = (index + 1 if event.place.block == block else 0), event.place.block
        place = Place(block, index, block.to_bytes(32, "big"), event.place.transaction)
        placed.append(replace(event, place=place))
    return placed


def pools_of(*happened: Event) -> Pools:
    return reduce(Pools.step, in_order(list(happened)), Pools(PARAMETERS))


def batch_of_story(*happened: Event) -> BatchLife:
    return pools_of(*happened).batches[BATCH]


assert economics.seed_block(COMMITTED, PARAMETERS.lag, PARAMETERS.grid) == SEED
