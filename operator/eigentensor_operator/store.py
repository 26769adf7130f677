"""What a restart must not forget, in SQLite: cases, and how far the chain was read. The rest comes from the chain."""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from eigentensor.chain import Head, Order, State
from eigentensor_operator.case import Case, Seal
from eigentensor_operator.policy import Code, Reason

_SCHEMA = """
CREATE TABLE IF NOT EXISTS cases (
    uuid BLOB PRIMARY KEY, posted INTEGER NOT NULL, order_json TEXT NOT NULL,
    outputs_root BLOB, salt BLOB, commitment BLOB, uploaded INTEGER NOT NULL,
    refused TEXT, dropped TEXT, published TEXT, state INTEGER NOT NULL, mine INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS checkpoint (
    one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL, hash BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS owner (
    one INTEGER PRIMARY KEY CHECK (one = 1), market TEXT NOT NULL, operator TEXT NOT NULL
);
"""


class Store:
    """The operator's journal. `save` returns when the cases are on disk: only then may anything be sent."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.executescript(_SCHEMA)

    def close(self) -> None:
        self._connection.close()

    def belongs_to(self, market: str, operator: str) -> bool:
        """Claims an empty journal; False if it is another operator's, or of another market."""
        self._connection.execute("INSERT OR IGNORE INTO owner VALUES (1, ?, ?)", (market, operator))
        return bool(self._connection.execute("SELECT market, operator FROM owner").fetchone() == (market, operator))

    def save(self, cases: Iterable[tuple[Case, bool]], forgotten: Iterable[bytes] = ()) -> None:
        """Writes these cases, each with whether it is this operator's, and deletes those that are forgotten."""
        rows = [_row(case, mine) for case, mine in cases]
        with self._connection:
            self._connection.execute("BEGIN")
            self._connection.executemany(f"REPLACE INTO cases VALUES ({','.join('?' * 12)})", rows)
            self._connection.executemany("DELETE FROM cases WHERE uuid = ?", [(uuid,) for uuid in forgotten])

    def cases(self) -> dict[bytes, Case]:
        """All cases, without what the chain says of them. Refusals are left out: the policy may be another one now."""
        rows = self._connection.execute("SELECT * FROM cases")
        return {row[0]: replace(_case(row), refused=None) for row in rows}

    def summary(self) -> list[tuple[bytes, State, bool, Case]]:
        """Each case with the last state seen and whether it is this operator's: for people, not for deciding."""
        rows = self._connection.execute("SELECT * FROM cases ORDER BY posted, uuid")
        return [(row[0], State(row[10]), bool(row[11]), _case(row)) for row in rows]

    @property
    def checkpoint(self) -> Head | None:
        """A block before everything that is still of interest."""
        row = self._connection.execute("SELECT number, hash FROM checkpoint").fetchone()
        return Head(*row) if row else None

    @checkpoint.setter
    def checkpoint(self, head: Head) -> None:
        self._connection.execute("REPLACE INTO checkpoint VALUES (1, ?, ?)", (head.number, head.hash))


def changed(before: Mapping[bytes, Case], after: Mapping[bytes, Case]) -> list[Case]:
    """Cases of which something that is kept differs."""
    return [case for uuid, case in after.items() if uuid not in before or _differs(before[uuid], case)]


def _differs(before: Case, after: Case) -> bool:
    return before is not after and _row(before, False) != _row(after, False)


def _row(case: Case, mine: bool) -> tuple[Any, ...]:
    posted = case.history[0].block if case.history else 0
    seal = (case.seal.outputs_root, case.seal.salt, case.seal.commitment) if case.seal else (None, None, None)
    reasons = (_reason_to_json(case.refused), _reason_to_json(case.dropped))
    published = case.published.value if case.published else None
    order = json.dumps(case.order.to_json())
    return (case.uuid, posted, order, *seal, int(case.uploaded), *reasons, published, int(case.now.state), int(mine))


def _case(row: tuple[Any, ...]) -> Case:
    uuid, _, order, outputs_root, salt, commitment, uploaded, refused, dropped, published, _, _ = row
    return Case(
        uuid,
        Order.from_json(json.loads(order)),
        seal=Seal(outputs_root, salt, commitment) if salt is not None else None,
        uploaded=bool(uploaded),
        refused=_reason_from_json(refused),
        dropped=_reason_from_json(dropped),
        published=Code(published) if published else None,
    )


def _reason_to_json(reason: Reason | None) -> str | None:
    return json.dumps(asdict(reason)) if reason else None


def _reason_from_json(text: str | None) -> Reason | None:
    if text is None:
        return None
    fields = json.loads(text)
    return Reason(Code(fields.pop("code")), **fields)
