"""Programs that read much and compute little, beside what memory gives: shares of its measured bandwidth.

    scripts/bench bandwidth [--one]     one thread each, and the processor's time: the figures of a busy machine

The bandwidth is the best of NumPy's sum over a tensor and of a copy of one, by the same number of threads, in turn with
each program; both are of 256 MiB, as are the tensors that programs read: more than caches hold. A program's bytes are
those that it must read and write.
"""

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from tinygrad import Tensor

from eigentensor.capture import capture
from eigentensor.runtime import CompiledGraph
from support.bench.goals import Goal, judge
from support.bench.pairs import in_turn, say

ROWS, COLUMNS = 8192, 8192
GOAL = Goal(0.9)
SOME = np.random.default_rng(1)
Arrays = tuple[np.ndarray[Any, Any], ...]


def cases(x: np.ndarray[Any, Any]) -> list[tuple[str, Callable[..., Tensor], Arrays, int]]:
    """Name, function, its inputs, and bytes that it must move."""
    vector, rows = x[0].copy(), SOME.integers(0, ROWS, ROWS, dtype=np.int32)
    return [
        ("matrix × vector", lambda x, y: x @ y, (x, vector), x.nbytes),
        ("vector × matrix", lambda x, y: y @ x, (x, vector), x.nbytes),
        ("sum of all", lambda x: x.sum(), (x,), x.nbytes),
        ("sum of rows", lambda x: x.sum(1), (x,), x.nbytes),
        ("sum of columns", lambda x: x.sum(0), (x,), x.nbytes),
        ("softmax of rows", lambda x: x.softmax(), (x,), 2 * x.nbytes),
        ("layer norm of rows", lambda x: x.layernorm(), (x,), 2 * x.nbytes),
        ("gather of rows", lambda x, y: x[y], (x, rows), 2 * x.nbytes),
    ]


def memory(x: np.ndarray[Any, Any], threads: int) -> dict[str, Callable[[], object]]:
    """What reads a tensor, and what copies it, by threads that have a part each."""
    parts, pool = np.array_split(x, threads), ThreadPoolExecutor(threads)
    into = np.array_split(np.empty_like(x), threads)
    return {
        "read": lambda: list(pool.map(lambda part: part.sum(dtype=np.float32), parts)),
        "copy": lambda: list(pool.map(np.copyto, into, parts)),
    }


def main() -> None:
    threads = 1 if "--one" in sys.argv else 2
    x = SOME.standard_normal((ROWS, COLUMNS), dtype=np.float32)
    say("GB/s", "here", "memory", "share")
    figures = []
    for name, function, arrays, size in cases(x):
        graph = capture(function, arrays)
        tensors = dict(zip(("x", "y"), arrays, strict=False))
        compiled = CompiledGraph(graph.program, tensors, threads=threads)
        clock = time.process_time if threads == 1 else time.perf_counter
        times = in_turn({"here": partial(compiled.run, {}), **memory(x, threads)}, rounds=5, warm=1, clock=clock)
        speed = max(x.nbytes / times["read"], 2 * x.nbytes / times["copy"])
        share = size / times["here"] / speed
        say(name, size / times["here"] * 1e-9, speed * 1e-9, share)
        figures.append((f"{name}, share of the memory's bandwidth", share, GOAL))
    judge(figures)


if __name__ == "__main__":
    main()
