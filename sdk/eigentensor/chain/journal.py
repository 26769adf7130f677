"""What an account meant to send: written before it is sent, so that a restarted process never sends it twice."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, count
from pathlib import Path

#: What brings a journal from one version to the next; SQLite's `user_version` counts them.
_MIGRATIONS = (
    (
        "CREATE TABLE IF NOT EXISTS intents ("
        "key TEXT PRIMARY KEY, name TEXT NOT NULL, nonce INTEGER NOT NULL, status TEXT NOT NULL)",
        "CREATE TABLE IF NOT EXISTS attempts ("
        "hash BLOB PRIMARY KEY, key TEXT NOT NULL REFERENCES intents, raw BLOB NOT NULL, fee INTEGER NOT NULL, "
        "tip INTEGER NOT NULL, sent_at REAL NOT NULL)",
    ),
    # After a reorganisation the same bytes can be an attempt for another intent, which got the same nonce.
    (
        "ALTER TABLE attempts RENAME TO earlier",
        "CREATE TABLE attempts ("
        "key TEXT NOT NULL REFERENCES intents, hash BLOB NOT NULL, raw BLOB NOT NULL, fee INTEGER NOT NULL, "
        "tip INTEGER NOT NULL, sent_at REAL NOT NULL, PRIMARY KEY (key, hash))",
        "INSERT INTO attempts SELECT key, hash, raw, fee, tip, sent_at FROM earlier",
        "DROP TABLE earlier",
    ),
)


class Status(StrEnum):
    PENDING = "pending"
    MINED = "mined"
    REVERTED = "reverted"
    LOST = "lost"  # its nonce was used by another transaction


@dataclass(frozen=True, slots=True)
class Attempt:
    """One signed transaction for an intent. Its replacements have the same nonce and pay more."""

    hash: bytes
    raw: bytes
    fee: int
    tip: int
    sent_at: float


@dataclass(frozen=True, slots=True)
class Intent:
    """Something to be done exactly once, named by its key."""

    key: str
    name: str
    nonce: int
    status: Status
    attempts: tuple[Attempt, ...]


class Journal:
    """Intents of one account on one chain, in SQLite. Safe for several threads and processes."""

    def __init__(self, path: Path | None) -> None:
        """None keeps it in memory: good for one process that is not to be restarted."""
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._connection = sqlite3.connect(
            path or ":memory:", timeout=60, isolation_level=None, check_same_thread=False
        )
        self._lock = threading.RLock()
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        with self.exclusive():
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            for statement in chain.from_iterable(_MIGRATIONS[version:]):
                self._connection.execute(statement)
            self._connection.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Nobody else chooses a nonce meanwhile; what is written inside is written together."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def get(self, key: str) -> Intent | None:
        with self._lock:
            row = self._connection.execute("SELECT name, nonce, status FROM intents WHERE key = ?", (key,)).fetchone()
            attempts = self._connection.execute(
                "SELECT hash, raw, fee, tip, sent_at FROM attempts WHERE key = ? ORDER BY sent_at", (key,)
            ).fetchall()
        return Intent(key, row[0], row[1], Status(row[2]), tuple(Attempt(*a) for a in attempts)) if row else None

    def pending(self) -> list[Intent]:
        """Intents whose fate is open, by nonce."""
        with self._lock:
            rows = self._connection.execute(
                "SELECT key FROM intents WHERE status = 'pending' ORDER BY nonce"
            ).fetchall()
        return [intent for (key,) in rows if (intent := self.get(key)) is not None]

    def free_nonce(self, least: int) -> int:
        """The lowest nonce from `least` on that no waiting intent has."""
        with self._lock:
            taken = {n for (n,) in self._connection.execute("SELECT nonce FROM intents WHERE status = 'pending'")}
        return next(nonce for nonce in count(least) if nonce not in taken)

    def begin(self, key: str, name: str, nonce: int) -> None:
        """Writes an intent as pending under a nonce, in place of an earlier one that came to nothing."""
        with self._lock:
            self._connection.execute("DELETE FROM attempts WHERE key = ?", (key,))
            self._connection.execute(
                "REPLACE INTO intents VALUES (?, ?, ?, ?)", (key, name, nonce, Status.PENDING.value)
            )

    def attempt(self, key: str, hash_: bytes, raw: bytes, fee: int, tip: int) -> None:
        with self._lock:
            values = (key, hash_, raw, fee, tip, time.time())
            self._connection.execute("INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?)", values)

    def mark(self, key: str, status: Status) -> None:
        with self._lock:
            self._connection.execute("UPDATE intents SET status = ? WHERE key = ?", (status.value, key))
