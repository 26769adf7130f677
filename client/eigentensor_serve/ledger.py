"""What was asked for and what it cost, in SQLite: written before anything is sent, so that nothing is paid twice."""

import json
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from eigentensor import system
from eigentensor.errors import BudgetSpent, KeyReused, ServiceBusy, TaskNotFound
from eigentensor.store.database import Database
from eigentensor.task.objects import Task
from eigentensor_serve.rows import Cut


class State(StrEnum):
    """Of a job. `asked`: its order is written, perhaps sent; `void`: it never became a task, and costs nothing."""

    ASKED = "asked"
    OPEN = "open"
    ENDED = "ended"
    VOID = "void"


@dataclass(frozen=True, slots=True)
class Key:
    """What a caller names a request by, and what it asks for: the same twice is one task. A request without a key is
    never the same as another: its fingerprint may be empty."""

    caller: str
    fingerprint: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A task that this service asked for, and those that it was posted again as, one after the other: `retries`. It
    keeps the name of the first one.

    `posted` is the order under way, where there is a chain; `escrow` is what it may cost in wei, `cost` what it did,
    when that is known. `outputs` names what was executed here, or called; `problem` says why there will be none. `cut`
    says which rows of its outputs were asked for, if not all.
    """

    task: str
    key: Key
    app: str | None
    created: float
    posted: dict[str, Any] | None = None
    escrow: int = 0
    cost: int | None = None
    state: State = State.ASKED
    problem: dict[str, Any] | None = None
    outputs: str | None = None
    cut: Cut | None = None
    retries: tuple[str, ...] = ()

    @property
    def current(self) -> str:
        """The uuid of the task under way."""
        return self.retries[-1] if self.retries else self.task

    @property
    def earlier(self) -> tuple[str, ...]:
        """Those of the tasks that ended without a result before it was posted."""
        return (self.task, *self.retries)[:-1]

    @property
    def reckoned(self) -> int:
        """Wei that budgets count of it."""
        return self.escrow if self.cost is None else self.cost

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.state in (State.ENDED, State.VOID)


@dataclass(frozen=True, slots=True)
class Event:
    """Numbered from 1 within its task; `response` is the task as it stood then."""

    number: int
    response: Task


@dataclass(frozen=True, slots=True)
class Budget:
    """Wei that a day (UTC) and all days together may cost, and how many tasks a day may have; None is no limit."""

    day: int | None = None
    total: int | None = None
    tasks: int | None = None


DAY = 86_400
_FORGOTTEN = 500  # jobs at a time: who asks meanwhile waits some milliseconds
_SUMS = 64  # of days and apps
_REMEMBERED = 256  # jobs of which the last word is in memory, too: whoever waits for one asks for it again and again
_TABLES = (
    """CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY, task TEXT NOT NULL UNIQUE, caller TEXT NOT NULL, key TEXT, fingerprint TEXT NOT NULL,
    app TEXT, created REAL NOT NULL, posted TEXT, escrow TEXT NOT NULL, cost TEXT, state TEXT NOT NULL,
    problem TEXT, outputs TEXT, cut TEXT)""",
    "CREATE UNIQUE INDEX IF NOT EXISTS keys ON jobs (caller, key) WHERE key IS NOT NULL AND state != 'void'",
    "CREATE INDEX IF NOT EXISTS ages ON jobs (created)",
    "CREATE INDEX IF NOT EXISTS callers ON jobs (caller, number)",
    "CREATE INDEX IF NOT EXISTS states ON jobs (state)",
    "CREATE INDEX IF NOT EXISTS apps ON jobs (app, number)",
    """CREATE TABLE IF NOT EXISTS events (
    task TEXT NOT NULL, number INTEGER NOT NULL, said TEXT NOT NULL, PRIMARY KEY (task, number))""",
    """CREATE TABLE IF NOT EXISTS retries (
    job TEXT NOT NULL, number INTEGER NOT NULL, task TEXT NOT NULL UNIQUE, PRIMARY KEY (job, number))""",
)
_RETRIES = "SELECT task FROM retries WHERE job = jobs.task ORDER BY number"
_JOBS = f"SELECT *, (SELECT group_concat(task, ' ') FROM ({_RETRIES})) AS retries FROM jobs"


class Ledger:
    """Safe for several threads; one process has it until `close`."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        """`durable`: what is written outlives a power cut, too. Raises ServiceBusy if another process has it."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = _locked(path.with_suffix(".lock"))
        self.database = Database(path, durable=durable)
        self._last: OrderedDict[str, tuple[Job, Task]] = OrderedDict()
        self._sums: dict[tuple[float, str | None], tuple[int, int]] = {}
        for statement in _TABLES:
            self.database.rows(statement)
        if "cut" not in {row["name"] for row in self.database.rows("PRAGMA table_info(jobs)")}:
            self.database.rows("ALTER TABLE jobs ADD COLUMN cut TEXT")  # of earlier versions

    def close(self) -> None:
        """Lets another process have it."""
        self.database.close()
        self._file.close()

    # ---- Asking ----

    def known(self, key: Key) -> Job | None:
        """The job that a key names already. Raises KeyReused if it asks for something else."""
        if key.key is None:
            return None
        query = f"{_JOBS} WHERE caller = ? AND key = ? AND state != 'void'"
        job = next(iter(self._jobs(query, key.caller, key.key)), None)
        if job is not None and job.key.fingerprint != key.fingerprint:
            raise KeyReused(
                f"the Idempotency-Key {key.key!r} was used for another request: task {job.task}",
                fix="Send the same request again, or choose a new key.",
            )
        return job

    def add(self, job: Job, response: Task, *budgets: tuple[Budget, str | None], then: Sequence[Task] = ()) -> Job:
        """Writes a job, its first event and those that followed already, or finds the job that its key names.

        Raises KeyReused, and what `check` raises.
        """
        with self.database.lock:
            with self.database.together():
                if (known := self.known(job.key)) is not None:
                    return known
                self.check(job.escrow, job.created, *budgets)
                self.database.rows(
                    "INSERT INTO jobs (task, caller, key, fingerprint, app, created, posted, escrow, state, cost, "
                    "problem, outputs, cut) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    job.task, job.key.caller, job.key.key, job.key.fingerprint, job.app, job.created,
                    json.dumps(job.posted), str(job.escrow), *_known(job.state, job.cost, job.problem, job.outputs),
                    json.dumps(job.cut.to_json()) if job.cut else None,
                )  # fmt: skip
                events = [(job.task, number, json.dumps(one)) for number, one in enumerate((response, *then), start=1)]
                places = ", ".join(["(?, ?, ?)"] * len(events))
                self.database.rows(f"INSERT INTO events VALUES {places}", *chain.from_iterable(events))
            self._remember(job, [response, *then][-1])
            self._count(job, job.reckoned, 1)
        return job

    def expect(self, task: str, escrow: int, *budgets: tuple[Budget, str | None]) -> Job:
        """Writes that a job which has not ended may cost so many wei. Raises what `check` raises."""
        with self.database.lock:
            job = self.job(task)
            self.check(escrow - job.escrow, job.created, *budgets)
            self.database.rows("UPDATE jobs SET escrow = ? WHERE task = ?", str(escrow), job.task)
            self._remember(after := replace(job, escrow=escrow), self.last(task))
            self._count(job, escrow - job.escrow)
        return after

    def spent(self, since: float = 0, app: str | None = None) -> int:
        """What jobs cost that were asked for since a time, or may still cost: wei. By one app alone, if it is named."""
        return self._sum(since, app)[0]

    def _sum(self, since: float, app: str | None) -> tuple[int, int]:
        """Wei of the jobs since a time, and how many they are. Reckoned once: then each job is counted as it comes."""
        with self.database.lock:
            if (since, app) not in self._sums:
                query = "SELECT escrow, cost FROM jobs WHERE created >= ? AND (? IS NULL OR app = ?)"
                rows = self.database.rows(query, since, app, app)
                wei = sum(int(row["escrow"] if row["cost"] is None else row["cost"]) for row in rows)
                if len(self._sums) >= _SUMS:
                    self._sums.clear()
                self._sums[since, app] = wei, len(rows)
            return self._sums[since, app]

    def _count(self, job: Job, wei: int, jobs: int = 0) -> None:
        """Counts so many wei, and jobs, more for a job; holding the lock."""
        for (since, app), (sum_, number) in self._sums.items():
            if job.created >= since and app in (None, job.app):
                self._sums[since, app] = sum_ + wei, number + jobs

    def check(self, escrow: int, created: float, *budgets: tuple[Budget, str | None]) -> None:
        """Each budget is for one app, or (None) for all jobs. Raises BudgetSpent if one does not allow a job of such an
        escrow, ServiceBusy if there were too many jobs today."""
        since = created - created % DAY
        for budget, app in budgets:
            of = f" of app {app}" if app else ""
            for limit, start, word in ((budget.day, since, "of today"), (budget.total, 0, "in all")):
                if limit is not None and (spent := self.spent(start, app)) + escrow > limit:
                    raise BudgetSpent(limit, spent, escrow, word + of)
            if budget.tasks is not None and self._sum(since, app)[1] >= budget.tasks:
                raise ServiceBusy(
                    f"{budget.tasks} tasks{of} were asked for today (UTC): no more may be", fix="Ask again tomorrow."
                )

    # ---- Telling ----

    def record(
        self,
        task: str,
        response: Task,
        *,
        state: State | None = None,
        cost: int | None = None,
        problem: dict[str, Any] | None = None,
        outputs: str | None = None,
    ) -> None:
        """Adds an event to a job, and what else is known of it now."""
        with self.database.lock:
            before = self._jobs(f"{_JOBS} WHERE task = ?", task) if cost is not None else []
            with self.database.together():
                self._append(task, response)
                self.database.rows(
                    "UPDATE jobs SET state = coalesce(?, state), cost = coalesce(?, cost), "
                    "problem = coalesce(?, problem), outputs = coalesce(?, outputs) WHERE task = ?",
                    *(*_known(state, cost, problem, outputs), task),
                )
            for job in before:
                self._count(job, (cost or 0) - job.reckoned)
            for job in self._jobs(f"{_JOBS} WHERE task = ?", task):
                self._remember(job, response)

    def retry(self, job: Job, ended: Task, asked: Task) -> bool:
        """Writes that a job is asked for again, by the order that it has now under the last uuid of its `retries`, and
        the events of both tasks: how the one before ended, and that this one is asked for.

        False, and nothing is written, unless the one before is what is under way: somebody else was faster.
        """
        with self.database.lock:
            before = self.job(job.task)
            if before.retries != job.retries[:-1] or before.is_over:
                return False
            with self.database.together():
                self.database.rows("INSERT INTO retries VALUES (?, ?, ?)", job.task, len(job.retries), job.current)
                self.database.rows(
                    "UPDATE jobs SET posted = ?, state = ? WHERE task = ?",
                    *(json.dumps(job.posted), State.ASKED, job.task),
                )
                for response in (ended, asked):
                    self._append(job.task, response)
            self._remember(replace(job, state=State.ASKED), asked)
        return True

    def _append(self, task: str, response: Task) -> None:
        self.database.rows(
            "INSERT INTO events SELECT ?, coalesce(max(number), 0) + 1, ? FROM events WHERE task = ?",
            *(task, json.dumps(response), task),
        )

    # ---- What there is ----

    def job(self, task: str) -> Job:
        """The job of a task, the first or another one. Raises TaskNotFound."""
        if (remembered := self._last.get(task)) is not None:
            return remembered[0]
        query = f"{_JOBS} WHERE task = coalesce((SELECT job FROM retries WHERE task = ?), ?)"
        for job in self._jobs(query, task, task):
            return job
        raise TaskNotFound(f"this service has asked for no task {task}")

    def jobs(
        self, caller: str = "", before: int | None = None, limit: int = 50, *, app: str | None = None,
        states: Sequence[State] = tuple(State),
    ) -> list[tuple[int, Job]]:  # fmt: skip
        """A caller's jobs with their numbers, newest first; everybody's for the caller without a name. `before` is the
        number of the last one of the page before; `app` and `states` leave others out."""
        wanted: list[tuple[str, list[object]]] = [("number < ?", [before or 1 << 62])]
        if caller:
            wanted.append(("caller = ?", [caller]))
        if app is not None:
            wanted.append(("app = ?", [app]))
        if set(states) != set(State):
            wanted.append((f"state IN ({', '.join('?' * len(states))})", [*states]))
        where = " AND ".join(clause for clause, _ in wanted)
        values = [value for _, some in wanted for value in some]
        rows = self.database.rows(f"{_JOBS} WHERE {where} ORDER BY number DESC LIMIT ?", *values, limit)
        return [(row["number"], _job(row)) for row in rows]

    def unfinished(self) -> list[Job]:
        """Jobs that have not ended, oldest first."""
        return self._jobs(f"{_JOBS} WHERE state IN ('asked', 'open') ORDER BY number")

    def events(self, task: str, after: int = 0) -> list[Event]:
        """What happened to a task after event `after`, in order."""
        query = "SELECT number, said FROM events WHERE task = ? AND number > ? ORDER BY number"
        return [Event(row["number"], json.loads(row["said"])) for row in self.database.rows(query, task, after)]

    def last(self, task: str) -> Task:
        """The task as its last event tells it. Raises TaskNotFound."""
        if (remembered := self._last.get(task)) is not None:
            return remembered[1]
        query = "SELECT said FROM events WHERE task = ? ORDER BY number DESC LIMIT 1"
        for row in self.database.rows(query, task):
            response: Task = json.loads(row["said"])
            return response
        raise TaskNotFound(f"this service has asked for no task {task}")

    def counts(self) -> dict[str, int]:
        """How many jobs are in which state."""
        counted = dict(map(tuple, self.database.rows("SELECT state, count(*) FROM jobs GROUP BY state")))
        return {state.value: counted.get(state.value, 0) for state in State}

    # ---- What is forgotten ----

    def forget(self, before: float, *, jobs: bool) -> None:
        """Of what ended and was asked for before a time: all events but the last; with `jobs` everything, of some
        jobs at a time."""
        old = "SELECT task FROM jobs INDEXED BY ages WHERE created < ? AND state IN ('ended', 'void')"
        is_last = "number = (SELECT max(number) FROM events last WHERE last.task = events.task)"
        with self.database.lock, self.database.together():
            if jobs:
                old += f" ORDER BY created LIMIT {_FORGOTTEN}"
                for row in self.database.rows(old, before):
                    self._last.pop(row["task"], None)
                self.database.rows(f"DELETE FROM events WHERE task IN ({old})", before)
                self.database.rows(f"DELETE FROM retries WHERE job IN ({old})", before)
                self.database.rows(f"DELETE FROM jobs WHERE task IN ({old})", before)
                self._sums.clear()
            else:
                self.database.rows(f"DELETE FROM events WHERE task IN ({old}) AND NOT {is_last}", before)

    def _remember(self, job: Job, response: Task) -> None:
        self._last[job.task] = job, response
        self._last.move_to_end(job.task)
        while len(self._last) > _REMEMBERED:
            self._last.popitem(last=False)

    def _jobs(self, query: str, *values: object) -> list[Job]:
        return [_job(row) for row in self.database.rows(query, *values)]


def now() -> float:
    """Seconds since 1970, by which days of a budget are counted."""
    return time.time()


def _known(
    state: State | None, cost: int | None, problem: dict[str, Any] | None, outputs: str | None
) -> tuple[str | None, ...]:
    return state, None if cost is None else str(cost), json.dumps(problem) if problem else None, outputs


def _job(row: sqlite3.Row) -> Job:
    return Job(
        task=row["task"],
        key=Key(row["caller"], row["fingerprint"], row["key"]),
        app=row["app"],
        created=row["created"],
        posted=json.loads(row["posted"]),
        escrow=int(row["escrow"]),
        cost=None if row["cost"] is None else int(row["cost"]),
        state=State(row["state"]),
        problem=row["problem"] and json.loads(row["problem"]),
        outputs=row["outputs"],
        cut=Cut.from_json(json.loads(row["cut"])) if row["cut"] else None,
        retries=tuple((row["retries"] or "").split()),
    )


def _locked(path: Path) -> BinaryIO:
    file = path.open("ab")
    try:
        system.lock(file.fileno())
    except BlockingIOError:
        file.close()
        raise ServiceBusy(
            f"another process serves from {path.parent}", fix="End it, or name another folder with --data."
        ) from None
    return file
