"""The process that executes the programs of one tenant, as they come:
`python -m eigentensor.runtime.sandbox.tenant_child FOLDER REQUESTS RESPONSES GIVEN LEFT`.

FOLDER holds job.json; the numbers are of open pipes, and of memory that is shared (`shared`). A request is a length and
a header in JSON. `define` names a program by a number, and its bytes follow, as many as `bytes`; `run` names one, with
values of variables, and says where in GIVEN each of the tensors lies that it takes, by their numbers; those without a
place follow, as bytes whose size the program says; `forget` names one. Each has a response: a byte, then the results of
a run that are not left in LEFT (`shared.left_by`), or a length and the line that `child.described` makes. A first
response says that all is ready.

`assign` names a part of a plan by a number, and the bytes of the program and of the part follow; `share` names one, and
what it is given follows. Then its steps are gone through: each box that goes to another worker is a response, each that
comes from one follows in the requests; a last response has the pieces that are `wanted`. A part that fails says so as
any request does, and nothing is executed afterwards: requests are passed over until they end.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from eigentensor.cache import Cache
from eigentensor.errors import EigenTensorError
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.binding import iteration_values
from eigentensor.program.codec import decode
from eigentensor.program.model import Buffer, Parameter, Program, Role
from eigentensor.runtime import devices
from eigentensor.runtime.build.kernels import Compiler
from eigentensor.runtime.cpu.device import address
from eigentensor.runtime.memory.plan import refuse_over
from eigentensor.runtime.sandbox import child
from eigentensor.runtime.sandbox.boxed import SlotPart
from eigentensor.runtime.sandbox.confine import Limits
from eigentensor.runtime.sandbox.shared import Bytes, left_by, mapped
from eigentensor.runtime.sandbox.warm_child import DONE, FAILED, LENGTH, failed, serve
from eigentensor.runtime.sharded.machines import Interpreter, Machine, Processor
from eigentensor.runtime.sharded.worker import Worker, constants
from eigentensor.sharding import codec
from eigentensor.sharding.plan import Receive


def main(folder: Path, requests: BinaryIO, responses: BinaryIO, *shared: int) -> None:
    """The child's whole life: what it does before any stranger, then what comes until the pipe ends."""
    given, left = mapped(*shared)
    job = child.entered(folder, given.size + left.size)
    responses.write(DONE)
    responses.flush()
    held = _Held(folder, job["device"], Limits(**job["limits"]), given, left)
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
        self._programs: dict[int, _Program] = {}
        self._workers: dict[int, Worker] = {}

    def done(self, asked: Mapping[str, Any], requests: BinaryIO, responses: BinaryIO) -> bytes:
        """What a request wants, behind the byte of its last response."""
        if "define" in asked:
            self._programs[asked["define"]] = self._loaded(asked, requests)
            return b""
        if "assign" in asked:
            self._workers[asked["assign"]] = self._worker(asked, requests)
            return b""
        if "forget" in asked:
            self._programs.pop(asked["forget"], None)
            self._workers.pop(asked["forget"], None)
            return b""
        if "share" in asked:
            return _shared(self._workers[asked["share"]], asked, requests, responses)
        return self._programs[asked["run"]].run(asked, requests)

    def _loaded(self, asked: Mapping[str, Any], requests: BinaryIO) -> "_Program":
        program = decode(requests.read(asked["bytes"]))
        refuse_over(self._limits.memory, program, self._device)  # a sealed process cannot ask how much there is
        toolchain = child.toolchain(self._device, asked["toolchain"]) if asked["toolchain"] else None
        return _Program(program, self._given, self._left, self._device, self._cache, toolchain, self._limits.threads)

    def _worker(self, asked: Mapping[str, Any], requests: BinaryIO) -> Worker:
        program, planned = decode(requests.read(asked["bytes"])), codec.decode(requests.read(asked["planned"]))
        machine: Machine = Interpreter()
        if asked["toolchain"]:
            toolchain = child.toolchain(self._device, asked["toolchain"])
            machine = Processor(toolchain, self._cache, self._limits.threads)
        worker = Worker(program, planned, machine)
        worker.give(constants(program))
        return worker


class _Program:
    """A program that is ready: results that are left are written where they are left, if the device can."""

    def __init__(
        self,
        program: Program,
        given: Bytes,
        left: Bytes,
        device: str,
        cache: Cache,
        toolchain: Compiler | None,
        threads: int,
    ) -> None:
        self.program, self.given, self.left = program, given, left
        self.places = left_by(program, left.size)
        into = {
            result.buffer: left[at : at + of.elements * of.dtype.size].view(STORAGE[of.dtype])
            for result, (of, at) in zip(program.results, self.places, strict=True)
            if at is not None
        }
        self.loaded = devices.load(program, device, cache, toolchain, threads, into)
        self.loaded.bind({number: array.reshape(-1) for number, array in constants(program).items()})

    def run(self, asked: Mapping[str, Any], requests: BinaryIO) -> bytes:
        """Executes it, and gives the results that are not left."""
        opened = [(n, b) for n, b in enumerate(self.program.buffers) if b.role in (Role.INPUT, Role.STATE)]
        tensors = {n: self._tensor(b, at, requests) for (n, b), at in zip(opened, asked["given"], strict=True)}
        self.loaded.run(tensors, [iteration_values(self.program, asked["variables"])])
        piped = list[bytes]()
        for result, (_, at) in zip(self.program.results, self.places, strict=True):
            data = self.loaded.read(result).reshape(-1).view(np.uint8)
            if at is None:
                piped.append(data.tobytes())
            elif address(data) != address(self.left) + at:
                self.left[at : at + data.size] = data
        return b"".join(piped)

    def _tensor(self, of: Buffer, at: int | None, requests: BinaryIO) -> NDArray[Any]:
        if at is None:
            return _read(requests, Parameter(of.dtype, of.elements))
        return self.given[at : at + of.elements * of.dtype.size].view(STORAGE[of.dtype])


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
