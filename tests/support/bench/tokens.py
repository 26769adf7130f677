"""Tokens per second of a decoder, beside tinygrad's default on the same processor: measured in turn in one process.

    scripts/bench tokens [--one] [--from POSITION] [MODEL …]

MODEL is a function of `support.programs.models`, with numbers: gemma_step:18:128, small_step:2048.

The same tinygrad code writes the same text, with sampling inside; the clock runs from the first position to the last.
`repeat` is one execution of all positions, `steps` one for each, whose states stay on the device; `tinygrad` is TinyJit
over the position as a variable, DEV=CPU, whose cache and tokens stay, too. `graph` is `repeat` of the program that the
planner begins with: the same function as a graph. `alike` is how many of the first tokens tinygrad has in common with
the program: its sums have another order. MB is what the program needs in all. --one gives one thread to each and counts
the processor's time instead of the wall's: the figures of a busy machine. --from N begins at that position.
"""

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tinygrad import Tensor, TinyJit, UOp, nn

from eigentensor.graph.lower import lower
from eigentensor.runtime import CompiledGraph
from eigentensor.runtime.memory.plan import estimate_memory_requirements
from support.bench.goals import Goal, judge
from support.bench.models import model
from support.bench.pairs import in_turn, say
from support.programs.models import Model

NAMES = ("small_step", "gemma_step")
TOKENS = 16
#: Of the graph's tokens per second, beside the better of both programs.
GOAL = Goal(0.95)
Write = Callable[[], Any]
Tensors = Mapping[str, np.ndarray[Any, Any]]


def repeated(of: Model, compiled: CompiledGraph, states: Tensors, first: int) -> Write:
    return lambda: compiled.run({**of.inputs, **states}, {"position": first}, TOKENS).outputs["output"]


def one_by_one(of: Model, compiled: CompiledGraph, states: Tensors, first: int) -> Write:
    def write() -> Any:
        for position in range(first, first + TOKENS):
            tensors = of.inputs if position > first else {**of.inputs, **states}
            results = compiled.run(tensors, {"position": position})
        return results.outputs["output"]

    return write


def by_tinygrad(of: Model, first: int) -> Write:
    states = [of.model.tokens, *nn.state.get_parameters(of.model.caches)]
    step = TinyJit(lambda *arguments: of.function(*arguments).realize(*states))
    position = UOp.variable("position", *of.variables["position"][:2])
    tensors = [Tensor(array).clone().realize() for array in of.inputs.values()]

    def write() -> Any:
        for place in range(first, first + TOKENS):
            tokens = step(*tensors, position.bind(place))
        return tokens.numpy()

    return write


def measure(name: str, *, one: bool, first: int = 0) -> None:
    of = model(name)
    graph, planned = of.captured(), lower(of.as_graph()).repeatable(TOKENS)
    program = graph.repeatable(TOKENS).program
    ways: dict[str, Write] = {}
    for threads in (1,) if one else (2, 1):
        compiled = CompiledGraph(program, graph.weights, threads=threads, keep_states=True)
        ways[f"repeat {threads}"] = repeated(of, compiled, graph.states, first)
        ways[f"steps {threads}"] = one_by_one(of, compiled, graph.states, first)
    compiled = CompiledGraph(planned.program, planned.weights, threads=1, keep_states=True)
    ways["graph 1"] = repeated(of, compiled, planned.states, first)
    ways["tinygrad"] = by_tinygrad(of, first)
    written = {way: write()[first : first + TOKENS + 1] for way, write in ways.items()}
    ours = written["repeat 1"]
    if any(tokens.tobytes() != ours.tobytes() for way, tokens in written.items() if way != "tinygrad"):
        raise AssertionError("the ways to execute a program write different texts")
    alike = int(np.cumprod(ours == written["tinygrad"]).sum()) - 1
    times = in_turn(ways, rounds=3, warm=1, clock=time.process_time if one else time.perf_counter)
    say(
        of.name,
        *(TOKENS / times[way] for way in ways),
        *(times["tinygrad"] / times[way] for way in ways if way.startswith("repeat")),
        f"{alike}/{TOKENS}",
        estimate_memory_requirements(program, "CPU", TOKENS)["CPU"] * 1e-6,
    )
    better = min(times["graph 1"], times["repeat 1"])
    judge([(f"{of.name}, as a graph beside the better of graph and captured", better / times["graph 1"], GOAL)])


def main() -> None:
    arguments = argparse.ArgumentParser(usage=__doc__)
    arguments.add_argument("names", nargs="*", default=list(NAMES))
    arguments.add_argument("--one", action="store_true")
    arguments.add_argument("--from", type=int, default=0, dest="first")
    options = arguments.parse_args()
    one = options.one
    threads = ("1",) if one else ("2", "1")
    ways = [f"{way} {n}" for n in threads for way in ("repeat", "steps")]
    say("tokens/s", *ways, "graph 1", "tinygrad", *(f"× by {n}" for n in threads), "alike", "MB")
    for name in options.names:
        measure(name, one=one, first=options.first)


if __name__ == "__main__":
    main()
