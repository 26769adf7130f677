"""Which schedule a body gets: the best that was measured, or what the times of its like make expect."""

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from eigentensor.errors import ConfigError
from eigentensor.program.model import Body
from eigentensor.runtime.bodies.analysis import Analysis
from eigentensor.runtime.build.database import Database, Platform, Time
from eigentensor.runtime.build.model import LEAST, Vector, fit
from eigentensor.runtime.build.names import structure
from eigentensor.system import is_own

S = TypeVar("S")  #: how a body is spread over a device
GAIN = 0.97  #: of the heuristic's time: what is hardly faster is not worth another kernel
Measured = tuple[Body, Sequence[Time]]
NEIGHBOURS = 48  #: bodies of the same structure, those nearest in extents, that an estimate is made from


class Schedules(Protocol[S]):
    """The schedules of a device, as `compilers.Build` knows them."""

    @property
    def platform(self) -> Platform:
        """Where measured times hold."""

    def candidates(self, body: Body) -> list[S]:
        """Schedules that may be estimated, the heuristic's first."""

    def parse(self, text: str) -> S:
        """The schedule of a text of the database. Raises ValueError."""

    def features(self, body: Body, schedules: Sequence[S]) -> NDArray[np.float64]:
        """What the model knows of each schedule, a row of numbers."""


@lru_cache(maxsize=4096)
def tuned(path: Path, build: Schedules[S], body: Body) -> S | None:
    """What the database at `path` knows to be better than the heuristic; decided once in a process for each body."""
    try:
        status = path.stat()
        if not is_own(status):  # who could write it could have kernels go astray
            return None
        with Database(path) as database:
            return decide(database, build, body)
    except (ConfigError, sqlite3.Error, OSError):  # without times everything runs, too
        return None


def decide(database: Database, build: Schedules[S], body: Body) -> S | None:
    """The best measured schedule; of a body that was not measured, the best by the model of its structure; or None.

    An estimate is kept in the database until something of the structure is measured.
    """
    known = database.times(build.platform, body)
    if not known:
        neighbours = database.measured(build.platform, structure(body))
        if sum(len(times) for _, times in neighbours) < LEAST:
            return None
        known = [estimate(build, body, neighbours)]
        database.record(build.platform, body, known)
    best = known[0]
    ours = next((time.seconds for time in known if time.heuristic), None)
    if best.heuristic or (ours is not None and best.seconds > GAIN * ours):
        return None
    return build.parse(best.schedule)


def estimate(build: Schedules[S], body: Body, neighbours: Sequence[Measured]) -> Time:
    """The schedule that takes least by what its neighbours took; the heuristic's unless it gains more than the model
    errs."""
    possible = build.candidates(body)
    logs, deviation = log_seconds(build, body, possible, neighbours)
    best = int(logs.argmin())
    if logs[best] + deviation > logs[0]:
        best = 0
    return Time(str(possible[best]), float(np.exp(logs[best])), 0, best == 0)


def log_seconds(
    build: Schedules[S], body: Body, schedules: Sequence[S], neighbours: Sequence[Measured]
) -> tuple[Vector, float]:
    """Logarithms of the seconds that schedules of a body take, by a model of its nearest neighbours, and its error."""
    here = np.log1p(Analysis(body).extents)

    def distance(measured: Measured) -> float:
        return float(np.abs(np.log1p(Analysis(measured[0]).extents) - here).sum())

    near = sorted(neighbours, key=distance)[:NEIGHBOURS]
    rows = [build.features(other, [build.parse(time.schedule) for time in times]) for other, times in near]
    model = fit(np.concatenate(rows), np.array([time.seconds for _, times in near for time in times]))
    return model.log_seconds(build.features(body, schedules)), model.deviation
