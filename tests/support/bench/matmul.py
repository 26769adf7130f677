"""float32 products beside tinygrad's default and NumPy's OpenBLAS, in GFLOPS: pairs, measured in turn in one process.

    scripts/bench matmul [--one] [SIZE …]

NumPy and this runtime with two threads and with one; tinygrad's CPU device uses one, whatever its kernels ask for.
--one leaves out two threads, and counts the processor's time instead of the wall's: the figures of a busy machine.
"""

import ctypes
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from tinygrad import Tensor, TinyJit

from eigentensor.capture import capture
from eigentensor.runtime import CompiledGraph
from support.bench.pairs import in_turn, say

SIZES = (512, 1024, 2048)


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


def ways(size: int, limit: Callable[[int], None], threads: tuple[int, ...]) -> dict[str, Callable[[], object]]:
    x, y = (np.random.default_rng(1).standard_normal((size, size), dtype=np.float32) for _ in range(2))
    program = capture(lambda x, y: x @ y, (x, y)).program
    made = {n: CompiledGraph(program, {"x": x, "y": y}, threads=n) for n in threads}
    jitted, tensors = TinyJit(lambda x, y: (x @ y).realize()), (Tensor(x).realize(), Tensor(y).realize())

    def numpy_with(threads: int) -> None:
        with threads_of_numpy(threads, limit):
            x @ y

    runs: dict[str, Callable[[], object]] = {"tinygrad": lambda: jitted(*tensors).numpy()}
    for n, compiled in made.items():
        runs[f"NumPy, {n}"] = partial(numpy_with, n)
        runs[f"here, {n}"] = partial(compiled.run, {})
    return runs


def main() -> None:
    one = "--one" in sys.argv
    threads = (1,) if one else (2, 1)
    kinds = [f"{who}, {n}" for n in threads for who in ("NumPy", "here")]
    say("GFLOPS", "tinygrad", *kinds, "/ tinygrad", *(f"/ NumPy, {n}" for n in threads))
    for size in [int(a) for a in sys.argv[1:] if a != "--one"] or SIZES:
        clock = time.process_time if one else time.perf_counter
        times = in_turn(ways(size, set_threads(), threads), rounds=5 if size > 1024 else 11, warm=2, clock=clock)
        speed = {name: 2e-9 * size**3 / seconds for name, seconds in times.items()}
        ratios = (speed[f"here, {n}"] / speed[f"NumPy, {n}"] for n in threads)
        say(f"{size}²", *speed.values(), speed[f"here, {threads[0]}"] / speed["tinygrad"], *ratios)


if __name__ == "__main__":
    main()
