"""A database in one SQLite file, as journals and ledgers need it: what is written is on disk."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def opened(path: Path | str, *, timeout: float, durable: bool = True) -> sqlite3.Connection:
    """A connection for every thread, which waits so many seconds for others and keeps a log of what is written. Raises
    sqlite3.Error, which names the file."""
    try:
        connection = sqlite3.connect(path, timeout=timeout, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise type(error)(f"{path}: {error}") from None
    return connection


class Database:
    """Safe for several threads and processes. Under its `lock` no other thread here reads or writes."""

    def __init__(self, path: Path | None, *, durable: bool = True) -> None:
        """None keeps it in memory. `durable`: what is written outlives a power cut, too. Raises sqlite3.Error, which
        names the file: a command has several."""
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = path
        self.lock = threading.RLock()
        self._connection = opened(path or ":memory:", timeout=60, durable=durable)
        self._connection.row_factory = sqlite3.Row

    def close(self) -> None:
        """Closes the file."""
        with self.lock:
            self._connection.close()

    def is_well(self) -> bool:
        """Whether it answers from its file. Raises sqlite3.Error."""
        is_there = self._path is None or self._path.exists()  # one that was removed still answers
        return is_there and bool(self.rows("SELECT 1"))

    def rows(self, statement: str, *values: object) -> list[sqlite3.Row]:
        """The rows of one statement, executed at once. Raises sqlite3.Error."""
        with self.lock:
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Nobody else writes meanwhile; what is written inside is written together, or not at all."""
        with self.lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # a full disk ends it, too
                    self._connection.execute("ROLLBACK")
                raise
