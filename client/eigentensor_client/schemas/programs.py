"""Programs, and the machine that is to execute them."""

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from eigentensor.planner.measure import CallCost
from eigentensor.program.cost import Cost
from eigentensor.runtime.doctor import Finding
from eigentensor.runtime.tuning.tuner import Line
from eigentensor.texts import Name, Size, documented
from eigentensor.wire import Json

Role = Literal["input", "weight", "state", "constant", "output", "new state"]


@documented
class ProgramTensor(TypedDict):
    """A tensor that a program takes or gives."""

    role: Role
    """What it is for."""
    name: str
    """Its name."""
    dtype: str
    """float32, int32, bool, …"""
    shape: list[Size]
    """Its extents, outermost first."""


@documented
class Range(TypedDict):
    """Values that a variable may have."""

    minimum: int
    """The least."""
    maximum: int
    """The greatest."""


@documented
class Program(TypedDict):
    """`eigentensor.program/1`: what a program takes, gives and costs."""

    schema: Literal["eigentensor.program/1"]
    """Says what this object is."""
    uuid: Name
    """The program root."""
    bytes: Size
    """The size of its file."""
    semantics: int
    """The version of the numerical semantics that it is of."""
    max_repeat: int
    """How often an order may repeat it."""
    variables: dict[str, Range]
    """What its variables may be, by their names."""
    tensors: list[ProgramTensor]
    """What it takes, then what it gives."""
    cost: Annotated[dict[str, Any], Json(Cost)]
    """What one iteration takes."""
    files: NotRequired[list[str]]
    """The files that were written."""


@documented
class OptimisedProgram(TypedDict):
    """A program for the whole graph."""

    uuid: Name
    """The program root."""
    seconds: float
    """How long a run takes."""
    max_relative_error: float
    """Its largest relative error against float64 on the sample."""
    calls: list[Annotated[dict[str, Any], Json(CallCost)]]
    """Its calls, in order."""


@documented
class OptimisedPath(TypedDict):
    """A way to compute a block."""

    rules: list[str]
    """The rewrites that lead to it; none: as the graph is."""
    seconds: float
    """How long it takes."""
    measured: bool
    """Whether that was measured; else it is estimated."""
    max_relative_error: float | None
    """Its largest relative error against float64 on the sample; null where it was not executed."""
    verdict: str
    """`chosen`, or why not, in words."""


@documented
class OptimisedBlock(TypedDict):
    """A part of the graph that is planned by itself."""

    places: int
    """How often it is in the graph."""
    paths: list[OptimisedPath]
    """The ways to compute it, as it is first."""


@documented
class Optimised(TypedDict):
    """`eigentensor.optimised/2`: the fastest program that is exact enough, and what else there was."""

    schema: Literal["eigentensor.optimised/2"]
    """Says what this object is."""
    chosen: OptimisedProgram
    """What was written."""
    original: OptimisedProgram
    """The graph as it is."""
    blocks: list[OptimisedBlock]
    """The parts that were planned."""
    planning_seconds: float
    """How long it took to plan."""
    checking_seconds: float
    """How long it took to hold the whole to float64."""
    device: str
    """The device that it is for, by tinygrad's name."""
    tolerance: float
    """The largest relative error that was allowed."""
    files: list[str]
    """The files that were written."""


@documented
class Tuning(TypedDict):
    """`eigentensor.tuning/1`: which schedules run a program fastest here."""

    schema: Literal["eigentensor.tuning/1"]
    """Says what this object is."""
    device: str
    """The device, by tinygrad's name."""
    bodies: list[Annotated[dict[str, Any], Json(Line)]]
    """The program's bodies, as far as they were measured."""
    heuristic_seconds: float
    """All calls with the schedules that are taken unmeasured."""
    best_seconds: float
    """All calls with the best schedules."""
    database: str
    """The file that remembers them."""
    measurements: int
    """How many measurements it has."""


@documented
class Doctor(TypedDict):
    """`eigentensor.doctor/1`: whether this machine can execute programs."""

    schema: Literal["eigentensor.doctor/1"]
    """Says what this object is."""
    admitted: list[str]
    """The devices that compute as the reference does."""
    findings: list[Annotated[dict[str, Any], Json(Finding)]]
    """Everything that was looked at."""
