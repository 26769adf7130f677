"""What a restart must not forget, in SQLite: cases, and how far the chain was read; for people what tasks brought. The
rest comes from the chain."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from eigentensor.chain import Head
from eigentensor.economics import Parameters
from eigentensor.errors import ConfigError
from eigentensor.store.database import opened
from eigentensor.task import Life, Order, State
from eigentensor_operator.case import Case, Role, Seal
from eigentensor_operator.earnings import Earning, Source, earnings_of
from eigentensor_operator.policy import Code, Reason
from eigentensor_operator.state import Operator

#: What brings a journal from one version to the next; SQLite's `user_version` counts them.
_MIGRATIONS = (
    """
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
""",
    """
ALTER TABLE cases ADD COLUMN role TEXT NOT NULL DEFAULT '';
UPDATE cases SET role = 'executor' WHERE mine;
ALTER TABLE cases DROP COLUMN mine;
ALTER TABLE cases DROP COLUMN commitment;
ALTER TABLE cases ADD COLUMN halted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE cases ADD COLUMN bond TEXT NOT NULL DEFAULT '0';
ALTER TABLE cases ADD COLUMN games TEXT NOT NULL DEFAULT '[]';
""",
    "ALTER TABLE cases ADD COLUMN finished INTEGER NOT NULL DEFAULT 0;",
    """
CREATE TABLE earnings (task BLOB NOT NULL, block INTEGER NOT NULL, source TEXT NOT NULL, amount TEXT NOT NULL);
CREATE INDEX earnings_of_task ON earnings (task);
CREATE INDEX earnings_by_block ON earnings (block);
""",
    "ALTER TABLE owner ADD COLUMN device TEXT NOT NULL DEFAULT '';",
)
_COLUMNS = (
    "uuid", "posted", "order_json", "outputs_root", "salt", "uploaded", "refused", "dropped", "published", "state",
    "role", "halted", "bond", "games", "finished",
)  # fmt: skip
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM cases"
_REPLACE = f"REPLACE INTO cases ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"


class Line(NamedTuple):
    """A case for people: the last state that was seen, this operator's part, its bond (wei), the open games, whether
    nothing more can come of what it has at stake, whether its result is delivered, and why it was given up."""

    task: bytes
    state: State
    role: Role
    bond: int
    games: tuple[int, ...]
    finished: bool
    uploaded: bool = False
    dropped: Reason | None = None


class Store:
    """The operator's journal. `save` returns when the cases are on disk: only then may anything be sent."""

    def __init__(self, path: Path) -> None:
        """Brings a journal of an earlier version up to this one. Raises ConfigError for one of a later version."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = path
        self._connection = opened(path, timeout=30)
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version > len(_MIGRATIONS):
            raise ConfigError(f"{path} was written by a later version", fix="Upgrade, or choose another --data-dir.")
        for number, script in enumerate(_MIGRATIONS[version:], version + 1):
            self._connection.executescript(f"BEGIN; {script} PRAGMA user_version = {number}; COMMIT;")

    def is_well(self) -> bool:
        """Whether it answers from its file. Raises sqlite3.Error."""
        return self._path.exists() and self._connection.execute("SELECT market FROM owner").fetchone() is not None

    def close(self) -> None:
        """Closes the file; nothing is saved after it."""
        self._connection.close()

    def belongs_to(self, market: str, operator: str) -> bool:
        """Claims an empty journal; False if it is another operator's, or of another market."""
        self._connection.execute("INSERT OR IGNORE INTO owner VALUES (1, ?, ?, '')", (market, operator))
        return bool(self._connection.execute("SELECT market, operator FROM owner").fetchone() == (market, operator))

    @property
    def operator(self) -> str:
        """Whose journal it is; empty while it is nobody's."""
        row = self._connection.execute("SELECT operator FROM owner").fetchone()
        return str(row[0]) if row else ""

    @property
    def device(self) -> str:
        """What executes for it, as the daemon that was started last has it; empty before there was one."""
        row = self._connection.execute("SELECT device FROM owner").fetchone()
        return str(row[0]) if row else ""

    @device.setter
    def device(self, name: str) -> None:
        """Keeps another one, of a journal that somebody has claimed."""
        self._connection.execute("UPDATE owner SET device = ?", (name,))

    def save(self, operator: Operator, cases: Iterable[Case], forgotten: Iterable[bytes] = ()) -> None:
        """Writes these cases of an operator and what they brought, and deletes those that are forgotten; what they
        brought stays."""
        rows = [_row(operator, case) for case in cases]
        with self._connection:
            self._connection.execute("BEGIN")
            self._connection.executemany(_REPLACE, [row for row, _ in rows])
            self._connection.executemany("DELETE FROM earnings WHERE task = ?", [(row[0],) for row, _ in rows])
            earned = [(row[0], e.block, e.source.value, str(e.amount)) for row, earnings in rows for e in earnings]
            self._connection.executemany("INSERT INTO earnings VALUES (?, ?, ?, ?)", earned)
            self._connection.executemany("DELETE FROM cases WHERE uuid = ?", [(uuid,) for uuid in forgotten])

    def cases(self, parameters: Parameters) -> dict[bytes, Case]:
        """All cases, without what the chain says of them. Refusals are left out: the policy may be another one now."""
        return {row[0]: _case(row, parameters) for row in self._connection.execute(_SELECT)}

    def summary(self) -> list[Line]:
        """The cases in the order in which they were posted: for people, not for deciding."""
        rows = self._connection.execute(f"{_SELECT} ORDER BY posted, uuid")
        return [_line(*row) for row in rows]

    def earnings(self, last: int) -> list[Earning]:
        """What tasks brought up to the block `last`, in the order of blocks."""
        rows = self._connection.execute(
            "SELECT block, source, amount FROM earnings WHERE block <= ? ORDER BY block", (last,)
        )
        return [Earning(block, Source(source), int(amount)) for block, source, amount in rows]

    @property
    def checkpoint(self) -> Head | None:
        """A block before everything that is still of interest."""
        row = self._connection.execute("SELECT number, hash FROM checkpoint").fetchone()
        return Head(*row) if row else None

    @checkpoint.setter
    def checkpoint(self, head: Head) -> None:
        """Keeps another one."""
        self._connection.execute("REPLACE INTO checkpoint VALUES (1, ?, ?)", (head.number, head.hash))


