"""Other programs for the mathematics of a program, as the planner finds them without a device: made once, one at a
time, in bounded time."""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eigentensor.errors import CaptureError, ExecutionError
from eigentensor.program.model import Program

if TYPE_CHECKING:  # the planner is imported when the first plan is made: it knows the runtime
    from eigentensor.planner.plan import Plan, PlannedBlock
    from eigentensor.planner.search import Candidate

SECONDS = 8.0  #: that a plan may take
_MOST = 256  #: those that were asked for last


@dataclass(frozen=True, slots=True)
class Way:
    """A program for the mathematics of a block: the rules that lead to it, reckoned seconds, its largest relative
    error, None where it was not executed, and why it was taken or was not."""

    rules: str
    seconds: float
    error: float | None
    verdict: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """A part of a program that stands in it `places` times, with the ways to it that are shown."""

    places: int
    ways: tuple[Way, ...]


@dataclass(frozen=True, slots=True)
class Planned:
    """What the planner finds: reckoned seconds of a run of the chosen program, its largest relative error, both beside
    the program's own, and how many times as fast it is. Where nothing is known, `unknown` says why."""

    unknown: str = ""
    parts: tuple[PlannedPart, ...] = ()
    gain: float = 1.0
    seconds: float = 0.0
    own_seconds: float = 0.0
    error: float = 0.0
    own_error: float = 0.0


class Plans:
    """For any threads, one of which plans at a time."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Planned] = OrderedDict()
        self._lock, self._planning = threading.Lock(), threading.Lock()

    def known(self, root: str) -> Planned | None:
        """What was found for the program of a root, if it was looked for."""
        with self._lock:
            return self._known.get(root)

    def of(self, root: str, program: Program) -> Planned | None:
        """What is found for a valid program of a root; None while another one is planned."""
        if (known := self.known(root)) is None:
            if not self._planning.acquire(blocking=False):
                return None
            try:
                known = planned(program)
            finally:
                self._planning.release()
            with self._lock:
                self._known[root] = known
                while len(self._known) > _MOST:
                    self._known.popitem(last=False)
        return known


def planned(program: Program) -> Planned:
    """What the planner finds for a valid program."""
    from eigentensor.planner import whole

    try:
        plan = whole.planned(program, SECONDS)
    except (CaptureError, ExecutionError) as error:
        return Planned(unknown=error.what)
    return told(plan)


def told(plan: "Plan") -> Planned:
    """A plan as a page tells it."""
    chosen, own = plan.chosen, plan.original
    return Planned(
        parts=tuple(
            PlannedPart(len(part.block.places), tuple(_way(candidate, part) for candidate in part.shown()))
            for part in plan.parts
        ),
        gain=plan.gain,
        seconds=chosen.cost.seconds,
        own_seconds=own.cost.seconds,
        error=chosen.error,
        own_error=own.error,
    )


def _way(of: "Candidate", part: "PlannedBlock") -> Way:
    return Way(of.rules, of.cost.seconds, of.error, part.verdict(of), of is part.chosen)
