"""Two or more ways of doing the same, measured in turn in one process: other work on the machine disturbs all alike."""

import sys
import time
from collections.abc import Callable, Mapping
from statistics import geometric_mean, median

Clock = Callable[[], float]
#: Seconds before each way. Threads of OpenBLAS and OpenMP go on spinning after their work: longer than what comes next.
REST = 0.1


def seconds(run: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    start = clock()
    run()
    return clock() - start


def in_turn(
    ways: Mapping[str, Callable[[], object]], rounds: int = 15, warm: int = 3, clock: Clock = time.perf_counter
) -> dict[str, float]:
    """Median seconds of each way; they take turns in every round. Each runs once before it is measured: what sleeps in
    a rest, as threads do, wakes up.

    With `time.process_time` other work on the machine counts only by what it takes from caches and memory; then all
    ways should have one thread.
    """
    for _ in range(warm):
        for run in ways.values():
            run()
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, run in ways.items():
            time.sleep(REST)
            run()
            times[name].append(seconds(run, clock))
    return {name: median(of) for name, of in times.items()}


def say(*cells: object, widths: tuple[int, ...] = (34,)) -> None:
    """A line of a table: the first cell to the left, numbers to the right with three digits behind the point."""
    texts = [f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in cells]
    first, *rest = texts
    sys.stdout.write(f"{first:{widths[0]}}" + "".join(f"{text:>12}" for text in rest) + "\n")
    sys.stdout.flush()


def mean_ratio(pairs: list[tuple[float, float]]) -> float:
    """The geometric mean of first / second."""
    return geometric_mean(a / b for a, b in pairs)
