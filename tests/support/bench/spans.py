"""Spans that long sums are cut into: times in one thread, and errors against float64.

    scripts/bench spans

Milliseconds of the processor, and the largest error relative to the root mean square of the results: of sums with many
results by the terms of a run, and of sums with few. Of these the KiB of partial results too: those of lanes, and those
of spans, which are what devices that share the spans exchange.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tinygrad import Tensor

from eigentensor.capture import capture
from eigentensor.lowering import spans
from eigentensor.runtime import CompiledGraph
from support.bench.pairs import in_turn, say

RUNS = (512, 1024, 2048, 4096)
Values = NDArray[np.float32]


def convolution(x: Any, y: Any) -> Any:
    return x.conv2d(y, padding=1)


def product(x: Any, y: Any) -> Any:
    return x @ y


def normal(*shape: int) -> Values:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def exactly(function: Callable[[Any, Any], Any], x: Values, y: Values) -> NDArray[np.float64]:
    if function is product:
        return x.astype(np.float64) @ y.astype(np.float64)
    padded = np.pad(x[0].astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    convolved: NDArray[np.float64] = np.einsum("chwij,ocij->ohw", views, y.astype(np.float64), optimize=True)
    return convolved[None]


def few(name: str, function: Callable[[Any, Any], Tensor], x: Values, y: Values) -> None:
    program = capture(function, {"x": x, "y": y}, {}, fingerprint=False).program
    compiled = CompiledGraph(program, threads=1)
    (seconds,) = in_turn({name: lambda: compiled.run({"x": x, "y": y})}, rounds=9, clock=time.process_time).values()
    exact = exactly(function, x, y)
    error = float(np.abs(compiled.run({"x": x, "y": y}).outputs["output"] - exact).max() / np.sqrt(np.mean(exact**2)))
    partial = [program.parameter(len(program.buffers) + call)[1] / 256 for call in range(2)]
    say(name, seconds * 1e3, error * 1e6, *partial)


def measure(name: str, function: Callable[[Any, Any], Tensor], x: Values, y: Values) -> None:
    exact, errors, ways = exactly(function, x, y), {}, {}
    for run in RUNS:
        spans.RUN = run
        program = capture(function, {"x": x, "y": y}, {}, fingerprint=False).program
        compiled = CompiledGraph(program, threads=1)
        ways[str(run)] = lambda compiled=compiled: compiled.run({"x": x, "y": y})
        result = compiled.run({"x": x, "y": y}).outputs["output"]
        errors[run] = float(np.abs(result - exact).max() / np.sqrt(np.mean(exact**2)))
    times = in_turn(ways, rounds=9, clock=time.process_time)
    say(f"{name}, ms", *(seconds * 1e3 for seconds in times.values()))
    say(f"{name}, 10⁻⁶", *(error * 1e6 for error in errors.values()))


def main() -> None:
    say("terms of a run", *RUNS)
    measure("512 channels at 7²", convolution, normal(1, 512, 7, 7), normal(512, 512, 3, 3))
    measure("512 channels at 14²", convolution, normal(1, 512, 14, 14), normal(512, 512, 3, 3))
    measure("64 × 5,000 × 512", product, normal(64, 5000), normal(5000, 512))
    measure("256 × 8,192 × 256", product, normal(256, 8192), normal(8192, 256))
    say("few results: 16 lanes a span", "ms", "10⁻⁶", "lanes, KiB", "spans, KiB")
    few("1 × 1,048,576 × 1", product, normal(1, 1 << 20), normal(1 << 20, 1))
    few("32 × 50,000 × 64", product, normal(32, 50_000), normal(50_000, 64))
    few("784 × 8,192 × 4", product, normal(784, 8192), normal(8192, 4))
    few("64 × 8,192 × 10", product, normal(64, 8192), normal(8192, 10))


if __name__ == "__main__":
    main()
