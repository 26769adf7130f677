"""Whatever the chain does, rows of paid calls are what the present chain alone would have made of them."""

from dataclasses import replace
from functools import reduce
from itertools import groupby
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlmodel import select

from eigentensor.chain import Changes, Head
from eigentensor.channel import BatchState, Breach, Deal, batch_of, channel_of, events, pool_of
from eigentensor.channel.due import awake
from eigentensor.channel.pools import Pools
from eigentensor.dispute import Phase
from eigentensor.task import Event, Opened, Place, Seeded
from eigentensor_aggregator.queries import Queries
from eigentensor_aggregator.store import Store
from eigentensor_aggregator.tables import BatchRow, CallGameRow, ChannelRow, LineRow, PoolRow
from support.stories import batch_events as story
from support.stories.aggregator import CHALLENGER, CLIENT, DEPLOYMENT, EXECUTOR

OFFERS = [replace(story.OFFER, nonce=nonce) for nonce in (1, 2)]
POOLS = [pool_of(story.DOMAIN, offer) for offer in OFFERS]
BATCHES = [(pool, number, batch_of(pool, number)) for pool in POOLS for number in (1, 2)]
DEALS = [Deal(pool, CLIENT, story.PAYER.address, nonce, 500, 0, 900) for pool in POOLS for nonce in (1, 2)]
CHANNELS = [channel_of(story.DOMAIN, deal) for deal in DEALS]
TABLES = (PoolRow, ChannelRow, BatchRow, LineRow, CallGameRow)
_PLACE = Place(0, 0, b"", b"")


def task_of(batch: bytes, game: int) -> bytes:
    return bytes([game]) + batch[1:]


