"""Events of the chain as rows of the database."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlmodel import Session, SQLModel

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
from eigentensor_aggregator.database import add_rows, chunks
from eigentensor_aggregator.tables import EventRow

# Not objects of the session: there may be hundreds of thousands of rows.
_EVENTS = SQLModel.metadata.tables[str(EventRow.__tablename__)]
#: Events of transactions of which it is remembered who sent them, and for how much gas.
MOVES = (Opened, Moved, Ended)


class Sent(NamedTuple):
    """Who sent a transaction, and the gas that it used."""

    sender: str
    gas: int


def row(happened: Event, sent: Mapping[bytes, Sent]) -> dict[str, Any]:
    """The event as a row; `sent` has the senders and the gas of transactions with moves."""
    place = happened.place
    sender, gas = sent.get(place.transaction, (None, None))
    return {
        "block": place.block,
        "log_index": place.index,
        "block_hash": place.block_hash,
        "transaction": place.transaction,
        "name": type(happened).__name__,
        "subject": subject_of(happened),
        "arguments": happened.arguments(),
        "sender": sender,
        "gas": gas,
    }


def add(session: Session, happened: Iterable[Event], sent: Mapping[bytes, Sent]) -> set[str]:
    """Keeps events that are new; what they are about."""
    rows = [row(one, sent) for one in happened]
    add_rows(session, _EVENTS, rows)
    return {one["subject"] for one in rows}


def subject_of(happened: Event) -> str:
    """What an event is about; nothing where it is about money."""
    match happened:
        case TaskEvent():
            return happened.task.hex()
        case OperatorJoined() | OperatorLeft() | SignerSet() | SeatsSet():
            return happened.operator
        case Seeded():
            return str(happened.seed_block)
        case calls.Begun() | calls.BatchEvent():
            return of_batch(happened.batch.hex())
        case calls.ChannelEvent():
            return of_channel(happened.channel.hex())
        case calls.PoolEvent():
            return of_pool(happened.pool.hex())
    return ""


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
    rows = [
        row
        for names in chunks(subjects)
        for row in session.execute(select(_EVENTS).where(_EVENTS.c.subject.in_(names))).all()
    ]
    read = [(_event(row), Sent(row.sender, row.gas or 0) if row.sender is not None else None) for row in rows]
    return sorted(read, key=lambda one: one[0].place)


def _event(row: Any) -> Event:
    place = Place(row.block, row.log_index, row.block_hash, row.transaction)
    kinds = calls.KINDS if " " in row.subject else KINDS  # tasks and paid calls have events of the same names
    return kinds[row.name].from_arguments(place, row.arguments)
