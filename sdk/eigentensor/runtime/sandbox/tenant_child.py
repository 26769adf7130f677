"""The process that executes the programs of one tenant, as they come:
`python -m eigentensor.runtime.sandbox.tenant_child FOLDER REQUESTS RESPONSES GIVEN LEFT`.

FOLDER holds job.json; the numbers are of open pipes, and of memory that is shared (`shared`). A request is a length and
a header in JSON. `define` names a program by a number, and its bytes follow, as many as `bytes`; `run` names one, with
values of variables, and says where in GIVEN each of the tensors lies that it takes, by their numbers; those without a
place follow, as bytes whose size the program says; `forget` names one. Each has a response: a byte, then the results of
a run that are not left in LEFT (`shared.laid_out`), or a length and the line that `child.described` makes. A first
response says that all is ready.

`assign` names a part of a plan by a number, and the bytes of the program and of the part follow; `share` names one, and
what it is given follows. Then its steps are gone through: each box that goes to another worker is a response, each that
comes from one follows in the requests; a last response has the pieces that are `wanted`. A part that fails says so as
any request does, and nothing is executed afterwards: requests are passed over until they end.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from eigentensor.cache import Cache
from eigentensor.errors import EigenTensorError
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.binding import in_order
from eigentensor.program.codec import decode
from eigentensor.program.model import Parameter
from eigentensor.runtime.compiled import CompiledGraph
from eigentensor.runtime.sandbox import child, confine
from eigentensor.runtime.sandbox.boxed import SlotPart
from eigentensor.runtime.sandbox.confine import Limits
from eigentensor.runtime.sandbox.shared import Bytes, laid_out, mapped
from eigentensor.runtime.sandbox.together import open_buffers
from eigentensor.runtime.sandbox.warm_child import DONE, FAILED, LENGTH, failed, serve
from eigentensor.runtime.sharded.machines import Interpreter, Machine, Processor
from eigentensor.runtime.sharded.worker import Worker, constants
from eigentensor.sharding import codec
from eigentensor.sharding.plan import Receive
from eigentensor.threads import start


def main(folder: Path, requests: BinaryIO, responses: BinaryIO, *shared: int) -> None:
    """The child's whole life: limits, no more processes or sockets, then what comes until the pipe ends."""
    confine.tie()
    job = json.loads((folder / "job.json").read_text())
    limits = Limits(**job["limits"])
    given, left = mapped(*shared)
    confine.limit(replace(limits, memory=limits.memory + given.size + left.size), job["file_bytes"])
    start(limits.threads)
    if job["sealed"]:
        confine.seal()
    responses.write(DONE)
    responses.flush()
    held = _Held(folder, job["device"], limits, given, left)
    while head := requests.read(LENGTH.size):
        asked = json.loads(requests.read(*LENGTH.unpack(head)))
        try:
            response = DONE + held.done(asked, requests, responses)
        except (EigenTensorError, MemoryError) as error:
            response = failed(error)
        responses.write(response)
        responses.flush()
        while "share" in asked and response[:1] == FAILED and requests.read(1 << 16):
            pass


class _Held:
    """Programs and parts by number, ready to be executed."""

    def __init__(self, folder: Path, device: str, limits: Limits, given: Bytes, left: Bytes) -> None:
        self._cache, self._device, self._limits = Cache(folder / "kernels"), device, limits
        self._given, self._left = given, left
        self._graphs: dict[int, CompiledGraph] = {}
        self._workers: dict[int, Worker] = {}

    def done(self, asked: Mapping[str, Any], requests: BinaryIO, responses: BinaryIO) -> bytes:
        """What a request wants, behind the byte of its last response."""
        if "define" in asked:
            self._graphs[asked["define"]] = self._graph(asked, requests)
            return b""
        if "assign" in asked:
            self._workers[asked["assign"]] = self._worker(asked, requests)
            return b""
        if "forget" in asked:
            self._graphs.pop(asked["forget"], None)
            self._workers.pop(asked["forget"], None)
            return b""
        if "share" in asked:
            return _shared(self._workers[asked["share"]], asked, requests, responses)
        return self._run(self._graphs[asked["run"]], asked, requests)

    def _run(self, graph: CompiledGraph, asked: Mapping[str, Any], requests: BinaryIO) -> bytes:
        tensors = {
            b.name: self._tensor(Parameter(b.dtype, b.elements), at, requests).reshape(b.shape)
            for b, at in zip(open_buffers(graph.program), asked["given"], strict=True)
        }
        results = graph.run(tensors, asked["variables"])
        flats = [array.reshape(-1).view(np.uint8) for array in in_order(graph.program, results)]
        places = laid_out([flat.size for flat in flats], self._left.size)
        for flat, at in zip(flats, places, strict=True):
            if at is not None:
                self._left[at : at + flat.size] = flat
        return b"".join(flat.tobytes() for flat, at in zip(flats, places, strict=True) if at is None)

    def _tensor(self, of: Parameter, at: int | None, requests: BinaryIO) -> NDArray[Any]:
        if at is None:
            return _read(requests, of)
        return self._given[at : at + of.elements * of.dtype.size].view(STORAGE[of.dtype])

    def _graph(self, asked: Mapping[str, Any], requests: BinaryIO) -> CompiledGraph:
        return CompiledGraph(
            decode(requests.read(asked["bytes"])), device=self._device, threads=self._limits.threads, cache=self._cache,
            toolchain=child.toolchain(self._device, asked["toolchain"]) if asked["toolchain"] else None,
            memory_limit=self._limits.memory,  # a sealed process cannot ask how much there is
        )  # fmt: skip

    def _worker(self, asked: Mapping[str, Any], requests: BinaryIO) -> Worker:
        program, planned = decode(requests.read(asked["bytes"])), codec.decode(requests.read(asked["planned"]))
        machine: Machine = Interpreter()
        if asked["toolchain"]:
            toolchain = child.toolchain(self._device, asked["toolchain"])
            machine = Processor(toolchain, self._cache, self._limits.threads)
        worker = Worker(program, planned, machine)
        worker.give(constants(program))
        return worker


def _shared(worker: Worker, asked: Mapping[str, Any], requests: BinaryIO, responses: BinaryIO) -> bytes:
    part = SlotPart(0, worker.program, worker.planned)
    for piece in part.given:
        worker.fill(piece, _read(requests, part.parameter(piece)).reshape(worker.pieces[piece].shape))
    worker.run(asked["variables"], _Port(part, requests, responses))
    return b"".join(worker.pieces[piece].tobytes() for piece in asked["wanted"])


class _Port:
    """What hands boxes out, and gets those that are handed in."""

    def __init__(self, part: SlotPart, requests: BinaryIO, responses: BinaryIO) -> None:
        self._requests, self._responses = requests, responses
        steps = (step for step in part.planned.steps if isinstance(step, Receive))
        self._coming = {(step.worker, step.number): part.parameter(step.target, step.box) for step in steps}

    def send(self, worker: int, number: int, box: NDArray[Any]) -> None:
        """As `Port.send`: in the order of the steps."""
        self._responses.write(DONE)
        self._responses.write(box.tobytes())
        self._responses.flush()

    def receive(self, worker: int, number: int) -> NDArray[Any]:
        """As `Port.receive`."""
        return _read(self._requests, self._coming[worker, number])


def _read(requests: BinaryIO, of: Parameter) -> NDArray[Any]:
    box: NDArray[Any] = np.empty(of.elements, STORAGE[of.dtype])
    requests.readinto(box.view(np.uint8).data)  # type: ignore[attr-defined]
    return box


if __name__ == "__main__":
    serve(main)
