"""Looking at a cluster: how it stands, as lines and as a screen that goes on."""

import json
from collections.abc import Iterator

from eigentensor.cluster import frames
from eigentensor.cluster.address import Address
from eigentensor.cluster.connection import Connection
from eigentensor.cluster.frames import Frame, Role, Topic
from eigentensor.cluster.log import Entry, parse_entry
from eigentensor.errors import FrameRefused
from eigentensor.wire import read
from eigentensor_cluster.schemas import ClusterStatus, SessionStatus, WorkerStatus
from eigentensor_cluster.tables import table

_MIB = 1 << 20


class Keeper:
    """Who looks after a cluster, with a token of that role or on the cluster's own machine."""

    def __init__(self, address: Address, token: bytes) -> None:
        """Raises ConnectionLost, NotAdmitted."""
        self._connection = Connection(address, Role.KEEPER, token)

    def status(self) -> ClusterStatus:
        """How it stands. Raises ConnectionLost, FrameRefused."""
        self._ask(Topic.STATUS)
        return ClusterStatus(**read(ClusterStatus, json.loads(self._report(self._connection.receive()))))

    def log(self, *, follow: bool = False) -> Iterator[Entry]:
        """The entries of its log that are at hand, and if it is followed those that come. Raises ConnectionLost,
        FrameRefused, BindingError."""
        self._ask(Topic.LOG if follow else Topic.TRACE)
        while line := self._report(self._connection.receive()):
            yield parse_entry(line)

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def _ask(self, topic: Topic) -> None:
        self._connection.send(frames.Watch(topic))
        self._connection.flush()

    def _report(self, frame: Frame) -> str:
        if isinstance(frame, frames.Failed):
            raise frames.error_of(frame)
        if not isinstance(frame, frames.Report):
            raise FrameRefused(1, "the door answers something else")
        return frame.line


def lines(status: ClusterStatus) -> Iterator[str]:
    """How a cluster stands, for people."""
    is_bounded = any(session.allowance is not None for session in status.sessions)
    busy, slots = sum(w.busy for w in status.workers), sum(w.slots for w in status.workers)
    yield status.address
    yield f"up for {_duration(status.seconds)} · {busy} of {slots} slots busy"
    yield from table(
        ("worker", "host", "device", "busy", "runs", "seconds"),
        [
            (w.name, _where(w), w.device, f"{w.busy}/{w.slots}", f"{w.runs:,}", f"{w.seconds:,.1f}")
            for w in status.workers
        ],
    )
    yield from table(
        ("session", "member", "tensors", "MiB", "queued", "runs", "seconds", *(["left of a minute's"] * is_bounded)),
        [
            (
                str(s.session), s.member, f"{s.handles:,}", f"{s.held / _MIB:,.1f}", f"{s.queued + s.under_way:,}",
                f"{s.runs:,}", f"{s.seconds:,.1f}", *([_left(s)] * is_bounded),
            )
            for s in status.sessions
        ],
    )  # fmt: skip
    yield from table(
        ("hot segment", "runs", "seconds", "made, MiB", "moved, MiB"),
        [
            (
                s.program[:8], f"{s.runs:,}", f"{s.seconds:,.1f}", f"{s.made / _MIB:,.1f}", f"{s.moved / _MIB:,.1f}",
            )
            for s in status.segments
        ],
    )  # fmt: skip
    if status.replays:
        yield ""
        yield f"{status.replays:,} runs were executed again, since a worker went away"


def screen(before: ClusterStatus, now: ClusterStatus) -> list[str]:
    """What `top` shows: how it stands, and what happened between two looks."""
    passed = max(now.seconds - before.seconds, 1e-9)
    runs = sum(w.runs for w in now.workers) - sum(w.runs for w in before.workers)
    work = sum(w.seconds for w in now.workers) - sum(w.seconds for w in before.workers)
    slots = sum(w.slots for w in now.workers)
    part = min(1.0, max(0.0, work) / passed / slots) if slots else 0.0
    bar = "█" * round(40 * part)
    return [f"{bar:░<40} {part:4.0%} of {slots} slots · {max(0, runs) / passed:,.0f} runs a second", "", *lines(now)]


def _where(worker: WorkerStatus) -> str:
    return worker.host if worker.node is None else f"{worker.host}, node {worker.node[:8]}"


def _left(session: SessionStatus) -> str:
    if session.allowance is None or session.left is None:
        return "–"
    return f"{session.left:,.1f} of {session.allowance:,g} s"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
