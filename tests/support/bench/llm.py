"""Tokens per second of language models by kinds of their blocks, beside llama.cpp with the same file: in turn.

    scripts/bench llm [--peer PYTHON] [--one] [--layers N] [--chats 1,4,16 [--operator]] [SHAPE:KIND …]

SHAPE is qwen3-0.6b or gemma-3-270m, KIND one of F32, Q8_0, Q4_0, Q4_K. Files have random weights, written by the
library gguf; PYTHON is one that has it, and llama-cpp-python for a peer, built for this processor: without that its
columns are empty. A text of 32 tokens is written from its beginning, one token after the other, with sampling inside
here and the likeliest token there. `float` multiplies blocks out, `integer` quantises what they are multiplied with, as
llama.cpp does. GB/s is what the faster one reads of the file, beside what this processor's memory gives to as many
threads that only read. MB is what the program needs beside the weights' bytes. --one gives one thread to each and
counts the processor's time instead of the wall's: the figures of a busy machine. --layers N takes the first N layers.
--chats shows instead the tokens per second of so many chats together, by one run for all, each with its own position
and seed; all of their tokens are held to those of each chat alone. With --operator they go through an operator's warm
program, in its sandbox, 8 tokens a call, together and one after the other: per second of all processors' time.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil

from eigentensor import merkle
from eigentensor.errors import EigenTensorError
from eigentensor.program.abreast import abreast
from eigentensor.program.binding import Results
from eigentensor.runtime import CompiledGraph
from eigentensor.runtime.memory.plan import estimate_memory_requirements
from eigentensor.runtime.sandbox.confine import Limits
from eigentensor.runtime.sandbox.ready import Given
from eigentensor.runtime.sandbox.warm import WarmProgram
from eigentensor.store import save_safetensors
from eigentensor.system import memory
from eigentensor_client.writing import LIMITS, SAMPLED, Sampling
from eigentensor_models import gguf
from eigentensor_models.gguf_network import network_of
from eigentensor_models.writing import programs
from eigentensor_serve.openai.decoding import AT_ONCE
from support.bench.pairs import in_turn, say, seconds

PEER = Path(__file__).with_name("llm_peer.py")
TOKENS, CONTEXT, ROUNDS = 32, 256, 5
WARM = 12  #: calls of each chat before they are measured, in which widths are judged
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


def chatting(
    path: Path, counts: Sequence[int], threads: int, clock: Callable[[], float], *, integer: bool
) -> list[float]:
    """Tokens per second of so many chats together, a run for all of them. Raises AssertionError for other tokens."""
    writer = programs(network_of(gguf.read(path), path.name), CONTEXT, integer=integer).writer
    prompt, names = np.full(CONTEXT + 1, -1, np.int32), (*SAMPLED, *LIMITS)
    inputs = [{"prompt": prompt, **Sampling(0.8, seed=n).inputs(names)} for n in range(max(counts))]
    alone = CompiledGraph(writer.program, writer.weights, threads=threads)
    expected = [alone.run({**of, **writer.states}, {"position": n}, AT_ONCE).outputs for n, of in enumerate(inputs)]
    ways: dict[str, Callable[[], object]] = {}
    for count in counts:
        wide, rows = abreast(writer.program, count), range(count)
        graph = CompiledGraph(wide.program, writer.weights, threads=threads)
        given = wide.inputs({name: np.stack([of[name] for of in inputs[:count]]) for name in inputs[0]})
        places = wide.variables([{"position": row} for row in rows])
        room = graph.room(wide.states([writer.states] * count))
        run = partial(graph.run_in, room, given, places, AT_ONCE)
        written = run()
        assert all(np.array_equal(wide.outputs(written, row)["output"], expected[row]["output"]) for row in rows)
        ways[f"{count}"] = run
    times = in_turn(ways, ROUNDS, 1, clock)
    return [count * AT_ONCE / times[f"{count}"] for count in counts]


class Texts:
    """So many chats of an operator's warm program, each at a position of its own."""

    def __init__(self, warm: WarmProgram, inputs: Sequence[Mapping[str, Any]], states: Mapping[str, Any]) -> None:
        self.warm, self.inputs = warm, inputs
        self.left: list[Mapping[str, Any]] = [dict(states) for _ in inputs]
        self.position = [3 * number for number in range(len(inputs))]

    def calls(self) -> list[Given]:
        """The next call of each."""
        return [
            Given({**of, **states}, {"position": position})
            for of, states, position in zip(self.inputs, self.left, self.position, strict=True)
        ]

    def go_on(self, *, together: bool) -> list[Results]:
        """Executes them, whose states are left for the next ones."""
        each = [()] * len(self.left)
        if together:
            outcomes = self.warm.run_all(self.calls(), AT_ONCE, keep=each)
        else:
            outcomes = [self.warm.run(*call, AT_ONCE) for call in self.calls()]
        done = [one.results for one in outcomes if not isinstance(one, EigenTensorError)]
        self.left = [results.states for results in done]
        self.position = [position + AT_ONCE for position in self.position]
        return done


