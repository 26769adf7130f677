"""The process that executes one stranger's program again and again:
`python -m eigentensor.runtime.sandbox.warm_child FOLDER REQUESTS RESPONSES`.

FOLDER holds job.json, the program and its weights; the numbers are of open pipes. A request is a length and a header in
JSON, with variables and more of each call, then for each the inputs and states, by their numbers, as bytes whose size
the program says: but for states where the header names the slot that holds them. Each call has a response, in order:
one byte, then what `returned` describes, or a length and the line that `child.described` makes. A first response says
that all is ready.
"""

import json
import os
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from eigentensor.cache import Cache
from eigentensor.errors import EigenTensorError
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.abreast import Abreast, abreast
from eigentensor.program.binding import shaped
from eigentensor.program.codec import decode
from eigentensor.program.model import Buffer, Program, Role
from eigentensor.runtime.compiled import CompiledGraph
from eigentensor.runtime.sandbox import child
from eigentensor.runtime.sandbox.confine import Limits
from eigentensor.runtime.sandbox.together import Asked, Together, states_size
from eigentensor.store.tensors import load_flat

DONE, FAILED = b"\1", b"\2"
LENGTH = struct.Struct("<I")


def main(folder: Path, requests: BinaryIO, responses: BinaryIO) -> None:
    """The child's whole life: what it does before any stranger, the weights, then call after call until the pipe
    ends."""
    job = child.entered(folder)
    limits = Limits(**job["limits"])
    program = decode((folder / "program").read_bytes())
    weights = shaped(program, child.read_files(load_flat, [folder / name for name in job["tensors"]]))
    toolchain = child.toolchain(job["device"], job["toolchain"]) if job["toolchain"] else None

    def compiled(wide: Abreast) -> CompiledGraph:
        return CompiledGraph(
            wide.program, weights, device=job["device"], threads=limits.threads,
            cache=Cache(folder / "kernels"), toolchain=toolchain,
            memory_limit=limits.memory,  # a sealed process cannot ask how much there is
        )  # fmt: skip

    several = [abreast(program, width) for width in (1, *job["widths"])]
    together = Together([(wide, compiled(wide)) for wide in several])
    responses.write(DONE)
    responses.flush()
    slots: dict[int, bytes] = {}
    while head := requests.read(LENGTH.size):
        asked = json.loads(requests.read(*LENGTH.unpack(head)))
        inputs, states = brought(requests, program, [slots.get(slot) for slot in asked["from"]])
        calls = [Asked(*of) for of in zip(states, asked["variables"], asked["keep"], strict=True)]
        outcomes = together.run(inputs, calls, asked["repeat"])
        for outcome, slot in zip(outcomes, asked["to"], strict=True):
            if isinstance(outcome, BaseException):
                responses.write(failed(outcome))
                continue
            responses.write(DONE)
            responses.write(outcome)
            if slot is not None:  # states are what a response ends with
                slots[slot] = outcome[len(outcome) - states_size(program) :]
        responses.flush()


def failed(error: BaseException) -> bytes:
    """The response that says how a call failed: others may still come."""
    line = child.described(error)
    return FAILED + LENGTH.pack(len(line)) + line


def brought(
    requests: BinaryIO, program: Program, held: Sequence[bytes | None]
) -> tuple[dict[str, NDArray[Any]], list[dict[str, NDArray[Any]]]]:
    """The inputs of calls, one after the other along the first axis, and the states of each, if not those that are held
    for it."""
    inputs, states = program.named(Role.INPUT), program.named(Role.STATE)
    stacked = {name: np.empty((len(held), *b.shape), STORAGE[b.dtype]) for name, b in inputs.items()}
    size, each = states_size(program), list[dict[str, NDArray[Any]]]()
    for call, of in enumerate(held):
        for array in stacked.values():
            rows = array[call : call + 1].reshape(-1).view(np.uint8)
            requests.readinto(rows.data)  # type: ignore[attr-defined]
        each.append(tensors(list(states.items()), requests.read(size) if of is None else of))
    return stacked, each


def tensors(named: Sequence[tuple[str, Buffer]], data: bytes) -> dict[str, NDArray[Any]]:
    """Tensors that stand one after the other."""
    at, arrays = 0, dict[str, NDArray[Any]]()
    for name, b in named:
        array = np.frombuffer(data, STORAGE[b.dtype], b.elements, at).reshape(b.shape)
        arrays[name] = array if array.flags.aligned else array.copy()
        at += array.nbytes
    return arrays


def serve(life: Callable[..., None]) -> None:
    """What a process that is talked with over pipes does, from its arguments on: its life, given its folder, both pipes
    and further descriptors, or the line that says what failed, and the end."""
    try:
        with (
            open(int(sys.argv[2]), "rb", buffering=1 << 16) as ins,
            open(int(sys.argv[3]), "wb", buffering=1 << 16) as outs,
        ):
            life(Path(sys.argv[1]), ins, outs, *map(int, sys.argv[4:]))
    except (EigenTensorError, MemoryError, OSError) as failure:
        child.report(failure)
        os._exit(child.FAILED)


if __name__ == "__main__":
    serve(main)
