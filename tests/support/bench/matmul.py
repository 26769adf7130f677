"""float32 products beside tinygrad's default and NumPy's OpenBLAS, in GFLOPS: pairs, measured in turn in one process.

    scripts/bench matmul [--one] [SIZE …]
    scripts/bench matmul [--one] --shapes      other products than squares: tall, flat, batched, transposed

NumPy and this runtime with two threads and with one; tinygrad's CPU device uses one, whatever its kernels ask for.
--one leaves out two threads, and counts the processor's time instead of the wall's: the figures of a busy machine.
"""

import ctypes
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from tinygrad import Tensor, TinyJit

from eigentensor.capture import capture
from eigentensor.runtime import CompiledGraph
from support.bench.goals import Goal, judge
from support.bench.pairs import in_turn, say

GOAL = Goal(1.0)


def set_threads() -> Callable[[int], None]:
    """What sets the threads of the OpenBLAS that NumPy brings."""
    folder = Path(np.__file__).parents[1] / "numpy.libs"
    library = ctypes.CDLL(str(next(folder.glob("*openblas*"))))
    name = next(n for n in ("scipy_openblas_set_num_threads64_", "openblas_set_num_threads") if hasattr(library, n))
    return lambda threads: getattr(library, name)(threads)


@contextmanager
def threads_of_numpy(threads: int, limit: Callable[[int], None]) -> Iterator[None]:
    limit(threads)
    yield
    limit(2)


@dataclass(frozen=True)
class Product:
    """x @ y of random matrices, either of which may lie transposed."""

    name: str
    x: tuple[int, ...]
    y: tuple[int, ...]
    turned: tuple[bool, bool] = (False, False)

    @property
    def operations(self) -> float:
        """Those of floats, in all: two for each step."""
        rows = self.x[-1] if self.turned[0] else self.x[-2]
        return 2.0 * prod(self.y) * rows

    def of(self, x: Any, y: Any) -> Any:
        """The product, of tensors or arrays."""
        return (x.swapaxes(-1, -2) if self.turned[0] else x) @ (y.swapaxes(-1, -2) if self.turned[1] else y)


SQUARES = [Product(f"{size}²", (size, size), (size, size)) for size in (512, 1024, 2048)]
SHAPES = [
    Product("tall, 8192 × 256 · 256 × 64", (8192, 256), (256, 64)),
    Product("flat, 64 × 256 · 256 × 8192", (64, 256), (256, 8192)),
    Product("long, 64 × 8192 · 8192 × 64", (64, 8192), (8192, 64)),
    Product("batched, 16 of 256²", (16, 256, 256), (16, 256, 256)),
    Product("x transposed, 768²", (768, 768), (768, 768), (True, False)),
    Product("y transposed, 768²", (768, 768), (768, 768), (False, True)),
]


def ways(of: Product, limit: Callable[[int], None], threads: tuple[int, ...]) -> dict[str, Callable[[], object]]:
    random = np.random.default_rng(1)
    x, y = (random.standard_normal(shape, dtype=np.float32) for shape in (of.x, of.y))
    program = capture(of.of, (x, y)).program
    made = {n: CompiledGraph(program, {"x": x, "y": y}, threads=n) for n in threads}
    jitted, tensors = TinyJit(lambda x, y: of.of(x, y).realize()), (Tensor(x).realize(), Tensor(y).realize())

    def numpy_with(threads: int) -> None:
        with threads_of_numpy(threads, limit):
            of.of(x, y)

    runs: dict[str, Callable[[], object]] = {"tinygrad": lambda: jitted(*tensors).numpy()}
    for n, compiled in made.items():
        runs[f"NumPy, {n}"] = partial(numpy_with, n)
        runs[f"here, {n}"] = partial(compiled.run, {})
    return runs


def main() -> None:
    one = "--one" in sys.argv
    threads = (1,) if one else (2, 1)
    kinds = [f"{who}, {n}" for n in threads for who in ("NumPy", "here")]
    sizes = [int(a) for a in sys.argv[1:] if not a.startswith("--")]
    products = [Product(f"{size}²", (size, size), (size, size)) for size in sizes] or SQUARES
    say("GFLOPS", "tinygrad", *kinds, "/ tinygrad", *(f"/ NumPy, {n}" for n in threads))
    figures = []
    for of in SHAPES if "--shapes" in sys.argv else products:
        clock = time.process_time if one else time.perf_counter
        rounds = 5 if of.operations > 4e9 else 11
        times = in_turn(ways(of, set_threads(), threads), rounds=rounds, warm=2, clock=clock)
        speed = {name: 1e-9 * of.operations / seconds for name, seconds in times.items()}
        ratios = [speed[f"here, {n}"] / speed[f"NumPy, {n}"] for n in threads]
        say(of.name, *speed.values(), speed[f"here, {threads[0]}"] / speed["tinygrad"], *ratios)
        figures += [(f"{of.name} beside OpenBLAS, {n} threads", r, GOAL) for n, r in zip(threads, ratios, strict=True)]
    judge(figures)


if __name__ == "__main__":
    main()
