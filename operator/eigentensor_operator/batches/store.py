"""What a restart must not forget of batches, in SQLite: their events, and what was decided about each."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from eigentensor.channel import events as calls
from eigentensor.channel.pools import Pools
from eigentensor.store.database import Database
from eigentensor.task.events import KINDS, Event, Place
from eigentensor_operator.batches.case import Case, Doubt, Seal
from eigentensor_operator.batches.state import Batches
from eigentensor_operator.policy import Code, Reason

_TABLES = """
CREATE TABLE IF NOT EXISTS events (
    subject BLOB NOT NULL, block INTEGER NOT NULL, place INTEGER NOT NULL, block_hash BLOB NOT NULL,
    sent BLOB NOT NULL, kind TEXT NOT NULL, arguments TEXT NOT NULL, PRIMARY KEY (subject, block, place)
) WITHOUT ROWID
""", """
CREATE TABLE IF NOT EXISTS batches (
    batch BLOB PRIMARY KEY, pool BLOB NOT NULL, number INTEGER NOT NULL, state TEXT NOT NULL, mine INTEGER NOT NULL,
    calls INTEGER NOT NULL, amount TEXT NOT NULL, at_stake INTEGER NOT NULL, drained INTEGER NOT NULL,
    halted INTEGER NOT NULL, answered INTEGER, root BLOB, salt BLOB, doubted INTEGER, doubt BLOB, unanswered TEXT,
    forgotten INTEGER NOT NULL DEFAULT 0
)
"""  # fmt: skip
_COLUMNS = (
    "batch", "pool", "number", "state", "mine", "calls", "amount", "at_stake", "drained", "halted", "answered", "root",
    "salt", "doubted", "doubt", "unanswered",
)  # fmt: skip
_REPLACE = f"REPLACE INTO batches ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_OF_CALLS = "calls."  # before the kind of an event of which tasks have one of the same name


class BatchLine(NamedTuple):
    """A batch for people: its pool and number, how it stood when it was last seen, whether it is this operator's own,
    its calls and what they cost in wei, and whether something of the operator's may still come of it."""

    batch: bytes
    pool: bytes
    number: int
    state: str
    mine: bool
    calls: int
    amount: int
    at_stake: bool


class BatchStore:
    """The journal of batches. What was written is on disk when it returns: only then may anything be sent."""

    def __init__(self, path: Path) -> None:
        self._database = Database(path)
        for table in _TABLES:
            self._database.rows(table)

    def close(self) -> None:
        """Closes the file."""
        self._database.close()

    # ---- Events ----

    def keep(self, news: Iterable[tuple[bytes, Event]]) -> None:
        """Writes events, each with the pool or the batch that it is of; the same one twice is once."""
        rows = [_event_row(subject, event) for subject, event in news]
        if rows:
            with self._database.together():
                for row in rows:
                    self._database.rows("REPLACE INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", *row)

    def roll_back(self, block: int) -> None:
        """Forgets the events after a block."""
        self._database.rows("DELETE FROM events WHERE block > ?", block)

    def events(self) -> list[Event]:
        """All that are kept, in the order of the chain."""
        rows = self._database.rows("SELECT * FROM events GROUP BY block, place ORDER BY block, place")
        return [_event(row) for row in rows]

    # ---- Batches ----

    def save(self, batches: Batches, names: Iterable[bytes], forgotten: Iterable[bytes] = ()) -> None:
        """Writes what was decided about these batches. Forgotten ones stay for people, and for nobody else."""
        with self._database.together():
            for name in names:
                if (row := _row(batches, batches.cases[name])) is not None:
                    self._database.rows(_REPLACE, *row)
            for name in forgotten:
                self._database.rows("UPDATE batches SET forgotten = 1, at_stake = 0 WHERE batch = ?", name)
                self._database.rows("DELETE FROM events WHERE subject = ?", name)

    def cases(self) -> dict[bytes, Case]:
        """What was decided about each batch that is not forgotten."""
        rows = self._database.rows("SELECT * FROM batches WHERE NOT forgotten")
        return {row["batch"]: _case(row) for row in rows}

    def forgotten(self) -> set[bytes]:
        """The batches of which nothing more is heard."""
        return {row["batch"] for row in self._database.rows("SELECT batch FROM batches WHERE forgotten")}

    def summary(self) -> list[BatchLine]:
        """The batches, pool by pool in the order of their numbers: for people, not for deciding."""
        rows = self._database.rows("SELECT * FROM batches WHERE mine OR answered IS NOT NULL ORDER BY pool, number")
        return [_line(row) for row in rows]