def on_batch(which: int, kind: int) -> list[Event]:
    """Something that happens to a batch, in one transaction."""
    pool, number, batch = BATCHES[which]
    at, game = _PLACE, which * 2 + kind % 2 + 1
    task, mine = task_of(batch, game), CHANNELS[which // 2 * 2 + kind % 2]
    about: list[list[Event]] = [
        [events.Begun(at, pool, number, batch, 0, 0)],
        [events.Lined(at, batch, 0, story.line(channel=mine)), events.Committed(at, batch, story.ROOT, 1, 8, 72)],
        [events.Answered(at, batch, 0, EXECUTOR, bytes(32))],
        [events.Revealed(at, batch, 1, story.ROOT, bool(kind % 2))],
        [Opened(at, task, game, CHALLENGER, replace(story.position(), task=task)),
         events.Challenged(at, batch, game, CHALLENGER, 5, 0, story.ORDER, story.ROOT)],
        [replace(story.moved(0, Phase.CALL, game), task=task, place=at)],
        [replace(one, **({"batch": batch} if isinstance(one, events.BatchEvent) else {"task": task}), place=at)
         for one in story.ended(0, game, executor_lost=bool(kind % 2))],
        [events.Convicted(at, batch, Breach.VERDICT, CHALLENGER)],
        [events.Closed(at, batch, BatchState.FINAL, 72, 4)],
        [events.Settled(at, batch, 1, EXECUTOR, 5)],
        [events.Slashed(at, batch, 3, 5, CLIENT)],
    ]  # fmt: skip
    return about[kind // 2]


def on_channel(which: int, kind: int) -> list[Event]:
    at, channel = _PLACE, CHANNELS[which]
    return [[
        events.Opened(at, channel, POOLS[which // 2], CLIENT, DEALS[which], 1_000),
        events.Funded(at, channel, CLIENT, 7),
        events.Left(at, channel, 2),
        events.Concluded(at, channel, 9, 90, 3),
        events.Ended(at, channel, 3),
    ][kind]]  # fmt: skip


STEPS = st.one_of(
    st.builds(lambda which: [events.Offered(_PLACE, POOLS[which], EXECUTOR, OFFERS[which])], st.sampled_from((0, 1))),
    st.builds(on_batch, st.sampled_from(range(4)), st.sampled_from(range(22))),
    st.builds(on_channel, st.sampled_from(range(4)), st.sampled_from(range(5))),
    st.just("seed"),
)
#: What chains begin with, so that much of what follows is about something.
FIRST: list[Any] = [
    *([events.Offered(_PLACE, pool, EXECUTOR, offer)] for pool, offer in zip(POOLS, OFFERS, strict=True)),
    *(on_channel(which, 0) for which in range(4)), on_batch(0, 0), on_batch(2, 0), on_batch(1, 0),
]  # fmt: skip
CHAIN = st.lists(st.lists(STEPS, max_size=5), max_size=6)


def begun_once(happened: list[Event]) -> list[Event]:
    """The same events; of a batch that begins again, which no chain has, only its first begin."""
    begun, kept = set[bytes](), list[Event]()
    for event in happened:
        if isinstance(event, events.Begun):
            if event.batch in begun:
                continue
            begun.add(event.batch)
        kept.append(event)
    return kept


def events_of(chain: list[Any], first: int, fork: int) -> list[Event]:
    """The events of a chain, a list of transactions for each block, from a block on."""
    happened: list[Event] = []
    for block, transactions in enumerate(chain, first):
        index = 0
        for number, transaction in enumerate(transactions):
            hashes = bytes([fork]) + block.to_bytes(31, "big"), bytes([fork, number]) + block.to_bytes(30, "big")
            seed: list[Event] = [Seeded(_PLACE, block - 1, hashes[0])]
            for event in seed if transaction == "seed" else transaction:
                happened.append(replace(event, place=Place(block, index, *hashes)))
                index += 1
    return happened


def rows(store: Store) -> dict[str, list[dict[str, Any]]]:
    with store.session() as session:
        read = {table.__tablename__: session.exec(select(table)).all() for table in TABLES}
        return {str(name): sorted((row.model_dump() for row in those), key=str) for name, those in read.items()}


def feed(store: Store, happened: list[Event], last: int, rolled_back_to: int | None = None, size: int = 2) -> None:
    """Lets a store read blocks, some at once."""
    by_block = [list(group) for _, group in groupby(happened, key=lambda event: event.place.block)]
    for start in range(0, max(1, len(by_block)), size):
        some = tuple(event for group in by_block[start : start + size] for event in group)
        head = Head(some[-1].place.block if some else last, some[-1].place.block_hash if some else bytes(32))
        store.apply(Changes(rolled_back_to, some, (head,), complete=True))
        rolled_back_to = None


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(chain=[[on_batch(0, 2)], [on_batch(0, 8)], [on_batch(0, 12)]], other=[[on_channel(0, 1)]], back=1, size=1)
@given(chain=CHAIN, other=CHAIN, back=st.integers(0, 5), size=st.integers(1, 4))
def test_rows_are_those_of_the_present_chain(
    tmp_path: Path, chain: list[Any], other: list[Any], back: int, size: int
) -> None:
    for path in tmp_path.glob("*.sqlite*"):
        path.unlink()
    stores = [Store(f"sqlite:///{tmp_path / name}.sqlite", DEPLOYMENT) for name in ("followed", "fresh")]
    try:
        followed, fresh = stores
        first = begun_once(events_of([FIRST, *chain], 1, 1))
        kept = max(1, 1 + len(chain) - back)
        present = [event for event in first if event.place.block <= kept]
        present = begun_once(present + events_of(other, kept + 1, 2))
        again = [event for event in present if event.place.block > kept]
        feed(followed, first, 1 + len(chain), size=size)
        for name, _, batch in BATCHES:
            followed.batch(batch.hex())  # in memory now
            assert name in POOLS
        feed(followed, again, kept, rolled_back_to=kept, size=size)
        feed(fresh, present, kept + len(other), size=100)
        assert rows(followed) == rows(fresh)
        holds(followed, reduce(Pools.step, present, Pools(followed.parameters)))
    finally:
        for store in stores:
            store.close()


def holds(store: Store, pools: Pools) -> None:
    """That a store tells what a fold over all events does."""
    queries = Queries(store)
    listed = {view.life.pool: view for view in queries.pools(limit=9)}
    assert listed.keys() == pools.pools.keys()
    for name, pool in pools.pools.items():
        view = listed[name]
        assert (view.life.begun, view.life.is_over, view.channels) == (pool.begun, pool.is_over, pool.open_channels)
        for channel, life in pool.channels.items():
            known = queries.channel(channel.hex())
            assert known is not None and (known.life, known.operator) == (life, pool.offer.operator)
    for _, _, batch in BATCHES:
        one = store.batch(batch.hex())
        assert (None if one is None else one.life) == pools.batches.get(batch)
    states = [life.state.name.lower() for life in pools.batches.values()]
    assert {name: count for name, count in queries.batch_counts().items() if count} == {
        name: states.count(name) for name in states
    }
    assert queries.open_games() == sum(len(life.open_games) for life in pools.batches.values())
    late = {life.batch for life in store.late_batches(20)}
    windows = {batch: window for batch, life in pools.batches.items() if (window := awake(life)) is not None}
    assert late == {batch for batch, (wake, sleep) in windows.items() if wake <= 21 and sleep > 20}
