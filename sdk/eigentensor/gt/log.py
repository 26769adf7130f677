"""The log of instructions, as they are sent: the lines of a cluster's log, written by the process that records them."""

import os
from collections.abc import Callable
from importlib import import_module
from math import prod
from typing import Any

from eigentensor.stream.segment import INPUT, Key, Segment

#: By name: the library needs no cluster, and who has a log of instructions has one.
LOG = "eigentensor_cluster.log"


def instruction_log(path: str) -> Callable[[bytes, Key, Segment], None]:
    """What writes the instructions of each segment to a file, and the segment itself. Raises ConfigError where the file
    cannot be written."""
    module: Any = import_module(LOG)
    log = module.Log(path)
    client, worker = f"CLIENT {os.getpid()}", "WORKER 0"
    log.record(module.Event.CONNECT, client, "session")

    def write(root: bytes, key: Key, segment: Segment) -> None:
        for place, entry in enumerate(key.entries):
            if entry[0] is INPUT:
                continue
            op, arg, kind, signal, *operands = entry
            detail: dict[str, object] = {"result": place, "op": op, "shape": ",".join(map(str, kind.shape))}
            detail |= dict(zip(("left", "right", "third"), operands, strict=False))
            detail |= {} if arg is None else {"arg": arg}
            detail |= {} if signal is None else {"signal": signal}
            log.record(module.Event.RECV, client, _word(operands), prod(kind.shape) * kind.dtype.size, **detail)
        results = {"inputs": len(segment.inputs), "outputs": len(segment.outputs)}
        log.record(module.Event.WORKER_SEND, worker, "RUN", None, root=root.hex(), **results)

    return write


def _word(operands: list[int]) -> str:
    return {0: "CreateTensor", 1: "UnaryOp", 2: "BinaryOp"}.get(len(operands), "Op")
