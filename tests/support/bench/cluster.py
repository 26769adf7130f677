"""Programs on several workers: what is moved between them, what the largest one holds and computes; planning.

scripts/bench cluster             the table of sdk/README.md, which is the same on every machine
scripts/bench cluster --planning  processor time of planning a program of a thousand calls
scripts/bench scaling             two workers beside one: how much sooner they are done
scripts/bench paper               the same of language models on GPUs, on paper
"""

import sys
import time
from collections.abc import Callable, Iterable
from functools import partial

from eigentensor.graph.lower import lower
from eigentensor.program import Program
from eigentensor.program.cost import body_cost
from eigentensor.sharding.layout import axes_of, made, volumes
from eigentensor.sharding.plan import Plan, plan
from support.bench.pairs import say
from support.programs.planned import decoder
from support.programs.sharded import LARGE, captured
from support.vectors.programs import README, between

WORKERS = (2, 4)
#: A program of which each worker has room for so many times its share of what one alone holds.
NARROW, ROOM = "MLP 784-1024-1024-10, 16 rows", 1.2
PART = ("<!-- cluster: scripts/bench cluster --write -->\n", "<!-- end of cluster -->\n")
HEAD = """\
| program | calls | workers | moved, KiB | for states, KiB | one worker holds | one worker computes | all compute |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


def computed(program: Program, planned: Plan) -> tuple[float, float]:
    """The evaluations of the worker that has most to do of each call, and those of all, for one of the program."""
    workers, first, most, of_all, whole = len(planned.workers), len(program.buffers), 0.0, 0.0, 0.0
    for number, (call, place) in enumerate(zip(program.calls, planned.places, strict=True)):
        each = volumes(made(place, axes_of(program)[first + number], workers))
        cost = body_cost(program.bodies[call.body]).evaluations / program.bodies[call.body].parameters[0].elements
        most, of_all, whole = (
            most + cost * max(each),
            of_all + cost * sum(each),
            whole + cost * volume_of(program, number),
        )
    return most / whole, of_all / whole


def volume_of(program: Program, call: int) -> int:
    return program.bodies[program.calls[call].body].parameters[0].elements


def rows(names: Iterable[str]) -> list[str]:
    """Rows of the table."""
    lines = []
    for name in names:
        program = captured(name).program
        alone = plan(program, 1)
        free = [plan(program, workers) for workers in WORKERS]
        lines.append(row(name, program, alone, free))
        if name == NARROW:
            bound = [plan(program, n, memory=int(alone.held * ROOM / n)) for n in WORKERS]
            lines.append(row(f"the same, each with room for {ROOM} of its share", program, alone, bound))
    return lines


def row(name: str, program: Program, alone: Plan, plans: list[Plan]) -> str:
    """One row: a number for each count of workers."""
    shares = [computed(program, planned) for planned in plans]
    cells = (
        [f"{round(planned.moved / 1024):,}" for planned in plans],
        [f"{round(planned.renewed / 1024):,}" for planned in plans],
        [f"{planned.held / alone.held:.2f}" for planned in plans],
        [f"{most:.3f}" for most, _ in shares],
        [f"{of_all:.3f}" for _, of_all in shares],
    )
    counts = "; ".join(map(str, WORKERS))
    return f"| {name} | {len(program.calls)} | {counts} | {' | '.join(map('; '.join, cells))} |"


def planning() -> None:
    program = lower(decoder(58), fingerprint=False).program
    say("calls", "workers", "seconds")
    for workers in WORKERS:
        say(len(program.calls), workers, took(partial(plan, program, workers)))


def took(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def main() -> None:
    if "--planning" in sys.argv:
        planning()
    else:
        table = "\n".join([HEAD, *rows(LARGE)]) + "\n"
        sys.stdout.write(table)
        if "--write" in sys.argv:
            README.write_text(between(README.read_text(), *PART, table))


if __name__ == "__main__":
    main()