def _line(row: Any) -> BatchLine:
    part = row["state"], bool(row["mine"]), row["calls"], int(row["amount"]), bool(row["at_stake"])
    return BatchLine(row["batch"], row["pool"], row["number"], *part)


_CALLS = frozenset(calls.KINDS.values())


def news(before: Pools, after: Pools) -> Iterator[tuple[bytes, Event]]:
    """The events that pools and batches have learned, each with its pool or its batch."""
    for name, pool in after.pools.items():
        if (known := before.pools.get(name)) is not pool:
            yield from ((name, event) for event in pool.events_since(known))
    for name, life in after.batches.items():
        if (old := before.batches.get(name)) is not life:
            yield from ((name, event) for event in life.events[len(old.events) if old else 0 :])


def _event_row(subject: bytes, event: Event) -> tuple[Any, ...]:
    place, kind = event.place, type(event)
    name = f"{_OF_CALLS}{kind.__name__}" if kind in _CALLS else kind.__name__
    at = subject, place.block, place.index, place.block_hash, place.transaction
    return (*at, name, json.dumps(event.arguments()))


def _event(row: Any) -> Event:
    name = row["kind"]
    kind = calls.KINDS[name.removeprefix(_OF_CALLS)] if name.startswith(_OF_CALLS) else KINDS[name]
    place = Place(row["block"], row["place"], row["block_hash"], row["sent"])
    return kind.from_arguments(place, json.loads(row["arguments"]))


def changed(before: Batches, after: Batches) -> list[bytes]:
    """The batches of which something that is kept differs."""
    return [name for name, case in after.cases.items() if _differs(before, after, name, case)]


def _differs(before: Batches, after: Batches, name: bytes, case: Case) -> bool:
    old = before.cases.get(name)
    same_life = before.pools.batches.get(name) is after.pools.batches.get(name)
    return not (old is case and same_life) and (old is None or _row(before, old) != _row(after, case))


def _row(batches: Batches, case: Case) -> tuple[Any, ...] | None:
    """The line of a batch; None: the chain does not have it."""
    life = batches.pools.batches.get(case.batch)
    if life is None:
        return None
    shown = (
        case.batch, batches.pools.pool_of[case.batch], life.number, life.state.name.lower(),
        int(batches.is_mine(life)), life.leaves, str(life.amount), int(batches.is_at_stake(case)),
    )  # fmt: skip
    seal = (case.seal.index, case.seal.root, case.seal.salt) if case.seal else (None, None, None)
    doubt = (case.doubt.number, case.doubt.root) if case.doubt else (None, None)
    reason = json.dumps(case.unanswered.to_json()) if case.unanswered else None
    return (*shown, int(case.drained), int(case.halted), *seal, *doubt, reason)


def _case(row: Any) -> Case:
    fields = json.loads(row["unanswered"]) if row["unanswered"] else None
    return Case(
        row["batch"],
        drained=bool(row["drained"]),
        seal=Seal(row["answered"], row["root"], row["salt"]) if row["salt"] is not None else None,
        doubt=Doubt(row["doubted"], row["doubt"]) if row["doubted"] is not None else None,
        unanswered=Reason(Code(fields.pop("code")), **fields) if fields else None,
        halted=bool(row["halted"]),
    )
