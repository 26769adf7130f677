"""The process that executes one stranger's program again and again:
`python -m eigentensor.runtime.sandbox.warm_child FOLDER REQUESTS RESPONSES`.

FOLDER holds job.json, the program and its weights; the numbers are of open pipes. A request is a length and a header in
JSON, then for each of its calls the tensors that are not weights, by their numbers, as bytes whose size the program
says. Each call has a response, in order: one byte, then what `returned` describes, or a length and the line that
`child.described` makes. A first response says that all is ready.
"""

import json
import os
import struct
import sys
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from eigentensor.cache import Cache
from eigentensor.errors import EigenTensorError
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.binding import shaped
from eigentensor.program.codec import decode
from eigentensor.program.model import Program
from eigentensor.program.widened import widened
from eigentensor.runtime.compiled import CompiledGraph
from eigentensor.runtime.sandbox import child, confine
from eigentensor.runtime.sandbox.confine import Limits
from eigentensor.runtime.sandbox.together import Together, open_buffers
from eigentensor.store.tensors import load_flat
from eigentensor.threads import start

DONE, FAILED = b"\1", b"\2"
LENGTH = struct.Struct("<I")


def main(folder: Path, requests: BinaryIO, responses: BinaryIO) -> None:
    """The child's whole life: limits, the weights, no more files, then call after call until the pipe ends."""
    confine.tie()
    job = json.loads((folder / "job.json").read_text())
    limits = Limits(**job["limits"])
    confine.limit(limits, job["file_bytes"])
    program_bytes = (folder / "program").read_bytes()
    arrays = child.read_files(load_flat, [folder / name for name in job["tensors"]])
    start(limits.threads)
    if job["sealed"]:
        confine.seal()
    program = decode(program_bytes)
    weights = shaped(program, arrays)
    toolchain = child.toolchain(job["device"], job["toolchain"]) if job["toolchain"] else None

    def compiled(width: int) -> CompiledGraph:
        return CompiledGraph(
            program if width == 1 else widened(program, width), weights, device=job["device"], threads=limits.threads,
            cache=Cache(folder / "kernels"), toolchain=toolchain,
            memory_limit=limits.memory,  # a sealed process cannot ask how much there is
        )  # fmt: skip

    together = Together({width: compiled(width) for width in (1, *job["widths"])})
    responses.write(DONE)
    responses.flush()
    while head := requests.read(LENGTH.size):
        asked = json.loads(requests.read(*LENGTH.unpack(head)))
        calls = stacked(requests, program, len(asked["keep"]))
        for outcome in together.run(calls, asked["variables"], asked["repeat"], asked["keep"]):
            responses.write(failed(outcome) if isinstance(outcome, BaseException) else DONE + outcome)
        responses.flush()


def failed(error: BaseException) -> bytes:
    """The response that says how a call failed: others may still come."""
    line = child.described(error)
    return FAILED + LENGTH.pack(len(line)) + line


def stacked(requests: BinaryIO, program: Program, count: int) -> dict[str, NDArray[Any]]:
    """The inputs and states of so many calls, one after the other along the first axis."""
    opened = open_buffers(program)
    memory = [np.empty((count, b.elements * b.dtype.size), np.uint8) for b in opened]
    for call in range(count):
        for rows in memory:
            requests.readinto(rows[call].data)  # type: ignore[attr-defined]
    return {
        b.name: rows.view(STORAGE[b.dtype]).reshape(count, *b.shape) for b, rows in zip(opened, memory, strict=True)
    }


if __name__ == "__main__":
    try:
        with (
            open(int(sys.argv[2]), "rb", buffering=1 << 16) as ins,
            open(int(sys.argv[3]), "wb", buffering=1 << 16) as outs,
        ):
            main(Path(sys.argv[1]), ins, outs)
    except (EigenTensorError, MemoryError, OSError) as failure:
        child.report(failure)
        os._exit(child.FAILED)
