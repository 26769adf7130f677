"""Pools, channels and batches of paid calls in the database: rows that `eigentensor.channel` folds from events.

Of a batch all events are folded whenever something happens to it. A pool with its channels goes on from its rows, since
every batch has lines of them; after a reorganisation it is folded from its first event.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from sqlmodel import Session, col, delete, select

from eigentensor import economics
from eigentensor.channel import events as calls
from eigentensor.channel.deals import Deal, Offer
from eigentensor.channel.due import awake
from eigentensor.channel.life import BatchLife
from eigentensor.channel.pools import ChannelLife, PoolLife, Pools
from eigentensor.channel.state import ChannelState
from eigentensor.economics import Parameters
from eigentensor.task import Ended, Event, Moved, Opened, Seeded
from eigentensor_aggregator import events
from eigentensor_aggregator.database import chunks
from eigentensor_aggregator.events import of_batch, of_channel, of_pool
from eigentensor_aggregator.tables import BatchRow, CallGameRow, ChannelRow, LineRow, PoolRow

_MOVES = (Opened, Moved, Ended)


@dataclass(frozen=True, slots=True)
class Touched:
    """What events are about, by the names of rows."""

    pools: frozenset[str]
    channels: frozenset[str]
    batches: frozenset[str]

    @property
    def subjects(self) -> set[str]:
        """The same as subjects of events."""
        return {*map(of_pool, self.pools), *map(of_channel, self.channels), *map(of_batch, self.batches)}


def pools_of(session: Session, subjects: Collection[str]) -> set[str]:
    """The pools, as far as rows tell, that events with these subjects are about."""
    named = [subject.partition(" ") for subject in subjects]
    channels = [name for kind, _, name in named if kind == "channel"]
    batches = [name for kind, _, name in named if kind == "batch"]
    tasks = [kind for kind, space, _ in named if not space and len(kind) == 64]
    seeds = [int(kind) for kind, space, _ in named if not space and kind.isdigit() and len(kind) < 64]
    for some in chunks(tasks):
        batches += session.exec(select(CallGameRow.batch).where(col(CallGameRow.task).in_(some))).all()
    pools = {name for kind, _, name in named if kind == "pool"}
    for rows, column, values in (
        (ChannelRow, col(ChannelRow.channel), channels),
        (BatchRow, col(BatchRow.batch), batches),
        (BatchRow, col(BatchRow.seed_block), seeds),
    ):
        for part in chunks(values):
            pools.update(session.exec(select(rows.pool).where(column.in_(part))).all())
    return pools


def rebuild(session: Session, parameters: Parameters, subjects: Collection[str]) -> set[str]:
    """Makes the rows of the pools anew that these subjects of lost events are about, from the events that are left;
    returns the subjects of all that these rows tell of."""
    changed: set[str] = set()
    for pool in sorted(pools_of(session, subjects)):
        channels = session.exec(select(ChannelRow.channel).where(ChannelRow.pool == pool)).all()
        batches = session.exec(select(BatchRow.batch).where(BatchRow.pool == pool)).all()
        about = {of_pool(pool), *map(of_channel, channels), *map(of_batch, batches)}
        pools = _folded(session, parameters, about, batches)
        session.exec(delete(PoolRow).where(col(PoolRow.pool) == pool))
        for rows in (ChannelRow, BatchRow):
            session.exec(delete(rows).where(col(rows.pool) == pool))
        for rows_of in (LineRow, CallGameRow):
            session.exec(delete(rows_of).where(col(rows_of.batch).in_(batches)))
        _write(session, pools, pools.batches)
        session.flush()
        changed |= about
    return changed


def step(session: Session, parameters: Parameters, happened: Sequence[Event]) -> set[str]:
    """Takes over events that the database does not have yet, in their order; the subjects of what they change."""
    touched = _touched(session, happened)
    if not touched.subjects:
        return set()
    known = read(session, parameters, touched.batches)
    rows = session.exec(select(ChannelRow).where(col(ChannelRow.channel).in_(touched.channels))).all()
    names = touched.pools | {row.pool for row in rows} | {pool.hex() for pool in known.pools}
    pools = {bytes.fromhex(row.pool): pool_of(row) for row in _pool_rows(session, names)}
    for row in rows:
        pool = pools[bytes.fromhex(row.pool)]
        channels = {**pool.channels, bytes.fromhex(row.channel): channel_of(row)}
        pools[pool.pool] = replace(pool, channels=channels)
    of_channels = {bytes.fromhex(row.channel): bytes.fromhex(row.pool) for row in rows}
    state = reduce(Pools.step, happened, replace(known, pools=pools, of_channel=of_channels))
    lined = {event.batch for event in happened if isinstance(event, calls.Lined)}
    _write(session, state, lined & state.batches.keys())
    session.flush()
    return touched.subjects


def read(session: Session, parameters: Parameters, batches: Collection[str]) -> Pools:
    """These batches as their events tell them; of their pools no more than that they were offered."""
    rows = session.exec(select(BatchRow.pool).where(col(BatchRow.batch).in_(batches))).all()
    return _folded(session, parameters, [*map(of_pool, {*rows}), *map(of_batch, batches)], batches)


def channel_of(row: ChannelRow) -> ChannelLife:
    """The channel of a row."""
    state = ChannelState[row.state.upper()]
    return ChannelLife(
        Deal.from_json(row.deal), row.opened_block, int(row.deposit), int(row.paid), row.count, state, row.last
    )


def pool_of(row: PoolRow) -> PoolLife:
    """The pool of a row, without its channels."""
    return PoolLife(bytes.fromhex(row.pool), Offer.from_json(row.offer), row.begun, row.is_over)


def _pool_rows(session: Session, names: Iterable[str]) -> Sequence[PoolRow]:
    return session.exec(select(PoolRow).where(col(PoolRow.pool).in_({*names}))).all()


def _touched(session: Session, happened: Sequence[Event]) -> Touched:
    pools = {event.pool.hex() for event in happened if isinstance(event, (calls.PoolEvent, calls.Opened))}
    channels = {event.channel.hex() for event in happened if isinstance(event, calls.ChannelEvent)}
    channels |= {event.line.channel.hex() for event in happened if isinstance(event, calls.Lined)}
    batches = {event.batch.hex() for event in happened if isinstance(event, (calls.BatchEvent, calls.Begun))}
    tasks = {event.task.hex() for event in happened if isinstance(event, _MOVES)}
    batches |= {*session.exec(select(CallGameRow.batch).where(col(CallGameRow.task).in_(tasks))).all()}
    seeds = {event.seed_block for event in happened if isinstance(event, Seeded)}
    batches |= {*session.exec(select(BatchRow.batch).where(col(BatchRow.seed_block).in_(seeds))).all()}
    return Touched(frozenset(pools), frozenset(channels), frozenset(batches))


def _folded(session: Session, parameters: Parameters, subjects: Collection[str], batches: Collection[str]) -> Pools:
    """A fold over the events of subjects, the games about calls of the batches, and the seeds of these."""
    games = session.exec(select(CallGameRow.task).where(col(CallGameRow.batch).in_(batches))).all()
    happened = [event for event, _ in events.read(session, [*subjects, *games])]
    committed = [event.place.block for event in happened if isinstance(event, calls.Committed)]
    seeds = {str(economics.seed_block(block, parameters.lag, parameters.grid)) for block in committed}
    happened += [event for event, _ in events.read(session, seeds)]
    return reduce(Pools.step, sorted(happened, key=lambda event: event.place), Pools(parameters))


def _write(session: Session, pools: Pools, lined: Collection[bytes]) -> None:
    """What is known as rows, with the lines of these batches."""
    for name, life in pools.pools.items():
        session.merge(_pool_row(life, _offered(session, life)))
        for channel, of in life.channels.items():
            session.merge(_channel_row(name, channel, of))
    for batch in pools.batches:
        session.merge(_batch_row(pools.pool_of[batch], pools.batches[batch]))
    session.exec(delete(LineRow).where(col(LineRow.batch).in_([batch.hex() for batch in lined])))
    lines = {(batch.hex(), line.channel.hex()) for batch in lined for line in pools.batches[batch].lines}
    session.add_all([LineRow(batch=batch, channel=channel) for batch, channel in sorted(lines)])
    for task, batch in pools.of_task.items():
        session.merge(CallGameRow(task=task.hex(), batch=batch.hex()))


def _offered(session: Session, life: PoolLife) -> tuple[int, int]:
    """Block and index of a pool's offer: what its row says, or its first event."""
    if (row := session.get(PoolRow, life.pool.hex())) is not None:
        return row.offered_block, row.offered_index
    first = life.events[0].place
    return first.block, first.index


def _pool_row(life: PoolLife, offered: tuple[int, int]) -> PoolRow:
    return PoolRow(
        pool=life.pool.hex(), operator=life.offer.operator, offered_block=offered[0], offered_index=offered[1],
        begun=life.begun, is_over=life.is_over, offer=life.offer.to_json(),
    )  # fmt: skip


def _channel_row(pool: bytes, name: bytes, life: ChannelLife) -> ChannelRow:
    return ChannelRow(
        channel=name.hex(), pool=pool.hex(), client=life.deal.client, state=life.state.name.lower(),
        opened_block=life.opened_at, deposit=str(life.deposit), paid=str(life.paid), count=life.count, last=life.last,
        deal=life.deal.to_json(),
    )  # fmt: skip


def _batch_row(pool: bytes, life: BatchLife) -> BatchRow:
    wake, sleep = awake(life) or (None, None)
    begun = life.events[0].place
    return BatchRow(
        batch=life.batch.hex(), pool=pool.hex(), operator=life.offer.operator, state=life.state.name.lower(),
        begun_block=begun.block, begun_index=begun.index,
        seed_block=None if life.committed_at is None else life.seed_block, wake=wake, sleep=sleep,
    )  # fmt: skip
