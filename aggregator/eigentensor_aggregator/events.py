"""Events of the chain as rows of the database."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from sqlmodel import Session, col, select

from eigentensor.channel import events as calls
from eigentensor.task import (
    Ended,
    Event,
    Moved,
    Opened,
    OperatorJoined,
    OperatorLeft,
    Place,
    SeatsSet,
    Seeded,
    SignerSet,
    TaskEvent,
)
from eigentensor.task.events import KINDS
from eigentensor_aggregator.tables import EventRow

#: Events of transactions of which it is remembered who sent them, and for how much gas.
MOVES = (Opened, Moved, Ended)


class Sent(NamedTuple):
    """Who sent a transaction, and the gas that it used."""

    sender: str
    gas: int


def row(happened: Event, sent: Mapping[bytes, Sent]) -> EventRow:
    """The event as a row; `sent` has the senders and the gas of transactions with moves."""
    place, subject = happened.place, ""
    sender, gas = sent.get(happened.place.transaction, (None, None))
    match happened:
        case TaskEvent():
            subject = happened.task.hex()
        case OperatorJoined() | OperatorLeft() | SignerSet() | SeatsSet():
            subject = happened.operator
        case Seeded():
            subject = str(happened.seed_block)
        case calls.Begun() | calls.BatchEvent():
            subject = of_batch(happened.batch.hex())
        case calls.ChannelEvent():
            subject = of_channel(happened.channel.hex())
        case calls.PoolEvent():
            subject = of_pool(happened.pool.hex())
    return EventRow(
        block=place.block,
        log_index=place.index,
        block_hash=place.block_hash,
        transaction=place.transaction,
        name=type(happened).__name__,
        subject=subject,
        arguments=happened.arguments(),
        sender=sender,
        gas=gas,
    )


def of_pool(pool: str) -> str:
    """The subject of an event of a pool."""
    return f"pool {pool}"


def of_channel(channel: str) -> str:
    """The subject of an event of a channel."""
    return f"channel {channel}"


def of_batch(batch: str) -> str:
    """The subject of an event of a batch."""
    return f"batch {batch}"


def read(session: Session, subjects: Collection[str]) -> list[tuple[Event, Sent | None]]:
    """Everything that happened to these subjects, in the order of the chain, and who sent what has moves in it."""
    if not subjects:
        return []
    query = select(EventRow).where(col(EventRow.subject).in_(subjects))
    rows = session.exec(query.order_by(col(EventRow.block), col(EventRow.log_index))).all()
    return [(_event(row), Sent(row.sender, row.gas or 0) if row.sender is not None else None) for row in rows]


def _event(row: EventRow) -> Event:
    place = Place(row.block, row.log_index, row.block_hash, row.transaction)
    kinds = calls.KINDS if " " in row.subject else KINDS  # tasks and paid calls have events of the same names
    return kinds[row.name].from_arguments(place, row.arguments)
