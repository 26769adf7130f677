"""Two or more ways of doing the same, measured in turn in one process: other work on the machine disturbs all alike."""

import sys
import time
from collections.abc import Callable, Mapping
from statistics import geometric_mean, median


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def in_turn(ways: Mapping[str, Callable[[], object]], rounds: int = 15, warm: int = 3) -> dict[str, float]:
    """Median seconds of each way; they run one after the other in every round."""
    for _ in range(warm):
        for run in ways.values():
            run()
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, run in ways.items():
            times[name].append(seconds(run))
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
