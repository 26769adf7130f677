"""What a decoder's step costs when its caches stay where they are, beside passing them in and out.

    scripts/bench append

Three ways to take the same steps, in turn in one process, medians: caches go in and come out with every run; they stay
in a graph compiled with `keep_states`; all steps are one run that repeats. Then the calls that append alone: the whole
cache, as a first iteration writes it, over the part, as later ones do.
"""

from collections.abc import Callable

import numpy as np

from eigentensor.capture import capture
from eigentensor.runtime import CompiledGraph
from eigentensor.runtime.cpu.table import Table
from support.bench.pairs import in_turn, say
from support.programs import models
from support.programs.models import Model

STEPS = 8
SIZES = ((1, 256, 4, 1024), (1, 256, 4, 8192), (2, 768, 12, 1024), (1, 768, 12, 4096))


def ways(of: Model, last: int) -> tuple[dict[str, Callable[[], object]], Table]:
    """Each takes the last steps of a context, which read nearly all of it."""
    variables = {name: tuple(limits) for name, limits in of.variables.items()}
    graph = capture(of.function, of.inputs, of.model, variables=variables, max_repeat=STEPS)
    kept = CompiledGraph(graph.program, {**graph.weights, **graph.states}, keep_states=True)
    plain = CompiledGraph(graph.program, graph.weights)
    first = last + 1 - STEPS

    def passed() -> None:
        states = dict(graph.states)
        for position in range(first, last + 1):
            states = plain.run({**of.inputs, **states}, {"position": position}).states

    def stay() -> None:
        for position in range(first, last + 1):
            kept.run(of.inputs, {"position": position})

    def repeated() -> None:
        plain.run({**of.inputs, **graph.states}, {"position": first}, STEPS)

    stay()
    assert isinstance(kept.loaded, Table)
    return {"in and out": passed, "kept": stay, "one run": repeated}, kept.loaded


def appends(table: Table, turn: int) -> Callable[[], None]:
    """Only the calls that append to a state."""
    steps = [table.steps[call] - 1 for call in table.plan.later]
    chosen = np.ascontiguousarray(table.tables[turn][steps])
    return lambda: table.driver.run(chosen, 1)


def main() -> None:
    say("µs a step", "in and out", "kept", "× kept", "one run", "× repeat", "append all", "part", "× append")
    for layers, width, heads, context in SIZES:
        of = models.gpt2_step(layers, width, heads, context, 1000)
        runs, table = ways(of, context - 1)
        times = {name: seconds / STEPS for name, seconds in in_turn(runs, rounds=7).items()}
        times |= in_turn({"all": appends(table, 0), "part": appends(table, 1)}, rounds=21)
        us = {name: seconds * 1e6 for name, seconds in times.items()}
        ratios = us["in and out"] / us["kept"], us["in and out"] / us["one run"], us["all"] / us["part"]
        say(
            of.name, us["in and out"], us["kept"], ratios[0], us["one run"], ratios[1], us["all"], us["part"], ratios[2]
        )


if __name__ == "__main__":
    main()
