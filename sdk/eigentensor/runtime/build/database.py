"""How long bodies and transfers took, and how exact programs were: SQLite, for all processes of a user."""

import json
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from eigentensor.cache import default_folder
from eigentensor.errors import ConfigError
from eigentensor.program.codec import body_record, read_record
from eigentensor.program.model import Body
from eigentensor.runtime.bodies.analysis import Analysis
from eigentensor.runtime.build.names import body_name, structure

VERSION = 2
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS bodies (
    name TEXT PRIMARY KEY, structure TEXT NOT NULL, extents TEXT NOT NULL, record BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS bodies_of_structure ON bodies (structure);
CREATE TABLE IF NOT EXISTS times (
    body TEXT NOT NULL REFERENCES bodies, device TEXT NOT NULL, build TEXT NOT NULL, schedule TEXT NOT NULL,
    heuristic INTEGER NOT NULL, seconds REAL NOT NULL, samples INTEGER NOT NULL, measured_at REAL NOT NULL,
    PRIMARY KEY (body, device, build, schedule)
);
CREATE TABLE IF NOT EXISTS transfers (
    device TEXT NOT NULL, build TEXT NOT NULL, direction TEXT NOT NULL, bytes INTEGER NOT NULL, seconds REAL NOT NULL,
    samples INTEGER NOT NULL, measured_at REAL NOT NULL, PRIMARY KEY (device, build, direction, bytes)
);
CREATE TABLE IF NOT EXISTS errors (
    program TEXT NOT NULL, sample TEXT NOT NULL, max_relative_error REAL NOT NULL, measured_at REAL NOT NULL,
    PRIMARY KEY (program, sample)
);
PRAGMA user_version = {VERSION};
COMMIT;
"""


@dataclass(frozen=True, slots=True)
class Platform:
    """Where a time holds: tinygrad's name of the device, and all that its object code depends on besides the body."""

    device: str
    build: str


@dataclass(frozen=True, slots=True)
class Time:
    """Seconds of one call: a median of `samples`, or an estimate if there are none.

    `heuristic` says that it is what the runtime chooses without measuring.
    """

    schedule: str
    seconds: float
    samples: int
    heuristic: bool


def default_path() -> Path:
    """Beside the kernel cache."""
    return default_folder().parent / "tuning.sqlite"


class Database:
    """Times by body, device, build and schedule. Several processes may write."""

    def __init__(self, path: Path) -> None:
        """Creates what is missing. Raises ConfigError if the file is of a later version, or none of ours."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        self.path = path
        self._connection = sqlite3.connect(path, timeout=30, isolation_level=None)
        try:
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            if version > VERSION:
                raise ConfigError(f"{path} was written by a later version", fix="Upgrade, or delete the file.")
            if version < VERSION:
                self._connection.executescript(_SCHEMA)
            self._connection.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.DatabaseError as error:
            self.close()
            raise ConfigError(f"{path}: {error}", fix="Delete the file: what it knows can be measured again.") from None
        except ConfigError:
            self.close()
            raise

    def close(self) -> None:
        """The end of the connection; what was recorded is in the file already."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def record(self, platform: Platform, body: Body, times: Sequence[Time]) -> None:
        """Writes times of a body in place of earlier ones; estimates for its structure are dropped."""
        key, kind, now = body_name(body), structure(body), time.time()
        extents = json.dumps(Analysis(body).extents)
        rows = [
            (key, platform.device, platform.build, t.schedule, t.heuristic, t.seconds, t.samples, now) for t in times
        ]
        run = self._connection.execute
        with closing(self._connection.cursor()) as cursor:
            run("BEGIN IMMEDIATE")
            try:
                run("INSERT OR IGNORE INTO bodies VALUES (?, ?, ?, ?)", (key, kind, extents, body_record(body)))
                if any(t.samples for t in times):
                    run(
                        "DELETE FROM times WHERE samples = 0 AND device = ? AND build = ?"
                        " AND body IN (SELECT name FROM bodies WHERE structure = ?)",
                        (platform.device, platform.build, kind),
                    )
                cursor.executemany("REPLACE INTO times VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            except BaseException:
                run("ROLLBACK")
                raise
            run("COMMIT")

    def times(self, platform: Platform, body: Body) -> list[Time]:
        """What is known of a body, measured before estimated, the fastest first."""
        rows = self._connection.execute(
            "SELECT schedule, seconds, samples, heuristic FROM times WHERE body = ? AND device = ? AND build = ?"
            " ORDER BY samples = 0, seconds, schedule",
            (body_name(body), platform.device, platform.build),
        )
        return [Time(schedule, seconds, samples, bool(heuristic)) for schedule, seconds, samples, heuristic in rows]

    def measured(self, platform: Platform, kind: str | None = None) -> list[tuple[Body, list[Time]]]:
        """The measured bodies, of a structure if one is given, with their times."""
        rows = self._connection.execute(
            "SELECT name, record, schedule, seconds, samples, heuristic FROM times JOIN bodies ON body = name"
            " WHERE structure = COALESCE(?, structure) AND device = ? AND build = ? AND samples > 0"
            " ORDER BY name, heuristic DESC, schedule",
            (kind, platform.device, platform.build),
        )
        bodies: dict[str, tuple[Body, list[Time]]] = {}
        for key, record, schedule, seconds, samples, heuristic in rows:
            if key not in bodies:
                bodies[key] = read_record("body", record), []
            bodies[key][1].append(Time(schedule, seconds, samples, bool(heuristic)))
        return list(bodies.values())

    def record_transfer(self, platform: Platform, direction: str, size: int, seconds: float, samples: int) -> None:
        """What it took to move so many bytes `in` to the device or `out` of it."""
        row = (platform.device, platform.build, direction, size, seconds, samples, time.time())
        self._connection.execute("REPLACE INTO transfers VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def transfer(self, platform: Platform, direction: str, size: int) -> float | None:
        """Seconds that a transfer of `size` bytes in a direction took; None if it was not measured."""
        row = self._connection.execute(
            "SELECT seconds FROM transfers WHERE device = ? AND build = ? AND direction = ? AND bytes = ?",
            (platform.device, platform.build, direction, size),
        ).fetchone()
        return None if row is None else float(row[0])

    def record_error(self, program: str, sample: str, max_relative_error: float) -> None:
        """How far the results of a program are from the exact ones on a sample of inputs: the same on every device."""
        row = (program, sample, max_relative_error, time.time())
        self._connection.execute("REPLACE INTO errors VALUES (?, ?, ?, ?)", row)

    def error(self, program: str, sample: str) -> float | None:
        """The largest relative error of a program on a sample, both by name; None if it was not measured."""
        row = self._connection.execute(
            "SELECT max_relative_error FROM errors WHERE program = ? AND sample = ?", (program, sample)
        ).fetchone()
        return None if row is None else float(row[0])

    def platforms(self) -> dict[Platform, int]:
        """Where something was measured, with the number of bodies; most first."""
        rows = self._connection.execute(
            "SELECT device, build, COUNT(DISTINCT body) AS bodies FROM times WHERE samples > 0"
            " GROUP BY device, build ORDER BY bodies DESC"
        )
        return {Platform(device, build): bodies for device, build, bodies in rows}

    def count(self) -> int:
        """How many measurements there are, of all devices and builds."""
        return int(self._connection.execute("SELECT COUNT(*) FROM times WHERE samples > 0").fetchone()[0])
