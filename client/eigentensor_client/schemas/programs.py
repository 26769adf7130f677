"""Programs, and the machine that is to execute them."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from eigentensor.texts import Name, Size, documented

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
class Cost(TypedDict):
    """What one iteration takes. Bytes of buffers are counted once each."""

    calls: int
    """Kernel calls."""
    evaluations: int
    """Evaluated operations: the work."""
    input_bytes: Size
    """Bytes of the inputs."""
    weight_bytes: Size
    """Bytes of the weights."""
    state_bytes: Size
    """Bytes of the states."""
    result_bytes: Size
    """Bytes of outputs and new states."""
    all_bytes: Size
    """Bytes of all buffers, what calls write for others included."""
    largest_witness: Size
    """Bytes of the longest step that a referee could have to see."""
    largest_gas: int
    """The gas of the dearest step that a referee could have to compute."""


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
    cost: Cost
    """What one iteration takes."""
    files: NotRequired[list[str]]
    """The files that were written."""


@documented
class OptimisedCall(TypedDict):
    """A call of a program that `optimise` made."""

    body: int
    """Which of the program's bodies it executes."""
    seconds: float
    """How long it takes."""
    measured: bool
    """Whether that was measured; else it is estimated."""


@documented
class OptimisedProgram(TypedDict):
    """A program for the whole graph."""

    uuid: Name
    """The program root."""
    seconds: float
    """How long a run takes."""
    max_relative_error: float
    """Its largest relative error against float64 on the sample."""
    calls: list[OptimisedCall]
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
    """`eigentensor.optimised/1`: the fastest program that is exact enough, and what else there was."""

    schema: Literal["eigentensor.optimised/1"]
    """Says what this object is."""
    chosen: OptimisedProgram
    """What was written."""
    given: OptimisedProgram
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
class TunedBody(TypedDict):
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


@documented
class Tuning(TypedDict):
    """`eigentensor.tuning/1`: which schedules run a program fastest here."""

    schema: Literal["eigentensor.tuning/1"]
    """Says what this object is."""
    device: str
    """The device, by tinygrad's name."""
    bodies: list[TunedBody]
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
class Finding(TypedDict):
    """Something that was looked at."""

    what: str
    """Its kind: device, program, …"""
    name: str
    """Which one."""
    state: Literal["ok", "refused", "absent"]
    """Whether it can be used."""
    says: str
    """What was found, in words."""
    fix: str
    """What to do; empty where there is nothing to do."""


@documented
class Doctor(TypedDict):
    """`eigentensor.doctor/1`: whether this machine can execute programs."""

    schema: Literal["eigentensor.doctor/1"]
    """Says what this object is."""
    admitted: list[str]
    """The devices that compute as the reference does."""
    findings: list[Finding]
    """Everything that was looked at."""