def changed(before: Operator, after: Operator) -> list[Case]:
    """Cases of which something that is kept differs."""
    return [case for uuid, case in after.cases.items() if _differs(before, after, uuid)]


def _differs(before: Operator, after: Operator, uuid: bytes) -> bool:
    old, new = before.cases.get(uuid), after.cases[uuid]
    if old is new:  # a block may finish it all the same
        return before.is_finished(old) != after.is_finished(new)
    return old is None or _row(before, old) != _row(after, new)


def _row(operator: Operator, case: Case) -> tuple[tuple[Any, ...], tuple[Earning, ...]]:
    """The line of a case, and what it brought."""
    posted = case.life.posted.block if case.life.posted else 0
    seal = (case.seal.outputs_root, case.seal.salt) if case.seal else (None, None)
    reasons = (_reason_to_json(case.refused), _reason_to_json(case.dropped))
    published = case.published.value if case.published else None
    order, games = json.dumps(case.order.to_json()), json.dumps(case.life.open_games)
    kept = (case.uuid, posted, order, *seal, int(case.uploaded), *reasons, published)
    shown = (int(case.state), operator.role_in(case).value, int(case.halted), str(operator.bond_of(case)), games)
    line = (*kept, *shown, int(operator.is_finished(case)))
    return line, tuple(earnings_of(case.life, operator.policy.operator))


def _case(row: tuple[Any, ...], parameters: Parameters) -> Case:
    uuid, _, order, outputs_root, salt, uploaded, _, dropped, published, _, _, halted, *_ = row
    return Case(
        Life(uuid, Order.from_json(json.loads(order)), parameters),
        seal=Seal(outputs_root, salt) if salt is not None else None,
        uploaded=bool(uploaded),
        dropped=_reason_from_json(dropped),
        published=Code(published) if published else None,
        halted=bool(halted),
    )


def _line(*row: Any) -> Line:
    uuid, *_, uploaded, _, dropped, _, state, role, _, bond, games, finished = row
    numbers = tuple(json.loads(games))
    part = State(state), Role(role), int(bond), numbers, bool(finished)
    return Line(uuid, *part, bool(uploaded), _reason_from_json(dropped))


def _reason_to_json(reason: Reason | None) -> str | None:
    return json.dumps(reason.to_json()) if reason else None


def _reason_from_json(text: str | None) -> Reason | None:
    if text is None:
        return None
    fields = json.loads(text)
    return Reason(Code(fields.pop("code")), **fields)
