"""What the machine is told, and what it asks for: plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from eigentensor import task
from eigentensor.program.cost import Needs
from eigentensor_operator.case import Candidacy, Seal, Step
from eigentensor_operator.policy import Claims, Reason, Standing


class Do(NamedTuple):
    """An action: what, for which task, in which game (0: in none)."""

    step: Step
    task: bytes
    game: int = 0


@dataclass(frozen=True, slots=True)
class RolledBack:
    """Blocks after `block` are not part of the chain any more."""

    block: int


@dataclass(frozen=True, slots=True)
class Head:
    """All events up to `standing.block` have been seen. `deadlines`: what the chain says at the head of own tasks of
    which leaves were demanded."""

    standing: Standing
    deadlines: Mapping[bytes, int] = field(default_factory=dict)
    beside: Claims = field(default_factory=Claims)
    """What batches of paid calls are about to lock of the same stake."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The device's self-test is over; `fault` says why the device is not to be trusted, None: it passed. A fault that
    does not last is over when a later test passes."""

    fault: Reason | None = None


@dataclass(frozen=True, slots=True)
class Inspected:
    """`compile_seconds` are expected of one processor."""

    task: bytes
    needs: Needs
    compile_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Looked:
    """Where the draw placed this operator is known."""

    task: bytes
    candidacy: Candidacy


@dataclass(frozen=True, slots=True)
class Executed:
    """The results are kept, a sample of them was recomputed and agrees."""

    task: bytes
    seal: Seal


@dataclass(frozen=True, slots=True)
class Done:
    """Any other step is done. A transaction is in `block`; 0 where nothing had to be sent."""

    task: bytes
    step: Step
    block: int = 0
    game: int = 0


@dataclass(frozen=True, slots=True)
class Undone:
    """A step failed. A lasting reason ends the task here; otherwise it is tried again, less and less often."""

    task: bytes
    step: Step
    reason: Reason
    game: int = 0


@dataclass(frozen=True, slots=True)
class Drain:
    """Accept nothing more; finish what was accepted."""


Outcome = Inspected | Looked | Executed | Done | Undone
#: What the chain shows, what it takes back, and all that is no fact of the chain.
Event = task.Event | RolledBack | Head | Checked | Outcome | Drain
