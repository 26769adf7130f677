"""How fast programs run beside tinygrad's own execution of the same functions: pairs, measured in turn in one process.

Printed are the medians in milliseconds and their ratio. Other work on the machine disturbs both: trust the ratio.
"""

import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from tinygrad import Tensor, TinyJit, nn

from eigentensor.capture import capture
from eigentensor.runtime import Executable

PAIRS = 15
SOME = np.random.default_rng(1)


def floats(*shape: int) -> np.ndarray:
    return SOME.standard_normal(shape, dtype=np.float32)


class Block:
    """A transformer's layer."""

    def __init__(self, width: int, heads: int) -> None:
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def __call__(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        y = self.first(x)
        q, k, v = (f(y).reshape(*split).transpose(1, 2) for f in (self.query, self.key, self.value))
        mixed = q.scaled_dot_product_attention(k, v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(mixed)
        return x + self.down(self.up(self.second(x)).gelu())


def digits() -> Any:
    path = Path(__file__).parents[1] / "client" / "examples" / "digits.py"
    spec = importlib.util.spec_from_file_location("digits_example", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Net()


def product(x: Tensor, y: Tensor) -> Tensor:
    return x @ y


def half_product(x: Tensor, y: Tensor) -> Tensor:
    return x.half() @ y.half()


def turned(x: Tensor) -> Tensor:
    return x.transpose() * 2


def cases() -> list[tuple[str, Any, tuple[np.ndarray, ...]]]:
    return [
        ("digits net, 99 images", digits(), (floats(99, 1, 8, 8),)),
        ("transformer layer, 128 × 384", Block(384, 12), (floats(1, 128, 384),)),
        ("transformer layer, 1 × 768", Block(768, 12), (floats(1, 1, 768),)),
        ("matmul 512", product, (floats(512, 512), floats(512, 512))),
        ("float16 matmul 256", half_product, (floats(256, 256), floats(256, 256))),
        ("softmax 128 × 1000", lambda x: x.softmax(), (floats(128, 1000),)),
        ("gelu, 1 M", lambda x: x.gelu(), (floats(1024, 1024),)),
        ("transpose 1024", turned, (floats(1024, 1024),)),
    ]


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(function: Any, inputs: tuple[np.ndarray, ...]) -> tuple[float, float]:
    """Median seconds of tinygrad's execution and of ours."""
    graph = capture(function, inputs, model=function if vars(function) else None)
    code = (function if hasattr(function, "__code__") else type(function).__call__).__code__
    names = [name for name in code.co_varnames[: code.co_argcount] if name != "self"]
    executable, tensors = Executable(graph.program, graph.weights), dict(zip(names, inputs, strict=True))
    jitted, given = TinyJit(lambda *x: function(*x).realize()), [Tensor(array).realize() for array in inputs]

    def pair() -> tuple[float, float]:
        return seconds(lambda: jitted(*given).numpy()), seconds(lambda: executable.run(tensors))

    for _ in range(3):
        pair()
    theirs, ours = zip(*(pair() for _ in range(PAIRS)), strict=True)
    return median(theirs), median(ours)


def main() -> None:
    sys.stdout.write(f"{'':30} {'tinygrad':>10} {'here':>10} {'times':>7}   ms, medians of {PAIRS} pairs\n")
    for name, function, inputs in cases():
        theirs, ours = measure(function, inputs)
        sys.stdout.write(f"{name:30} {theirs * 1e3:10.3f} {ours * 1e3:10.3f} {theirs / ours:7.1f}\n")


if __name__ == "__main__":
    main()
