"""The process that executes one stranger's program again and again:
`python -m eigentensor.runtime.sandbox.warm_child FOLDER REQUESTS RESPONSES`.

FOLDER holds job.json, the program and its weights; the numbers are of open pipes. A request is a length and a header in
JSON, then the tensors that are not weights, by their numbers, as bytes whose size the program says. A response is one
byte, then what `returned` describes, or the line that `child.report` writes. A first response says that all is ready.
"""

import io
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
from eigentensor.program.model import Buffer, Program, Role
from eigentensor.runtime.compiled import CompiledGraph
from eigentensor.runtime.sandbox import child, confine
from eigentensor.runtime.sandbox.confine import Limits
from eigentensor.runtime.sandbox.returned import Wanted
from eigentensor.store.tensors import load_flat
from eigentensor.threads import start

DONE, FAILED = b"\1", b"\2"
LENGTH = struct.Struct("<I")


def open_buffers(program: Program) -> list[Buffer]:
    """The inputs and states of a program in the order in which a request has them."""
    return [b for b in program.buffers if b.role in (Role.INPUT, Role.STATE)]


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
    compiled = CompiledGraph(
        program, shaped(program, arrays), device=job["device"], threads=limits.threads, cache=Cache(folder / "kernels"),
        toolchain=child.toolchain(job["device"], job["toolchain"]) if job["toolchain"] else None,
        memory_limit=limits.memory,  # a sealed process cannot ask how much there is
    )  # fmt: skip
    _write(responses, DONE)
    while head := requests.read(LENGTH.size):
        call = json.loads(requests.read(*LENGTH.unpack(head)))
        tensors = {b.name: _tensor(requests, b) for b in open_buffers(program)}
        _write(responses, _response(compiled, call, tensors))


def _response(compiled: CompiledGraph, call: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> bytes:
    """What a call gives, or how it failed: another one may still come."""
    results = io.BytesIO()
    back = Wanted(compiled.program, call["repeat"], tuple(call["keep"])).writer(results)
    try:
        bound = tensors, call["variables"], call["repeat"]
        back.finish(compiled.run(*bound, observe=back.observe if call["keep"] else None, only=back.only))
    except (EigenTensorError, MemoryError) as error:
        line = child.described(error)
        return FAILED + LENGTH.pack(len(line)) + line
    return DONE + results.getvalue()


def _tensor(requests: BinaryIO, buffer: Buffer) -> NDArray[Any]:
    data = bytearray(buffer.elements * buffer.dtype.size)
    requests.readinto(data)  # type: ignore[attr-defined]
    return np.frombuffer(data, STORAGE[buffer.dtype]).reshape(buffer.shape)


def _write(responses: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[responses.write(view) :]


if __name__ == "__main__":
    try:
        with open(int(sys.argv[2]), "rb", buffering=1 << 16) as ins, open(int(sys.argv[3]), "wb", buffering=0) as outs:
            main(Path(sys.argv[1]), ins, outs)
    except (EigenTensorError, MemoryError, OSError) as failure:
        child.report(failure)
        os._exit(child.FAILED)
