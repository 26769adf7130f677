"""What is computed again after a change, and how long it takes: shares of a full run, measured in turn in one process.

scripts/bench incremental [--one]     one thread each, and the processor's time: the figures of a busy machine
"""

import sys
import time
from collections.abc import Callable
from itertools import cycle
from typing import Any

from eigentensor.runtime import CompiledGraph
from eigentensor.runtime.incremental import Incremental, memory_of
from eigentensor.runtime.memory.plan import estimate_memory_requirements
from support.bench.goals import Goal, judge
from support.bench.pairs import in_turn, say
from support.programs import models
from support.programs.models import Model

GOAL = Goal(2, least=False, unit=" %")  # of the evaluations, for a row of two products
Place = tuple[int | slice, ...]
CASES: tuple[tuple[Callable[[], Model], str, str, Place], ...] = (
    (models.perceptron, "a row", "x", (300,)),
    (models.causal, "a token at the end", "tokens", (0, 255)),
    (models.causal, "a token in the middle", "tokens", (0, 128)),
    (models.bert, "a token", "tokens", (0, 127)),
    (models.resnet18, "a patch of 8 × 8", "images", (0, slice(None), slice(40, 48), slice(60, 68))),
    (lambda: models.resnet18(224), "16 × 16", "images", (0, slice(None), slice(80, 96), slice(120, 136))),
    (lambda: models.resnet18(224), "all", "images", (slice(None),)),
    (models.digits, "one of the images", "images", (50,)),
)


def measure(of: Model, name: str, place: Place, *, one: bool) -> tuple[Any, ...]:
    graph, threads = of.captured(), 1 if one else None
    full = CompiledGraph(graph.program, graph.weights, threads=threads)
    again = Incremental(graph.program, graph.weights, threads=threads)
    changed = {n: array.copy() for n, array in of.inputs.items()}
    changed[name][place] += 1
    inputs = cycle([of.inputs, changed])
    last = again.run(next(inputs))
    last = again.run(next(inputs))
    clock = time.process_time if one else time.perf_counter
    times = in_turn({"again": lambda: again.run(next(inputs)), "full": lambda: full.run(changed)}, clock=clock)
    memory = memory_of(graph.program) / estimate_memory_requirements(graph.program)["CPU"]
    shares = last.computed.calls / last.of.calls, last.computed.evaluations / last.of.evaluations
    return (*shares, times["again"] / times["full"], 1000 * times["full"], memory)


if __name__ == "__main__":
    say("", "calls", "evaluations", "time", "full, ms", "memory", widths=(58,))
    for make, what, name, place in CASES:
        of = make()
        figures = measure(of, name, place, one="--one" in sys.argv)
        say(f"{of.name}: {what}", *figures, widths=(58,))
        if make is models.perceptron:
            judge([(f"{of.name}: {what}, evaluations of a full run", 100 * figures[1], GOAL)])
