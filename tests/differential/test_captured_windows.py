"""Gradients of convolutions and pools: by as many steps as an element has windows, what all steps together are."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from tinygrad import Tensor

from eigentensor import reference
from eigentensor.capture import capture
from eigentensor.lowering import patterns
from eigentensor.program.bounds import prove
from eigentensor.program.model import Program


class Case(NamedTuple):
    """What is differentiated, the shapes of its operands, and the steps that any sum over windows may have."""

    function: Callable[..., Tensor]
    shapes: tuple[tuple[int, ...], ...]
    steps: tuple[int, ...]  #: of the loops of the sum for the first operand


CASES = {
    "convolution": Case(lambda x, w: x.conv2d(w, padding=1), ((2, 3, 6, 6), (4, 3, 3, 3)), (3, 3, 4)),
    "stride": Case(lambda x, w: x.conv2d(w, padding=1, stride=2), ((2, 3, 7, 7), (4, 3, 3, 3)), (2, 2, 4)),
    "seven by seven": Case(lambda x, w: x.conv2d(w, padding=3, stride=2), ((1, 3, 12, 12), (4, 3, 7, 7)), (4, 4, 4)),
    "dilation": Case(lambda x, w: x.conv2d(w, dilation=2), ((2, 3, 9, 8), (4, 3, 3, 3)), (3, 3, 4)),
    "groups": Case(lambda x, w: x.conv2d(w, groups=2), ((2, 4, 6, 6), (6, 2, 3, 3)), (3, 3, 3)),
    "one axis": Case(lambda x, w: x.conv2d(w), ((2, 4, 16), (3, 4, 5)), (5, 3)),
    "max pool": Case(lambda x: x.max_pool2d(2), ((2, 3, 7, 6),), ()),
    "max pool that overlaps": Case(lambda x: x.max_pool2d(3, stride=2, padding=1), ((2, 3, 8, 8),), (2, 2)),
    "mean pool": Case(lambda x: x.avg_pool2d(2), ((2, 3, 6, 6),), ()),
    "mean pool that overlaps": Case(lambda x: x.avg_pool2d(3, stride=1), ((2, 3, 6, 6),), (3, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_gradient_has_no_empty_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, random = CASES[name], np.random.default_rng(3)
    arrays = {n: random.standard_normal(shape, dtype=np.float32) for n, shape in zip("xw", case.shapes, strict=False)}

    def gradient(x: Tensor, w: Tensor | None = None) -> Tensor:
        return (case.function(*[t for t in (x, w) if t is not None]) ** 2).sum().gradient(x)[0]

    program = capture(gradient, arrays, fingerprint=False).program
    assert last_steps(program) == case.steps
    monkeypatch.setattr(patterns, "gathered", lambda value: value)
    monkeypatch.setattr(patterns, "_parts", patterns._parts.__wrapped__)  # which remembers what it made
    whole = capture(gradient, arrays, fingerprint=False).program
    few, all_ = (reference.execute(p, arrays).outputs["output"] for p in (program, whole))
    if len(program.calls) == len(whole.calls):
        np.testing.assert_array_equal(few.view(np.uint32), all_.view(np.uint32))  # of no sum within a sum
    np.testing.assert_allclose(few, all_, rtol=0, atol=1e-6 * np.abs(all_).max())


def last_steps(program: Program) -> tuple[int, ...]:
    """How often the loops of the sums in the last call run."""
    return tuple(most for _, most in prove(program.bodies[program.calls[-1].body]).extents)
