"""The log of instructions, as they are sent: the lines of a cluster's log, written by the process that records them."""

import os
from collections.abc import Sequence
from math import prod
from typing import Any

from eigentensor.cluster.local import LocalSession
from eigentensor.cluster.log import Event, Log
from eigentensor.cluster.session import Session
from eigentensor.sharding.layout import Place
from eigentensor.stream.operations import Kind
from eigentensor.stream.segment import INPUT, Key, Segment


class InstructionLog:
    """Writes the instructions of each segment to a file, then the segment itself, and once where its calls are, if that
    is on workers of this process."""

    def __init__(self, path: str, session: Session) -> None:
        """Raises ConfigError where the file cannot be written."""
        self._log, self._session = Log(path), session
        self._client = f"CLIENT {os.getpid()}"
        self._planned: set[tuple[bytes, tuple[Place, ...]]] = set()
        self._log.record(Event.CONNECT, self._client, "session")

    def __call__(self, root: bytes, key: Key, segment: Segment) -> None:
        for number, entry in enumerate(key.entries):
            if entry[0] is not INPUT:
                self._instruction(number, *entry)
        results = {"inputs": len(segment.inputs), "outputs": len(segment.outputs)}
        self._log.record(Event.WORKER_SEND, "WORKER 0", "RUN", None, root=root.hex(), **results)
        places = self._session.places(root) if isinstance(self._session, LocalSession) else ()
        if (root, places) not in self._planned:
            self._planned.add((root, places))
            for call, place in enumerate(places):
                self._place(root, call, place, segment.signals.get(call))

    def _instruction(self, number: int, op: str, arg: Any, kind: Kind, signal: str | None, *operands: int) -> None:
        detail: dict[str, object] = {"result": number, "op": op, "shape": ",".join(map(str, kind.shape))}
        detail |= dict(zip(("left", "right", "third"), operands, strict=False))
        detail |= {} if arg is None else {"arg": arg}
        detail |= {} if signal is None else {"signal": signal}
        size = prod(kind.shape) * kind.dtype.size
        self._log.record(Event.RECV, self._client, _word(operands), size, **detail)

    def _place(self, root: bytes, call: int, place: Place, signal: str | None) -> None:
        detail: dict[str, object] = {"root": root.hex(), "axis": place.axis, "everywhere": place.everywhere}
        detail |= {} if signal is None else {"signal": signal}
        self._log.record(Event.PLAN, f"WORKER {','.join(map(str, place.workers))}", f"call {call}", None, **detail)


def _word(operands: Sequence[int]) -> str:
    return {0: "CreateTensor", 1: "UnaryOp", 2: "BinaryOp"}.get(len(operands), "Op")
