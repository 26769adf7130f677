"""What a service asked for: a job each, with the events that tell what became of it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from eigentensor.schemas.tasks import Task


class State(StrEnum):
    """Of a job. `asked`: written, perhaps sent; `void`: it never became a task, and costs nothing."""

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
    """A task that this service asked for.

    `posted` is its order, where there is a chain; `escrow` is what it may cost in wei, `cost` what it did, when that is
    known. `outputs` names the blob of what was executed here; `problem` says why there will be none.
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


@dataclass(frozen=True, slots=True)
class Event:
    """Numbered from 1 within its task; `said` is the task as it stood then."""

    number: int
    said: Task


@dataclass(frozen=True, slots=True)
class Budget:
    """Wei that a day (UTC) and all days together may cost, and how many tasks a day may have; None is no limit."""

    day: int | None = None
    total: int | None = None
    tasks: int | None = None
