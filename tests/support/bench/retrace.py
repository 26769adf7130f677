"""What a trace costs the defender of a result: a thousand calls over a gigabyte that is never there at once.

Seconds by the clock and of processors, and the most memory that a process held, of which neither is told of what runs
in bubblewrap: the child runs without. Every run is one of a new process, medians of rounds in which all take turns.
"""

import json
import subprocess
import sys
import time
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from statistics import median
from typing import TypedDict

from eigentensor.program import encode
from eigentensor.program.cost import costs
from eigentensor.reexecution.confined import limits
from eigentensor.runtime.sandbox.execution import observe_sandboxed, run_sandboxed
from support.bench.pairs import say
from support.programs.long_program import example

ROUNDS = 3
LAST = 999


class Options(TypedDict, total=False):
    """Of `observe_sandboxed`."""

    roots: bool
    keep: set[int]


WAYS: dict[str, Options] = {
    "execution": {},
    "retrace": {"roots": True},
    "retrace, a call kept with what it reads": {"roots": True, "keep": {LAST, LAST - 1, LAST - 2}},
}


def run(way: str) -> tuple[float, float, float]:
    """Seconds, processor seconds and MB of one run."""
    made = example()
    arguments = encode(made.program), made.tensors, made.variables, 1, limits(64 << 20, 300)
    before, start = getrusage(RUSAGE_CHILDREN), time.perf_counter()
    if WAYS[way]:
        observe_sandboxed(*arguments, **WAYS[way], unsafe=True)
    else:
        run_sandboxed(*arguments, unsafe=True)
    taken, after = time.perf_counter() - start, getrusage(RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return taken, processor, max(after.ru_maxrss, getrusage(RUSAGE_SELF).ru_maxrss) * 1024 / 1e6


def main() -> None:
    if sys.argv[1:]:
        sys.stdout.write(json.dumps(run(sys.argv[1])))
        return
    program = example().program
    written = costs(program).all_bytes / 1e9
    figures: dict[str, list[tuple[float, float, float]]] = {way: [] for way in WAYS}
    for number in range(ROUNDS + 1):
        for way, of in figures.items():
            command = [sys.executable, "-m", "support.bench.retrace", way]
            completed = subprocess.run(command, stdout=subprocess.PIPE, check=True)
            if number:  # the first compiles
                of.append(json.loads(completed.stdout))
    say(f"{len(program.calls):,} calls, {written:.2f} GB", "s", "processor s", "MB", widths=(42,))
    for way, of in figures.items():
        *times, memory = zip(*of, strict=True)
        say(way, *(median(taken) for taken in times), f"{max(memory):.0f}", widths=(42,))
    say(f"medians of {ROUNDS} rounds; the most memory")


if __name__ == "__main__":
    main()
