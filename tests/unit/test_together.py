"""How many calls one run executes: what is decided, and what a width that fails changes."""

import numpy as np
import pytest

from eigentensor.program.abreast import abreast
from eigentensor.runtime.compiled import CompiledGraph
from eigentensor.runtime.memory.plan import estimate_memory_requirements
from eigentensor.runtime.sandbox.together import (
    MESSAGE,
    PART,
    TRIES,
    WIDTHS,
    Asked,
    Together,
    admitted,
    most_together,
    width_of,
)
from support.stories.calls import counting, scaling

QUICK, SLOW = [0.3] * TRIES, [1.5] * TRIES


@pytest.mark.parametrize(
    ("count", "trials", "width"),
    [
        (8, {}, 1),
        (1, {2: []}, 1),
        (8, {2: [], 4: [], 8: []}, 8),  # what is not judged yet is tried, the largest first
        (7, {2: [], 4: [], 8: []}, 4),
        (8, {2: QUICK, 4: QUICK[1:], 8: QUICK}, 4),
        (8, {2: QUICK, 4: SLOW, 8: SLOW}, 2),
        (8, {2: SLOW, 4: SLOW, 8: SLOW}, 1),
        (8, {2: SLOW, 4: [0.5] * TRIES, 8: QUICK}, 8),
        (8, {2: SLOW, 4: QUICK, 8: [0.5] * TRIES}, 4),
        (3, {2: SLOW, 4: QUICK, 8: QUICK}, 1),
        (2, {2: [9, 0.5, 0.5, 0.5, 9]}, 2),  # the first run, and one that somebody held up
    ],
)
def test_a_run_is_of_the_width_at_which_a_call_takes_least(
    count: int, trials: dict[int, list[float]], width: int
) -> None:
    assert width_of(count, trials) == width


def test_widths_are_those_that_the_memory_holds() -> None:
    program = counting(1000)
    weights = 4 * 1000

    def own(width: int) -> int:
        return estimate_memory_requirements(abreast(program, width).program)["CPU"] - weights

    memory = weights + 2 * own(1)  # beside the process that it replaces
    assert admitted(program, memory, "CPU") == ()
    for number, width in enumerate(WIDTHS):
        memory += own(width)
        calls = width * 4 * 1000 * 4  # `x`, `total`, and the two that come back
        assert admitted(program, memory + calls - 1, "CPU") == WIDTHS[:number]
        assert admitted(program, memory + calls, "CPU") == WIDTHS[: number + 1]


def test_large_calls_are_handed_over_alone() -> None:
    elements = MESSAGE // 8 // 3  # of four bytes, in and out: a third of what is handed over
    few = [most_together(scaling(n), MESSAGE * PART) for n in (1, elements, 3 * elements + 3)]
    assert few == [WIDTHS[-1], 3, 1] and most_together(scaling(elements), 2 * MESSAGE * PART) == 6
    assert admitted(scaling(elements), MESSAGE * PART, "CPU") == (2,)


def test_calls_of_a_run_that_fails_are_executed_alone() -> None:
    program = scaling()
    one, two = (abreast(of, width) for of, width in ((program, 1), (counting(), 2)))
    other = CompiledGraph(two.program, {"w": np.ones(8, np.float32)})
    together = Together([(one, CompiledGraph(program)), (two, other)])  # which fails: it takes other tensors
    x = np.arange(24, dtype=np.float32).reshape(3, 8)
    for _ in range(2):
        assert list(together.run({"x": x}, [Asked({}, {}, ())] * 3, 1)) == [(row * row).tobytes() for row in x]
