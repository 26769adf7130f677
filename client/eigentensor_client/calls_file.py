"""Which calls of functions became which tasks, on disk: another process of this user takes them up."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from eigentensor.chain.network import state_folder
from eigentensor.errors import ConfigError


def keep(calls: Mapping[str, Any]) -> None:
    """Writes calls down by their tasks' uuids, before these are posted. Raises ConfigError if that cannot be."""
    with _opened() as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS calls (task TEXT PRIMARY KEY, call TEXT NOT NULL)")
        rows = [(uuid, json.dumps(call)) for uuid, call in calls.items()]
        connection.executemany("INSERT OR REPLACE INTO calls VALUES (?, ?)", rows)


def find(uuid: str) -> Any:
    """What was written down of a task; None if nothing was."""
    if not _path().exists():
        return None
    with _opened() as connection:
        row = connection.execute("SELECT call FROM calls WHERE task = ?", (uuid,)).fetchone()
        return None if row is None else json.loads(row[0])


def _path() -> Path:
    return state_folder() / "calls.sqlite"


@contextmanager
def _opened() -> Iterator[sqlite3.Connection]:
    try:
        _path().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with closing(sqlite3.connect(_path(), timeout=60)) as connection:
            yield connection
    except (OSError, sqlite3.Error) as error:
        raise ConfigError(f"cannot use {_path()}: {error}", fix="Make room, or move it away.") from None
