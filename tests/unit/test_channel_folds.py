"""Pools and batches after a reorganisation: what the events that are left would have made of them, for no more work
than was taken back."""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eigentensor.channel import BatchState, Breach, batch_of, channel_of, events
from eigentensor.channel.pools import Pools
from eigentensor.dispute import Phase
from eigentensor.task import Event, Place, Seeded
from support.stories import batch_events as story
from support.stories.aggregator import CHALLENGER, CLIENT, PARAMETERS

AT = Place(0, 0, b"", b"")
DEALS = [replace(story.DEAL, nonce=nonce) for nonce in range(3)]
CHANNELS = [channel_of(story.DOMAIN, deal) for deal in DEALS]


def something(which: int, kind: int) -> list[Event]:
    """What may happen in one transaction, to one of three channels or two batches."""
    channel, number = CHANNELS[which], which % 2 + 1
    batch = batch_of(story.POOL, number)
    happened: list[list[Event]] = [
        [events.Begun(AT, story.POOL, number, batch, 60, 900)],
        [events.Opened(AT, channel, story.POOL, CLIENT, DEALS[which], 500)],
        [events.Funded(AT, channel, CLIENT, 7)],
        [events.Left(AT, channel, 2)],
        [events.Concluded(AT, channel, 9, 90, 3)],
        [events.Lined(AT, batch, 0, story.line(channel=channel)), events.Committed(AT, batch, story.ROOT, 1, 8, 72)],
        [Seeded(AT, 32, story.MIX)],
        [events.Answered(AT, batch, which, CHALLENGER, bytes(32))],
        [events.Demanded(AT, batch, 3, CLIENT, (), 99)],
        [events.Shown(AT, batch, 3, story.ORDER, b"", story.CALL), events.LeafShown(AT, batch, 3, 0, b"x")],
        [replace(one, batch=batch) if isinstance(one, events.BatchEvent) else one for one in story.challenged()],
        [story.moved(0, Phase.CALL)],
        [events.Convicted(AT, batch, Breach.OMISSION, CLIENT)],
        [events.Closed(AT, batch, BatchState.FINAL, 72, 4)],
    ]  # fmt: skip
    return happened[kind]


STEPS = st.tuples(st.integers(0, 2), st.integers(0, 13), st.integers(0, 2))


def chain(steps: list[tuple[int, int, int]]) -> list[Event]:
    """Transactions one after the other, each so many blocks after the last."""
    placed, block, begun = list[Event](), 5, set[int]()
    for which, kind, pause in [(0, 0, 0), *((n, 1, 1) for n in range(3)), *steps]:
        if kind == 0 and which % 2 in begun:  # a batch begins once
            continue
        begun |= {which % 2} if kind == 0 else set()
        block += pause
        transaction = len(placed).to_bytes(32, "big")
        for event in something(which, kind):
            place = Place(block, len(placed), block.to_bytes(32, "big"), transaction)
            placed.append(replace(event, place=place))
    return [events.Offered(Place(1, 0, bytes(32), bytes(32)), story.POOL, story.OFFER.operator, story.OFFER), *placed]


def fold(happened: list[Event], known: Pools | None = None) -> Pools:
    """What is known, without what only the transaction at hand needs."""
    lined = {channel for channel in CHANNELS if known and channel in known.of_channel}
    pools = known or Pools(PARAMETERS)
    for event in happened:  # of channels that are not open no batch has a line
        if isinstance(event, events.Opened):
            lined.add(event.channel)
        if not isinstance(event, events.Lined) or event.line.channel in lined:
            pools = pools.step(event)
    return replace(pools, opened=())


@example([(0, 11, 0), (0, 10, 0)], [5])  # a move before its game
@settings(max_examples=40, deadline=None)
@given(st.lists(STEPS, max_size=25), st.lists(st.integers(0, 60), min_size=1, max_size=3))
def test_what_is_left_is_what_the_events_that_are_left_make(
    steps: list[tuple[int, int, int]], blocks: list[int]
) -> None:
    happened = chain(steps)
    pools = fold(happened)
    for block in sorted(blocks, reverse=True):
        kept = [event for event in happened if event.place.block <= block]
        pools, expected = replace(pools.rolled_back(block), opened=()), fold(kept)
        assert pools == expected
        assert {name: life.events for name, life in pools.pools.items()} == {
            name: life.events for name, life in expected.pools.items()
        }
    gone = [event for event in happened if event.place.block > block]
    again = fold(gone, pools)
    whole = fold(happened)
    assert again == whole
    assert all(life.events == whole.pools[name].events for name, life in again.pools.items())


def calls_of(work: Callable[[], object]) -> int:
    """How many functions of Python are called."""
    count = 0

    def see(_: Any, event: str, __: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def lived(length: int) -> Pools:
    """A pool and a batch to which something happens in each of so many blocks."""
    steps = [(0, kind, 1) for _ in range(length // 2) for kind in (2, 8)]
    return reduce(Pools.step, chain(steps), Pools(PARAMETERS))


@pytest.mark.parametrize("depth", [0, 1, 10])
def test_a_reorganisation_costs_what_it_takes_back_however_long_the_history_is(depth: int) -> None:
    costs = []
    for length in (200, 800):
        pools = lived(length)
        block = pools.pools[story.POOL].events[-1].place.block + 1 - depth  # the last event is of the batch
        costs.append(calls_of(lambda pools=pools, block=block: pools.rolled_back(block)))  # type: ignore[misc]
    assert costs[0] == costs[1] < 100 + 10 * depth


def test_news_of_a_pool_are_those_since_it_was_known() -> None:
    before, after = lived(20), lived(40)
    pool = after.pools[story.POOL]
    assert [*pool.events_since(None)] == [*pool.events]
    known = reduce(Pools.step, pool.events[:9], Pools(PARAMETERS)).pools[story.POOL]
    grown = reduce(lambda life, event: life.step(event), pool.events[9:], known)
    assert tuple(grown.events_since(known)) == pool.events[9:] and grown.events_since(grown) == []
    assert grown.events == pool.events and before.pools[story.POOL].events == pool.events[: len(pool.events) - 10]
