"""float32 products beside tinygrad's default and NumPy's OpenBLAS, in GFLOPS: pairs, measured in turn in one process.

NumPy and this runtime with two threads and with one; tinygrad's CPU device uses one, whatever its kernels ask for.
"""

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from tinygrad import Tensor, TinyJit

from bench_pairs import in_turn, say
from eigentensor.capture import capture
from eigentensor.runtime import Executable

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


def main() -> None:
    limit, random = set_threads(), np.random.default_rng(1)
    say("GFLOPS", "tinygrad", "NumPy, 2", "here, 2", "NumPy, 1", "here, 1", "/ tinygrad", "/ NumPy, 2", "/ NumPy, 1")
    for size in [int(a) for a in sys.argv[1:]] or SIZES:
        x, y = (random.standard_normal((size, size), dtype=np.float32) for _ in range(2))
        program = capture(lambda x, y: x @ y, (x, y)).program
        two, one = (Executable(program, {"x": x, "y": y}, threads=threads) for threads in (2, 1))
        jitted = TinyJit(lambda x, y: (x @ y).realize())
        given = Tensor(x).realize(), Tensor(y).realize()

        def numpy_with(threads: int, x: np.ndarray = x, y: np.ndarray = y) -> None:
            with threads_of_numpy(threads, limit):
                x @ y

        ways = {
            "tinygrad": lambda jitted=jitted, given=given: jitted(*given).numpy(),
            "numpy 2": lambda numpy_with=numpy_with: numpy_with(2),
            "here 2": lambda two=two: two.run({}),
            "numpy 1": lambda numpy_with=numpy_with: numpy_with(1),
            "here 1": lambda one=one: one.run({}),
        }
        times = in_turn(ways, rounds=9 if size > 1024 else 15)
        speed = {name: 2e-9 * size**3 / seconds for name, seconds in times.items()}
        ratios = (
            speed["here 2"] / speed["tinygrad"],
            speed["here 2"] / speed["numpy 2"],
            speed["here 1"] / speed["numpy 1"],
        )
        say(f"{size}²", *speed.values(), *ratios)


if __name__ == "__main__":
    main()
