"""What an account meant to send: written before it is sent, so that a restarted process never sends it twice."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, count
from pathlib import Path
from threading import Lock

from eigentensor import system
from eigentensor.errors import ConfigError
from eigentensor.store.database import Database

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
    # What an intent may take of the account's tokens in wei, which can be more than SQLite's numbers.
    ("ALTER TABLE intents ADD COLUMN takes TEXT NOT NULL DEFAULT '0'",),
)


class Status(StrEnum):
    """Where an intent stands. What is LOST or REVERTED can be sent anew under its key."""

    PENDING = "pending"
    MINED = "mined"
    REVERTED = "reverted"
    LOST = "lost"  # another transaction took its nonce, or no node took it


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
    """Something to be done exactly once, named by its key. It may take so many wei of what the account has."""

    key: str
    name: str
    nonce: int
    status: Status
    attempts: tuple[Attempt, ...]
    takes: int = 0


class Journal:
    """Intents of one account on one chain, in SQLite. Safe for several threads and processes."""

    def __init__(self, path: Path | None) -> None:
        """None keeps it in memory: good for one process that is not to be restarted. Raises ConfigError for one of a
        later version."""
        self._database = Database(path)
        self._turns = path and path.with_name(f"{path.name}.turns")
        self._here = Lock()
        with self.exclusive():
            ((version,),) = self._database.rows("PRAGMA user_version")
            if version > len(_MIGRATIONS):
                raise ConfigError(f"{path} was written by a later version", fix="Go on with that version.")
            for statement in chain.from_iterable(_MIGRATIONS[version:]):
                self._database.rows(statement)
            self._database.rows(f"PRAGMA user_version = {len(_MIGRATIONS)}")

    def is_well(self) -> bool:
        """Whether it answers. Raises sqlite3.Error."""
        return self._database.is_well()

    def close(self) -> None:
        """Closes the file."""
        self._database.close()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Nobody else chooses a nonce meanwhile; what is written inside is written together."""
        with self._database.together():
            yield

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """One of all threads and processes that share the journal at a time is inside, however long that takes; the
        others go on with everything else."""
        with self._here:
            if self._turns is None:
                yield
                return
            with self._turns.open("a") as turns:
                system.lock(turns.fileno(), wait=True)  # ends with the process at the latest
                try:
                    yield
                finally:
                    system.unlock(turns.fileno())  # also for who was forked meanwhile

    def get(self, key: str) -> Intent | None:
        """The intent under a key; None if none was begun."""
        with self._database.lock:
            intents = self._database.rows("SELECT name, nonce, status, takes FROM intents WHERE key = ?", key)
            attempts = self._database.rows(
                "SELECT hash, raw, fee, tip, sent_at FROM attempts WHERE key = ? ORDER BY rowid", key
            )
        for name, nonce, status, takes in intents:
            return Intent(key, name, nonce, Status(status), tuple(Attempt(*a) for a in attempts), int(takes))
        return None

    def pending(self) -> list[Intent]:
        """Intents whose fate is open, by nonce."""
        rows = self._database.rows("SELECT key FROM intents WHERE status = 'pending' ORDER BY nonce")
        return [intent for (key,) in rows if (intent := self.get(key)) is not None]

    def free_nonce(self, least: int) -> int:
        """The lowest nonce from `least` on that no waiting intent has."""
        taken = {nonce for (nonce,) in self._database.rows("SELECT nonce FROM intents WHERE status = 'pending'")}
        return next(nonce for nonce in count(least) if nonce not in taken)

    def begin(self, key: str, name: str, nonce: int, takes: int = 0) -> None:
        """Writes an intent as pending under a nonce, in place of an earlier one that came to nothing."""
        with self._database.lock:
            self._database.rows("DELETE FROM attempts WHERE key = ?", key)
            values = (key, name, nonce, Status.PENDING.value, str(takes))
            self._database.rows("REPLACE INTO intents VALUES (?, ?, ?, ?, ?)", *values)

    def attempt(self, key: str, hash_: bytes, raw: bytes, fee: int, tip: int) -> None:
        """Records a signed transaction of an intent, before it is sent."""
        values = (key, hash_, raw, fee, tip, time.time())
        self._database.rows("INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?)", *values)

    def mark(self, key: str, status: Status) -> None:
        """Records where an intent stands."""
        self._database.rows("UPDATE intents SET status = ? WHERE key = ?", status.value, key)
