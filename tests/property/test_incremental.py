"""Any changed region of any graph: the bits of a full run."""

from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tinygrad import Tensor

from eigentensor.capture import capture
from eigentensor.graph.lower import lower
from eigentensor.program.model import Role
from eigentensor.regions.boxes import extents_of_box
from eigentensor.regions.dependence import dirty
from support.programs import random_graphs
from support.programs.reruns import by_reference, rerun, small_boxes

PLAIN = settings(derandomize=True, suppress_health_check=list(HealthCheck))


def run_random_graph(seed: int) -> None:
    random = Random(seed)
    graph, inputs = random_graphs.graph(random)
    program = lower(graph, fingerprint=False).program
    tensors = {name: inputs[name] for name in program.named(Role.INPUT)}
    if tensors:
        with by_reference(), small_boxes():
            rerun(random, program, tensors, 3)


@settings(PLAIN, max_examples=30)
@given(st.integers(0, 1 << 32))
@example(2402)  # a sum of products that is one element alone
def test_random_graphs_have_the_bits_of_a_full_run_after_any_changes(seed: int) -> None:
    run_random_graph(seed)


@pytest.mark.slow
def test_thousands_of_random_graphs_have_the_bits_of_a_full_run_after_any_changes() -> None:
    for seed in range(4_000):
        run_random_graph(seed)


class Windows:
    """Windows of a size, a gap and a step over padding: of a sum of products, then of a maximum."""

    def __init__(self, random: Random) -> None:
        self.kernel = random.choice(((1, 1), (2, 1), (3, 1), (3, 3), (2, 2), (5, 1)))
        self.dilation, self.padding, self.stride = random.choice((1, 1, 2)), random.randint(0, 3), random.randint(1, 3)
        self.pool = random.randint(1, 3)
        self.step = random.randint(1, self.pool)
        numbers = np.random.default_rng(random.randrange(99))
        self.weight = Tensor(numbers.standard_normal((3, 2, *self.kernel), np.float32)).realize()
        self.images = numbers.standard_normal((1, 2, random.randint(12, 16), random.randint(12, 16)), np.float32)

    def __call__(self, x: Tensor) -> Tensor:
        y = x.conv2d(self.weight, stride=self.stride, padding=self.padding, dilation=self.dilation).relu()
        return y.max_pool2d((self.pool, self.pool), stride=self.step, padding=self.pool // 2)

    def reached(self, kernel: int) -> int:
        """How many elements along an axis of the result one of the image can reach."""
        sums = (kernel - 1) * self.dilation // self.stride + 1
        return (sums + self.pool - 2) // self.step + 1


@settings(PLAIN, max_examples=4)
@given(st.integers(0, 1 << 32))
def test_an_element_of_an_image_reaches_the_windows_around_it(seed: int) -> None:
    random = Random(seed)
    windows = Windows(random)
    made = capture(windows, {"x": windows.images}, {"weight": windows.weight}, fingerprint=False)
    program, tensors = made.program, {"x": windows.images, **made.weights}
    with by_reference(), small_boxes():
        rerun(random, program, tensors, 3)
    (number,) = (n for n, b in enumerate(program.buffers) if b.name == "x")
    row, column = random.randrange(12), random.randrange(12)
    (result,) = program.results
    for box in dirty(program, {number: [((0, 0), (0, 1), (row, row), (column, column))]}).get(result.buffer, ()):
        extents = zip(extents_of_box(box)[-2:], map(windows.reached, windows.kernel), strict=True)
        assert all(extent <= most for extent, most in extents), (vars(windows), box)
