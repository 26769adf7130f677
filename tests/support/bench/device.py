"""How fast a device executes programs: beside tinygrad's own execution on it, and beside the CPU.

`scripts/bench device CL` or `CUDA`. Tensors lie on the device before, results stay there: measured are the calls.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from tinygrad import Tensor, TinyJit, nn
from tinygrad.device import Device

from eigentensor.capture import capture
from eigentensor.runtime import CompiledGraph, devices
from support.bench.pairs import in_turn, say
from support.bench.runtime import floats, product
from support.programs.models import Layer as Block

SIZES = {"CL": (256, 512), "CUDA": (1024, 2048, 4096)}


def cases(device: str) -> list[tuple[str, Any, tuple[np.ndarray, ...]]]:
    return [
        *((f"matmul {n}", product, (floats(n, n), floats(n, n))) for n in SIZES[device]),
        ("matmul 1 × 4096 × 4096", product, (floats(1, 4096), floats(4096, 4096))),
        ("transformer layer, 128 × 384", Block(384, 12), (floats(1, 128, 384),)),
        ("softmax 128 × 1000", lambda x: x.softmax(), (floats(128, 1000),)),
        ("gelu, 1 M", lambda x: x.gelu(), (floats(1024, 1024),)),
        ("transpose 1024", lambda x: x.transpose() * 2, (floats(1024, 1024),)),
    ]


def ways(function: Any, inputs: tuple[np.ndarray, ...], device: str) -> dict[str, Callable[[], object]]:
    model = function if vars(function) else None
    graph = capture(function, inputs, model=model)
    code = (function if model is None else type(function).__call__).__code__
    names = [name for name in code.co_varnames[: code.co_argcount] if name != "self"]
    tensors = {**graph.weights, **dict(zip(names, inputs, strict=True))}
    here, cpu = (CompiledGraph(graph.program, tensors, device=d).loaded for d in (device, "CPU"))
    for parameter in nn.state.get_parameters(model):
        parameter.to_(device).realize()
    jitted = TinyJit(lambda *x: function(*x).realize())
    realized = [Tensor(array, device=device).realize() for array in inputs]

    def theirs() -> None:
        jitted(*realized)
        Device[device].synchronize()

    return {"tinygrad": theirs, "here": lambda: here.run({}, [()]), "CPU": lambda: cpu.run({}, [()])}


def main(device: str) -> None:
    devices.of(device)  # raises where it cannot be used
    say(f"ms on {device}, medians", "tinygrad", "here", "times", "CPU", "times")
    for name, function, inputs in cases(device):
        times = in_turn(ways(function, inputs, device))
        theirs, ours, cpu = (times[way] * 1e3 for way in ("tinygrad", "here", "CPU"))
        say(name, theirs, ours, theirs / ours, cpu, cpu / ours)


if __name__ == "__main__":
    main(sys.argv[1])
