"""The JSON objects that `eigentensor cluster` prints."""

from dataclasses import dataclass
from typing import Annotated

from eigentensor.wire import OPTIONAL, Name, Object, Size, word


@dataclass(frozen=True, slots=True)
class WorkerStatus(Object):
    """A worker of a cluster, and what it does."""

    name: str
    """The cluster's name for it."""
    host: str
    """The machine that it says it is on."""
    device: str
    """The device that executes programs there."""
    slots: Size
    """Programs that it executes at a time."""
    busy: Size
    """Slots that execute one now."""
    runs: Size
    """Programs that it has executed so far."""
    seconds: float
    """Seconds of its slots that took."""
    node: str | None = None
    """The node of Ray that it is on; null if Ray did not start it."""


@dataclass(frozen=True, slots=True)
class ClusterResult(Object):
    """A tensor that a program gave."""

    name: str
    """Its name in the program."""
    dtype: str
    """Its type."""
    shape: tuple[Size, ...]
    """Its extents."""


@dataclass(frozen=True, slots=True)
class ClusterRun(Object, schema="eigentensor.cluster-run/1"):
    """`eigentensor.cluster-run/1`: what a cluster executed."""

    program: Name
    """The root of the program as it was executed: weights and states are inputs, new states are outputs."""
    file: Annotated[str | None, OPTIONAL]
    """Where the results were written, if they were."""
    results: tuple[ClusterResult, ...]
    """Its outputs, and new states."""


@dataclass(frozen=True, slots=True)
class TracedInstruction(Object):
    """What a log tells of an instruction. Times are seconds since the log began."""

    number: Size
    """The number of its frame in its session."""
    what: str
    """Its kind, such as `RUN` or `PUT`; empty where the log begins later."""
    state: Annotated[str, word("done", "failed", "runs", "waits")]
    """What became of it."""
    workers: tuple[str, ...]
    """Who executed it, or does."""
    times: Size
    """How often it was begun: more than once after workers went away."""
    moved: Size
    """Bytes that its workers sent each other."""
    program: Annotated[str | None, OPTIONAL] = None
    """First digits of the root of the program that it runs."""
    came: Annotated[float | None, OPTIONAL] = None
    """When it came."""
    begun: Annotated[float | None, OPTIONAL] = None
    """When it went to a worker first."""
    ended: Annotated[float | None, OPTIONAL] = None
    """When it was executed, answered or failed."""
    size: Annotated[Size | None, OPTIONAL] = None
    """Bytes that came with it, that it was answered with, or of its results."""
    error: Annotated[str | None, OPTIONAL] = None
    """Why it failed."""


@dataclass(frozen=True, slots=True)
class ClusterTrace(Object, schema="eigentensor.cluster-trace/1"):
    """`eigentensor.cluster-trace/1`: what became of a session's instructions."""

    session: Size
    """Its number."""
    instructions: tuple[TracedInstruction, ...]
    """Those that the log tells of, by number."""
    member: Annotated[str | None, OPTIONAL] = None
    """Whose token opened it, where the log has its beginning."""


@dataclass(frozen=True, slots=True)
class SessionStatus(Object):
    """A client's session at a cluster."""

    session: Size
    """Its number."""
    member: str
    """Whose token opened it."""
    handles: Size
    """Tensors that it holds."""
    held: Size
    """Bytes of these."""
    queued: Size
    """Runs that wait."""
    under_way: Size
    """Runs that are executed now."""
    runs: Size
    """Runs that were executed so far."""
    seconds: float
    """Seconds of slots that took."""
    balance: float
    """Seconds of slots that it may take before others; below zero: it has taken more."""
    allowance: Annotated[float | None, OPTIONAL] = None
    """Seconds of slots that its member may take in a minute, if that is bounded."""
    left: Annotated[float | None, OPTIONAL] = None
    """Those of them that its member may take now; below zero: it has taken more, and its runs wait."""


@dataclass(frozen=True, slots=True)
class SegmentStatus(Object):
    """A program, and what its runs took since the cluster is up."""

    program: Name
    """Its root."""
    runs: Size
    """Runs that were executed."""
    seconds: float
    """Seconds of slots that took."""
    made: Size
    """Bytes of their results."""
    moved: Size
    """Bytes of boxes that slots sent each other for them."""


@dataclass(frozen=True, slots=True)
class ClusterStatus(Object, schema="eigentensor.cluster/1"):
    """`eigentensor.cluster/1`: how a cluster stands."""

    address: str
    """Where its door is, for others; for this user alone if it begins with unix."""
    process: Size
    """The number of its process on its machine."""
    seconds: float
    """Since when it is up."""
    trusts: bool
    """Whether its own slots execute programs without a sandbox."""
    replays: Size
    """Runs that were executed again, since a worker went away with what they had made."""
    workers: tuple[WorkerStatus, ...]
    """Those that are there."""
    sessions: tuple[SessionStatus, ...]
    """Those that are there, also of clients that may come back."""
    segments: tuple[SegmentStatus, ...] = ()
    """The programs that took most, the first one most."""
