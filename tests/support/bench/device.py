"""How fast a device executes programs: beside tinygrad's own execution on it, and beside the CPU.

    scripts/bench device CL|CUDA [--json FILE]

Tensors lie on the device before, results stay there: measured are the calls. Without clang the CPU is left out.
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tinygrad import Tensor, TinyJit, nn
from tinygrad.device import Device

from eigentensor import clang
from eigentensor.capture import capture
from eigentensor.runtime import CompiledGraph, devices
from support.bench import device_hashing
from support.bench.pairs import in_turn, say
from support.bench.runtime import SOME, floats, product
from support.programs.models import Layer as Block

SIZES = {"CL": (256, 512), "CUDA": (1024, 2048, 4096)}
COPIED = {"CL": 1024, "CUDA": 8192}  #: a side of what is read and written once
HASHED = {"CL": 4 << 20, "CUDA": 256 << 20}  #: bytes
HERE, THEIRS = "here", "tinygrad"


def cases(device: str) -> list[tuple[str, Any, tuple[np.ndarray, ...]]]:
    return [
        *((f"matmul {n}", product, (floats(n, n), floats(n, n))) for n in SIZES[device]),
        *((f"{name} {n}", function, inputs) for n in SIZES[device][-1:] for name, function, inputs in narrow(n)),
        ("matmul 1 × 4096 × 4096", product, (floats(1, 4096), floats(4096, 4096))),
        ("transformer layer, 128 × 384", Block(384, 12), (floats(1, 128, 384),)),
        ("softmax 128 × 1000", lambda x: x.softmax(), (floats(128, 1000),)),
        ("gelu, 1 M", lambda x: x.gelu(), (floats(1024, 1024),)),
        ("transpose 1024", lambda x: x.transpose() * 2, (floats(1024, 1024),)),
        (f"copy {COPIED[device]}", lambda x: x * 2, (floats(COPIED[device], COPIED[device]),)),
    ]


def narrow(n: int) -> list[tuple[str, Any, tuple[np.ndarray, ...]]]:
    """Products of small types whose sums are of large ones."""
    halves = floats(n, n).astype(np.float16), floats(n, n).astype(np.float16)
    signed = SOME.integers(-128, 128, (2, n, n), np.int8)
    return [
        ("halves, float32 sums", lambda x, y: x.float() @ y.float(), halves),
        ("int8, int32 sums", lambda x, y: x.int() @ y.int().transpose(), (signed[0], signed[1])),
    ]


def ways(function: Any, inputs: tuple[np.ndarray, ...], device: str) -> dict[str, Callable[[], object]]:
    model = function if vars(function) else None
    graph = capture(function, inputs, model=model)
    code = (function if model is None else type(function).__call__).__code__
    names = [name for name in code.co_varnames[: code.co_argcount] if name != "self"]
    tensors = {**graph.weights, **dict(zip(names, inputs, strict=True))}
    used = {HERE: device} | ({"CPU": "CPU"} if clang.path() else {})
    loaded = {way: CompiledGraph(graph.program, tensors, device=on).loaded for way, on in used.items()}
    for parameter in nn.state.get_parameters(model):
        parameter.to_(device).realize()
    jitted = TinyJit(lambda *x: function(*x).realize())
    realized = [Tensor(array, device=device).realize() for array in inputs]

    def theirs() -> None:
        jitted(*realized)
        Device[device].synchronize()

    ours: dict[str, Callable[[], object]] = {way: partial(of.run, {}, [()]) for way, of in loaded.items()}
    return {THEIRS: theirs, **ours}


def measured(name: str, function: Any, inputs: tuple[np.ndarray, ...], device: str) -> dict[str, Any]:
    """Milliseconds by way; or what went wrong, where others are still to be measured."""
    try:
        times = in_turn(ways(function, inputs, device))
    except Exception as error:  # tinygrad's own compiler may lack something, too
        say(name, f"{type(error).__name__}: {error}")
        return {"what": name, "error": f"{type(error).__name__}: {str(error)[-2000:]}"}
    row = {way: seconds * 1e3 for way, seconds in times.items()}
    others = (cell for way in row if way != HERE for cell in (row[way], row[way] / row[HERE]))
    say(name, row[HERE], *others)
    return {"what": name, "bytes": sum(array.nbytes for array in inputs)} | row


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench device", description=__doc__)
    parser.add_argument("device", choices=SIZES)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also writes a line of JSON for each row")
    arguments = parser.parse_args()
    devices.of(arguments.device)  # raises where it cannot be used
    say(f"ms on {arguments.device}, medians", HERE, THEIRS, "times", *(["CPU", "times"] if clang.path() else []))
    for case in cases(arguments.device):
        written(arguments.json, measured(*case, arguments.device))
    written(arguments.json, hashing(arguments.device))


def written(file: Path | None, row: dict[str, Any]) -> None:
    """Puts a row behind those of a file, if there is one."""
    if file:
        with file.open("a") as lines:
            lines.write(json.dumps(row) + "\n")


def hashing(device: str) -> dict[str, Any]:
    """Milliseconds for the leaves of a tensor, on the device and by the host."""
    name = f"leaves of {HASHED[device] >> 20} MiB"
    try:
        row = device_hashing.measured(device, HASHED[device])
    except Exception as error:
        say(name, f"{type(error).__name__}: {error}")
        return {"what": name, "error": f"{type(error).__name__}: {str(error)[-2000:]}"}
    say(name, *(f"  {way}: {milliseconds:.3f}" for way, milliseconds in row.items()))
    return {"what": name, "bytes": HASHED[device]} | row


if __name__ == "__main__":
    main()
