"""Tokens per second of language models by kinds of their blocks, beside llama.cpp with the same file: in turn.

    scripts/bench llm [--peer PYTHON] [--one] [--layers N] [SHAPE:KIND …]

SHAPE is qwen3-0.6b or gemma-3-270m, KIND one of F32, Q8_0, Q4_0, Q4_K. Files have random weights, written by the
library gguf; PYTHON is one that has it, and llama-cpp-python for a peer, built for this processor: without that its
columns are empty. A text of 32 tokens is written from its beginning, one token after the other, with sampling inside
here and the likeliest token there. `float` multiplies blocks out, `integer` quantises what they are multiplied with, as
llama.cpp does. GB/s is what the faster one reads of the file, beside what this processor's memory gives to as many
threads that only read. MB is what the program needs beside the weights' bytes. --one gives one thread to each and
counts the processor's time instead of the wall's: the figures of a busy machine. --layers N takes the first N layers.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from eigentensor.runtime import CompiledGraph
from eigentensor.runtime.memory.plan import estimate_memory_requirements
from eigentensor_client.writing import LIMITS, SAMPLED, Sampling
from eigentensor_models import gguf
from eigentensor_models.gguf_network import network_of
from eigentensor_models.writing import programs
from support.bench.pairs import say, seconds

PEER = Path(__file__).with_name("llm_peer.py")
TOKENS, CONTEXT, ROUNDS = 32, 256, 5
Way = Callable[[], float]


@dataclass(frozen=True)
class Shape:
    """Of a model, as `llm_peer` writes it."""

    arch: str
    layers: int
    width: int
    heads: int
    key_heads: int
    size: int
    hidden: int
    vocabulary: int


SHAPES = {
    "qwen3-0.6b": Shape("qwen3", 28, 1024, 16, 8, 128, 3072, 151936),
    "gemma-3-270m": Shape("gemma3", 18, 640, 4, 1, 256, 2048, 262144),
}
KINDS = ("F32", "Q8_0", "Q4_0", "Q4_K")
NAMES = [f"{shape}:{kind}" for shape in SHAPES for kind in KINDS if (shape, kind) != ("gemma-3-270m", "Q4_K")]


def ours(path: Path, threads: int, clock: Callable[[], float], *, integer: bool) -> tuple[Way, int]:
    """What writes a text, in seconds, and bytes that it needs beside weights."""
    graph = programs(network_of(gguf.read(path), path.name), CONTEXT, integer=integer).writer.repeatable(TOKENS)
    compiled = CompiledGraph(graph.program, graph.weights, threads=threads, keep_states=True)
    inputs = {"prompt": np.full(CONTEXT + 1, -1, np.int32), **Sampling().inputs((*SAMPLED, *LIMITS)), **graph.states}
    weights = sum(array.nbytes for array in graph.weights.values())
    needed = estimate_memory_requirements(graph.program, "CPU", TOKENS)["CPU"] - weights
    return lambda: seconds(lambda: compiled.run(inputs, {"position": 0}, TOKENS), clock), needed


@contextmanager
def theirs(python: str, path: Path, threads: int, *, one: bool) -> Iterator[Way | None]:
    """The same by llama.cpp; None if that is not there."""
    command = [python, str(PEER), "decode", str(path), str(threads), str(TOKENS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines, answers = process.stdin, process.stdout

        def way() -> float:
            lines.write("\n")
            lines.flush()
            wall, cpu = json.loads(answers.readline())
            return float(cpu if one else wall)

        yield way if answers.readline() == "ready\n" else None
        lines.close()


def reading(threads: int, clock: Callable[[], float]) -> Way:
    """Seconds for reading a gigabyte."""
    parts = np.array_split(np.ones(1 << 27, np.uint64), threads)
    pool = ThreadPoolExecutor(threads)
    return lambda: seconds(lambda: list(pool.map(np.bitwise_or.reduce, parts)), clock)


def measure(name: str, threads: int, python: str, folder: Path, layers: int | None, *, one: bool) -> None:
    shape_name, kind = name.split(":")
    shape, clock = SHAPES[shape_name], time.process_time if one else time.perf_counter
    shape = replace(shape, layers=min(layers or shape.layers, shape.layers))
    path = folder / f"{shape_name}-{shape.layers}-{kind}.gguf"
    if not path.exists():
        subprocess.run([python, str(PEER), "write", str(path), json.dumps(asdict(shape)), kind], check=True)
    ways: dict[str, Way] = {"memory": reading(threads, clock)}
    ways["float"], needed = ours(path, threads, clock, integer=False)
    if kind != "F32":
        ways["integer"], needed = ours(path, threads, clock, integer=True)
    with theirs(python, path, threads, one=one) as way:
        if way is not None:
            ways["llama.cpp"] = way
        times = {key: list[float]() for key in ways}
        for _ in range(ROUNDS + 1):
            for key, run in ways.items():
                times[key].append(run())
    taken = {key: median(of[1:]) for key, of in times.items()}
    speeds = {key: TOKENS / taken[key] if key in taken else "" for key in ("float", "integer", "llama.cpp")}
    best = min(taken[key] for key in ("float", "integer") if key in taken)
    say(
        f"{name} {threads}", *speeds.values(),
        taken["llama.cpp"] / best if "llama.cpp" in taken else "",
        path.stat().st_size * TOKENS / best * 1e-9, (1 << 30) / taken["memory"] * 1e-9, needed * 1e-6,
    )  # fmt: skip


def main() -> None:
    arguments = argparse.ArgumentParser(usage=__doc__)
    arguments.add_argument("names", nargs="*", default=NAMES)
    arguments.add_argument("--peer", default=sys.executable)
    arguments.add_argument("--one", action="store_true")
    arguments.add_argument("--layers", type=int)
    options = arguments.parse_args()
    say("tokens/s", "float", "integer", "llama.cpp", "× of that", "GB/s", "memory", "MB more")
    with tempfile.TemporaryDirectory() as folder:
        take = partial(measure, python=options.peer, folder=Path(folder), layers=options.layers, one=options.one)
        for name in options.names:
            for threads in (1,) if options.one else (1, 2):
                take(name, threads)


if __name__ == "__main__":
    main()
