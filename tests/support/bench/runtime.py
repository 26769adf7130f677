"""How fast programs run beside tinygrad's own execution of the same functions: pairs, measured in turn in one process.

Printed are the medians in milliseconds and their ratio. Other work on the machine disturbs both: trust the ratio.
"""

import sys
from typing import Any

import numpy as np
from tinygrad import Tensor, TinyJit

from eigentensor.capture import capture
from eigentensor.runtime import CompiledGraph
from support.bench.pairs import in_turn
from support.programs import models
from support.programs.models import Layer as Block

PAIRS = 15
SOME = np.random.default_rng(1)


def floats(*shape: int) -> np.ndarray:
    return SOME.standard_normal(shape, dtype=np.float32)


def product(x: Tensor, y: Tensor) -> Tensor:
    return x @ y


def half_product(x: Tensor, y: Tensor) -> Tensor:
    return x.half() @ y.half()


def turned(x: Tensor) -> Tensor:
    return x.transpose() * 2


def cases() -> list[tuple[str, Any, tuple[np.ndarray, ...]]]:
    return [
        ("digits net, 99 images", models.digits().function, (floats(99, 1, 8, 8),)),
        ("transformer layer, 128 × 384", Block(384, 12), (floats(1, 128, 384),)),
        ("transformer layer, 1 × 768", Block(768, 12), (floats(1, 1, 768),)),
        ("matmul 512", product, (floats(512, 512), floats(512, 512))),
        ("float16 matmul 256", half_product, (floats(256, 256), floats(256, 256))),
        ("softmax 128 × 1000", lambda x: x.softmax(), (floats(128, 1000),)),
        ("gelu, 1 M", lambda x: x.gelu(), (floats(1024, 1024),)),
        ("transpose 1024", turned, (floats(1024, 1024),)),
    ]


def measure(function: Any, inputs: tuple[np.ndarray, ...]) -> tuple[float, float]:
    """Median seconds of tinygrad's execution and of ours."""
    graph = capture(function, inputs, model=function if vars(function) else None)
    code = (function if hasattr(function, "__code__") else type(function).__call__).__code__
    names = [name for name in code.co_varnames[: code.co_argcount] if name != "self"]
    compiled, tensors = CompiledGraph(graph.program, graph.weights), dict(zip(names, inputs, strict=True))
    jitted, realized = TinyJit(lambda *x: function(*x).realize()), [Tensor(array).realize() for array in inputs]

    ways = {"tinygrad": lambda: jitted(*realized).numpy(), "here": lambda: compiled.run(tensors)}
    times = in_turn(ways, PAIRS)
    return times["tinygrad"], times["here"]


def main() -> None:
    sys.stdout.write(f"{'':30} {'tinygrad':>10} {'here':>10} {'times':>7}   ms, medians of {PAIRS} pairs\n")
    for name, function, inputs in cases():
        theirs, ours = measure(function, inputs)
        sys.stdout.write(f"{name:30} {theirs * 1e3:10.3f} {ours * 1e3:10.3f} {theirs / ours:7.1f}\n")


if __name__ == "__main__":
    main()