def operating(
    path: Path, counts: Sequence[int], threads: int, folder: Path, *, integer: bool
) -> list[tuple[float, float]]:
    """Tokens per second of so many chats together, and one after the other. Raises AssertionError for other results."""
    writer = programs(network_of(gguf.read(path), path.name), CONTEXT, integer=integer).writer
    save_safetensors(folder / "weights", writer.weights)
    prompt, names = np.full(CONTEXT + 1, -1, np.int32), (*SAMPLED, *LIMITS)
    inputs = [{"prompt": prompt, **Sampling(0.8, seed=n).inputs(names)} for n in range(max(counts))]
    speeds = list[tuple[float, float]]()
    within = Limits(memory=memory() // 2, seconds=3600.0, threads=threads)
    with WarmProgram(writer.program, [folder / "weights"], within) as warm:
        warm.widen()
        for count in counts:
            roots, speed = list[list[bytes]](), list[float]()
            for together in (True, False):
                texts, times, last = Texts(warm, inputs[:count], writer.states), list[float](), list[Results]()
                for _ in range(WARM + ROUNDS):
                    start = processor_seconds()
                    last = texts.go_on(together=together)
                    times.append(processor_seconds() - start)
                roots.append([merkle.results_root(writer.program, results) for results in last])
                speed.append(count * AT_ONCE / median(times[WARM:]))
            assert roots[0] == roots[1]
            speeds.append((speed[0], speed[1]))
    return speeds


def processor_seconds() -> float:
    """Of this process and those that it began."""
    here = psutil.Process()
    return sum(sum(one.cpu_times()[:2]) for one in (here, *here.children(recursive=True)))


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


def written(name: str, python: str, folder: Path, layers: int | None) -> Path:
    """The file of a shape and a kind, with so many layers, or all."""
    shape_name, kind = name.split(":")
    shape = SHAPES[shape_name]
    shape = replace(shape, layers=min(layers or shape.layers, shape.layers))
    path = folder / f"{shape_name}-{shape.layers}-{kind}.gguf"
    if not path.exists():
        subprocess.run([python, str(PEER), "write", str(path), json.dumps(asdict(shape)), kind], check=True)
    return path


def measure(name: str, threads: int, python: str, folder: Path, layers: int | None, *, one: bool) -> None:
    clock = time.process_time if one else time.perf_counter
    path, kind = written(name, python, folder, layers), name.split(":")[1]
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


def measure_chats(
    name: str, threads: int, python: str, folder: Path, layers: int | None, counts: Sequence[int], *,
    one: bool, operator: bool,
) -> None:  # fmt: skip
    clock = time.process_time if one else time.perf_counter
    path = written(name, python, folder, layers)
    for integer in (False, True) if not name.endswith(":F32") else (False,):
        line = f"{name} {threads} {'integer' if integer else 'float'}"
        if operator:
            together, alone = zip(*operating(path, counts, threads, folder, integer=integer), strict=True)
            say(line, *together)
            say(f"{line}, in turn", *alone)
        else:
            say(line, *chatting(path, counts, threads, clock, integer=integer))


def main() -> None:
    arguments = argparse.ArgumentParser(usage=__doc__)
    arguments.add_argument("names", nargs="*", default=NAMES)
    arguments.add_argument("--peer", default=sys.executable)
    arguments.add_argument("--one", action="store_true")
    arguments.add_argument("--layers", type=int)
    arguments.add_argument("--chats", type=lambda text: [int(count) for count in text.split(",")])
    arguments.add_argument("--operator", action="store_true")
    options = arguments.parse_args()
    of_model: dict[str, Any] = {"python": options.peer, "layers": options.layers, "one": options.one}
    if options.chats:
        say("tokens/s", *(f"{count} chats" for count in options.chats))
    else:
        say("tokens/s", "float", "integer", "llama.cpp", "× of that", "GB/s", "memory", "MB more")
    with tempfile.TemporaryDirectory() as folder:
        of_model["folder"] = Path(folder)
        take: Callable[[str, int], None] = partial(measure, **of_model)
        if options.chats:
            take = partial(measure_chats, counts=options.chats, operator=options.operator, **of_model)
        for name in options.names:
            for threads in (1,) if options.one else (1, 2):
                take(name, threads)


if __name__ == "__main__":
    main()
