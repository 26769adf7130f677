"""How well paths are chosen: beside the best of all that were measured, kernel by kernel and as whole programs; how
far estimates are off; what choosing takes, by layers; memory of sums; tokens per second.

`scripts/bench planner [PATHS]` begins with an empty database and an empty kernel cache, looks at so many programs for
each block [48], and then measures them all. The chosen program and those that by their kernels are the next best are
executed in turn, each on one thread by the processor's time.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import exp, log
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from eigentensor.cache import Cache
from eigentensor.graph import Graph, GraphBuilder
from eigentensor.graph.lower import lower
from eigentensor.graph.node import walk
from eigentensor.planner.measure import Meter
from eigentensor.planner.plan import TOLERANCE, Planner
from eigentensor.planner.sample import sample_of
from eigentensor.planner.search import Candidate, Search
from eigentensor.program.model import Role
from eigentensor.runtime import CompiledGraph
from eigentensor.runtime.build.database import Database
from eigentensor.runtime.cpu import toolchain
from eigentensor.runtime.memory.plan import plan as memory_plan
from support.bench import tokens as bench_tokens
from support.bench.pairs import in_turn
from support.programs.planned import decoder, fifty_sums, tanh_of_a_sum

LAYERS = (2, 24)
MOST = 48  #: programs for each block
NEXT = 4  #: programs that are executed beside the chosen one
SAMPLE = 0.01  #: seconds, roughly, of kernels in a sample of them


@contextmanager
def nothing_known() -> Iterator[Meter]:
    with TemporaryDirectory() as folder, Database(Path(folder) / "times.sqlite") as database:
        yield Meter(toolchain.local(), Cache(Path(folder) / "kernels"), database)


def network(tokens: int = 64, width: int = 128) -> Graph:
    builder, random = GraphBuilder(), np.random.default_rng(0)
    up, down = (
        builder.weight(name, random.normal(0, rows**-0.5, (rows, columns)).astype(np.float32))
        for name, rows, columns in (("up", width, 4 * width), ("down", 4 * width, width))
    )
    return builder.graph((builder.input("x", (tokens, width)) @ up).gelu() @ down)


def softmax(rows: int = 128, columns: int = 256) -> Graph:
    builder = GraphBuilder()
    return builder.graph(builder.input("x", (rows, columns)).softmax())


def layernorm(rows: int = 128, columns: int = 256) -> Graph:
    builder = GraphBuilder()
    return builder.graph(builder.input("x", (rows, columns)).layernorm())


GRAPHS: dict[str, Callable[[], Graph]] = {
    "tanh(x + y)": lambda: tanh_of_a_sum(128, 256),
    "softmax": softmax,
    "layernorm": layernorm,
    "gelu network": network,
    "decoder's block": lambda: decoder(1, 32, 64),
}


def chosen_beside_best(most: int) -> None:
    say(f"{'':18}{'programs':>10}{'as it is':>12}{'chosen':>12}{'best':>12}{'chosen/best':>13}{'executed':>13}")
    ratios, executed, wrong = [], [], []
    for name, make in GRAPHS.items():
        graph = make()
        with nothing_known() as meter:
            search = Search(graph, meter, sample_of(graph), TOLERANCE, most=most)
            search.run()
            chosen = next(search.ranked())
            estimates = {c: c.cost.seconds for c in search.candidates if not c.cost.measured}
            search.run_all()
            exact = [c.cost.seconds for c in search.candidates if not c.verdict]
            wrong += [abs(log(c.cost.seconds / estimate)) for c, estimate in estimates.items()]
            times = search.candidates[0].cost.seconds, chosen.cost.seconds, min(exact)
            executed.append(beside_the_next(search, chosen))
        ratios.append(times[1] / times[2])
        shown = "".join(f"{seconds * 1e6:9.1f} µs" for seconds in times)
        say(f"{name:18}{len(search.candidates):10}{shown}{ratios[-1]:13.3f}{executed[-1]:13.3f}")
    for of, ways in ((ratios, "by their kernels"), (executed, f"executed beside the {NEXT} next")):
        say(f"chosen/best {ways}: mean {exp(np.mean(np.log(of))):.3f}, largest {max(of):.3f}; goal 1.05")
    errors = np.expm1(wrong)
    say(
        f"{len(errors)} estimates of programs that were not measured: relative error median {np.median(errors):.1%},"
        f" 90th percentile {np.quantile(errors, 0.9):.1%}"
    )


def beside_the_next(search: Search, chosen: Candidate) -> float:
    """Seconds of the chosen program beside the fastest of it and the next best, all executed as a whole."""
    exact = (c for c in search.candidates if not c.verdict and c is not chosen)
    others = sorted(exact, key=lambda c: c.cost.seconds)[:NEXT]
    count = max(1, round(SAMPLE / chosen.cost.seconds))
    ways = {str(number): repeated(c, search, count) for number, c in enumerate([chosen, *others])}
    times = in_turn(ways, rounds=9, clock=time.process_time)
    return times["0"] / min(times.values())


def repeated(of: Candidate, search: Search, count: int) -> Callable[[], None]:
    program, meter = of.made.program, search.meter
    assert isinstance(meter, Meter)
    tensors = {**of.path.graph.data, **search.sample.tensors}
    weights = {name: tensors[name] for name in program.named(Role.WEIGHT)}
    inputs = {name: tensors[name] for name in program.named(Role.INPUT)}
    compiled = CompiledGraph(program, weights, threads=1, cache=meter.cache, toolchain=meter.toolchain)

    def run() -> None:
        for _ in range(count):
            compiled.run(inputs)

    return run


def planning_by_layers(most: int) -> None:
    seconds = {}
    for layers in LAYERS:
        graph = decoder(layers, 32, 64)
        with nothing_known() as meter:
            start = time.process_time(), time.perf_counter()
            planner = Planner(graph, meter, most=most)
            searches = planner.searches()
            used = time.process_time() - start[0], time.perf_counter() - start[1]
            begun = time.perf_counter()
            calls = len(lower(graph).program.calls)
            lowering = time.perf_counter() - begun
        seconds[layers] = used
        places = " + ".join(f"{len(block.places)} × {len(search.candidates)}" for block, search in searches)
        say(
            f"{layers:3} layers, {len(list(walk(*graph.roots))):,} tensors: planning {used[1]:.1f} s, {used[0]:.1f} s"
            f" of them in this process; {meter.bodies_measured} kernels measured, places × programs {places};"
            f" lowering {lowering:.2f} s, {calls} calls"
        )
    few, many = (seconds[layers] for layers in LAYERS)
    ratios = many[1] / few[1], many[0] / few[0]
    say(f"{LAYERS[1]} layers / {LAYERS[0]}: {ratios[0]:.2f}, in this process {ratios[1]:.2f}; goal 1.5")


def memory() -> None:
    program = lower(fifty_sums(), fingerprint=False).program
    naive = sum(program.bodies[call.body].parameters[0].elements * 4 for call in program.calls)
    planned = memory_plan(program, over=True).size + 4 * 256 * 256  # its result has memory of its own
    ratio = naive / planned
    say(f"{len(program.calls)} sums of 256²: {planned:,} bytes, naive {naive:,}: {ratio:.1f} times less; goal 10")


def main() -> None:
    most = int(sys.argv[1]) if len(sys.argv) > 1 else MOST
    memory()
    planning_by_layers(most)
    chosen_beside_best(most)
    say("tokens/s, one thread: repeated, step by step, as a graph, tinygrad's, times as many, tokens alike, MB")
    bench_tokens.measure("small_step", one=True)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
