"""Where calls of a program may be wanted on so many workers: data, tensor and pipeline parallel, and other ways."""

from collections.abc import Callable, Sequence

from eigentensor.program import Program
from eigentensor.sharding.signals import Hint

Hints = Sequence[Hint | None]


def along(axis: int) -> Callable[[Program, int], Hints]:
    """Every call is cut along an axis, where that is long enough."""
    return lambda program, workers: [Hint(axis, tuple(range(workers)), False)] * len(program.calls)


def in_stages(program: Program, workers: int) -> Hints:
    """The first calls on the first worker, and so on."""
    calls = len(program.calls)
    return [Hint(0, (number * workers // calls,), False) for number in range(calls)]


def in_wide_stages(program: Program, workers: int) -> Hints:
    """Two stages, the first over all workers but the last, the second over all but the first."""
    calls, half = len(program.calls), len(program.calls) // 2
    first, second = (
        Hint(0, tuple(of), False) for of in (range(max(1, workers - 1)), range(min(1, workers - 1), workers))
    )
    return [first if number < half else second for number in range(calls)]


def replicated(program: Program, workers: int) -> Hints:
    """What is made is brought to every worker."""
    return [Hint(0, tuple(range(workers)), True)] * len(program.calls)


def found(program: Program, workers: int) -> Hints:
    """Nobody wants anything: the cheapest places are found."""
    return ()


PLACES: dict[str, Callable[[Program, int], Hints]] = {
    "found": found,
    "along the batch": along(0),
    "along features or channels": along(1),
    "along the last axis": along(-1),
    "in stages": in_stages,
    "in wide stages": in_wide_stages,
    "replicated": replicated,
}
