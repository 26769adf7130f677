"""The first program that a device runs in a child: ours, before anything of a stranger is there.

What a driver does once, it has done then: it has started threads, which a sealed process cannot, opened its files, and
loaded, launched and waited for a kernel.
"""

from functools import cache
from pathlib import Path

import numpy as np

from eigentensor.cache import Cache
from eigentensor.numerics.dtypes import DType
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Axis, binary, counter, load, to_body
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.program.ops import Op
from eigentensor.runtime.build.kernels import Compiler
from eigentensor.runtime.compiled import CompiledGraph

ELEMENTS = 8


@cache
def program() -> Program:
    """Some numbers, doubled."""
    axis = Axis(0, ELEMENTS)
    x = load(Array("x", DType.FLOAT32, ELEMENTS), counter(axis))
    body = to_body(binary(Op.ADD, x, x), (axis,))
    buffer = Buffer(Role.INPUT, DType.FLOAT32, (ELEMENTS,), "x")
    return assemble([("y", body)], {"x": buffer}, {(Kind.OUTPUT, "y"): ("y", (ELEMENTS,))})


def run(device: str, toolchain: Compiler, kernels: Path) -> None:
    """Runs it twice on a device, with the kernel that lies in a cache. Raises ExecutionError if that fails."""
    graph = CompiledGraph(program(), device=device, cache=Cache(kernels), toolchain=toolchain)
    for _ in range(2):
        graph.run({"x": np.zeros(ELEMENTS, np.float32)})
