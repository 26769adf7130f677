"""Tuning a program: the time is spent where the program spends its own, and everything measured is kept at once."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic

from eigentensor.cache import Cache
from eigentensor.program.model import Body, Program
from eigentensor.program.text import shape
from eigentensor.runtime.build.compilers import Build
from eigentensor.runtime.build.database import Database, Time
from eigentensor.runtime.build.decide import S
from eigentensor.runtime.tuning.measure import Arena, Contender
from eigentensor.wire import Object

GROUP = 8  #: schedules that are compiled and then race together
FIRST = 3  #: rounds in which every body is timed before any is tuned

#: Hears what is done now, and how far it is of how much: seconds here, paths in the planner.
Progress = Callable[[str, float, float], None]


@dataclass(frozen=True, slots=True)
class Line(Object):
    """What is known of a body of a program."""

    body: int
    """Counts the bodies."""
    calls: int
    """How many of the program's calls execute it."""
    shape: str
    """The shape of what it writes."""
    heuristic_seconds: float
    """A call with the schedule that is taken unmeasured."""
    best_seconds: float
    """A call with the best schedule that was measured."""
    schedule: str
    """That schedule, in words."""
    tried: int
    """How many schedules were measured."""
    possible: int
    """How many there are."""

    @property
    def ratio(self) -> float:
        """How many times as fast as the heuristic's the best schedule is."""
        return self.heuristic_seconds / self.best_seconds


class Tuner(Generic[S]):
    """One program on one device. What the database knows already is not measured again."""

    def __init__(self, program: Program, toolchain: Build[S], cache: Cache, database: Database) -> None:
        self.program, self.cache, self.database = program, cache, database
        self.toolchain: Build[S] = toolchain
        self.calls = Counter(call.body for call in program.calls)
        self.numbers = [n for n, body in enumerate(program.bodies) if body.parameters[0].elements]

    def run(self, seconds: float, progress: Progress = lambda *_: None) -> None:
        """Measures for so long, or until everything is measured. May be interrupted, and run again later."""
        start = time.monotonic()
        end = start + seconds
        for place, number in enumerate(self.numbers, 1):
            progress(f"body {number}: as it is, {place} of {len(self.numbers)}", time.monotonic() - start, seconds)
            body = self.program.bodies[number]
            if not self._known(body):
                arena = Arena(body, self.toolchain, self.cache)
                arena.race([], rounds=FIRST)
                self._record(arena, [])
        left = {line.body: line.calls * line.heuristic_seconds for line in self.lines()}
        for number in sorted(left, key=lambda n: -left[n]):
            now = time.monotonic()
            if now >= end:
                break
            share = (end - now) * left[number] / sum(left.values())
            del left[number]
            for done, all_of_them in self._tune(self.program.bodies[number], now + share):
                progress(f"body {number}: {done} of {all_of_them} schedules", time.monotonic() - start, seconds)

    def lines(self) -> list[Line]:
        """What the database knows of the program's bodies, those first that take longest."""
        lines = []
        for number in self.numbers:
            body = self.program.bodies[number]
            known = self._known(body)
            usual = next((t for t in known.values() if t.heuristic), None)
            if usual is None:
                continue
            best = min(known.values(), key=lambda t: t.seconds)
            possible = len(self.toolchain.candidates(body))
            times = usual.seconds, best.seconds, best.schedule
            lines.append(Line(number, self.calls[number], shape(body), *times, len(known), possible))
        return sorted(lines, key=lambda line: -line.calls * line.heuristic_seconds)

    def _known(self, body: Body) -> dict[str, Time]:
        times = self.database.times(self.toolchain.platform, body)
        return {t.schedule: t for t in times if t.samples}

    def _tune(self, body: Body, deadline: float) -> Iterator[tuple[int, int]]:
        possible = [s for s in self.toolchain.candidates(body) if str(s) not in self._known(body)]
        if not possible:
            return
        arena = Arena(body, self.toolchain, self.cache)
        for first in range(0, len(possible), GROUP):
            if first and time.monotonic() > deadline:
                break
            yield first, len(possible)
            group = arena.contend(possible[first : first + GROUP])
            arena.race(group)
            self._record(arena, group)

    def _record(self, arena: Arena[S], contenders: list[Contender]) -> None:
        """All times of a body are on the scale of the heuristic's first: what else the machine does, disturbs both."""
        known = self._known(arena.body)
        usual = next((t for t in known.values() if t.heuristic), None)
        if usual is None:
            text = str(self.toolchain.heuristic(arena.body))
            usual = Time(text, arena.seconds, len(arena.samples), True)
        times = [Time(str(c.schedule), c.ratio * usual.seconds, len(c.ratios), False) for c in contenders]
        times.append(usual)
        self.database.record(self.toolchain.platform, arena.body, times)
