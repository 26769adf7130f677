"""What a box of a result is computed from, held to what happens where all else is random; bodies over boxes alone."""

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tinygrad import Tensor

from eigentensor import reference
from eigentensor.capture import capture
from eigentensor.program import Call, Program, check
from eigentensor.regions.boxes import Box, covers, difference, overlap, slices, volume
from eigentensor.regions.dependence import shape_of
from eigentensor.regions.needs import is_found, needed
from eigentensor.regions.rebasing import rebased
from support.generated.programs import generate
from support.programs.changes import buffers_of, covered, poisoned, random_box

FEW = settings(max_examples=20)


def shapes_of(program: Program, call: Call) -> tuple[tuple[int, ...], ...]:
    return tuple(shape_of(program, argument) for argument in call.arguments)


def suffices(
    program: Program,
    number: int,
    buffers: Sequence[NDArray[Any]],
    box: Box,
    needs: Sequence[Box | None],
    noise: np.random.Generator,
    values: Sequence[int],
) -> bool:
    """Whether a box of a call's result is the same where all of its operands that is not needed is random."""
    call = program.calls[number]
    given = [array.reshape(-1) for array in buffers]
    for argument in set(call.arguments):
        parts = [need for n, need in zip(call.arguments, needs, strict=True) if n == argument and need]
        given[argument] = poisoned(noise, buffers[argument], parts).reshape(-1)
    result = buffers[len(program.buffers) + number]
    indices = np.arange(result.size).reshape(result.shape)[slices(box)].reshape(-1)
    again: bytes = reference.elements(program, given, number, indices, values).tobytes()
    return again == result[slices(box)].tobytes()


@FEW
@given(st.integers(0, 1 << 32))
def test_elements_outside_of_what_is_needed_have_no_influence(seed: int) -> None:
    random, example = Random(seed), generate(seed)
    program, noise = example.program, np.random.default_rng(seed)
    buffers = buffers_of(program, example.tensors, example.variables)
    values = [example.variables[v.name] for v in program.variables]
    for number, call in enumerate(program.calls):
        body = program.bodies[call.body]
        if not body.parameters[0].elements:
            continue
        box = random_box(random, body.output_ranges or (1,))
        needs = needed(body, shapes_of(program, call), box)
        assert suffices(program, number, buffers, box, needs, noise, values), f"call {number}"


@FEW
@given(st.integers(0, 1 << 32))
def test_a_body_over_boxes_alone_is_valid_and_computes_the_same_elements(seed: int) -> None:
    random, example = Random(seed), generate(seed)
    program = example.program
    buffers = buffers_of(program, example.tensors, example.variables)
    for number, call in enumerate(program.calls):
        body, shapes = program.bodies[call.body], shapes_of(program, call)
        if not body.parameters[0].elements:
            continue
        box = random_box(random, body.output_ranges or (1,))
        held = tuple(map(lambda *of: larger(random, body, shapes, *of), range(1, 99), needed(body, shapes, box)))
        restricted = rebased(body, shapes, box, held)
        check(restricted.program)
        inputs, values = {}, {}
        for n, parameter in enumerate(restricted.parameters):
            part = held[parameter - 1]
            assert part is not None
            inputs[f"{n:02}"] = np.ascontiguousarray(buffers[call.arguments[parameter - 1]][slices(part)]).reshape(-1)
        for n, v in enumerate(restricted.variables):
            bound = example.variables[program.variables[call.variables[v]].name] if v >= 0 else box[-1 - v][0]
            values[f"{n:02}"] = bound
        result = reference.execute(restricted.program, inputs, values).outputs["output"]
        assert result.tobytes() == buffers[len(program.buffers) + number][slices(box)].tobytes(), f"call {number}"


def larger(random: Random, body: Any, shapes: Any, parameter: int, need: Box | None) -> Box | None:
    """A box around what is needed, in which it is found."""
    if need is None or random.random() < 0.5:
        return need
    shape = shapes[parameter - 1]
    ends = zip(need, shape, strict=True)
    box = tuple((random.randint(0, low), random.randint(high, extent - 1)) for (low, high), extent in ends)
    return box if is_found(body, shapes, parameter, box) else need


@FEW
@given(st.integers(0, 1 << 32))
def test_a_difference_is_what_is_left_each_element_once(seed: int) -> None:
    random = Random(seed)
    shape = tuple(random.randint(1, 6) for _ in range(random.randint(1, 3)))
    a, b = random_box(random, shape), random_box(random, shape)
    parts = difference(a, b)
    left: NDArray[np.bool_] = covered(shape, [a]) & ~covered(shape, [b])
    assert (covered(shape, parts) == left).all() and sum(map(volume, parts)) == left.sum()
    both = overlap(a, b)
    assert (covered(shape, [both] if both else []) == (covered(shape, [a]) & covered(shape, [b]))).all()
    assert covers(a, b) == (both == b)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "is_bounded"), [(6, 2, 2, True), (7, 3, 3, True), (5, 3, 2, False)]
)
def test_gradients_of_pooling_need_the_samples_of_their_own(
    size: int, kernel: int, stride: int, is_bounded: bool
) -> None:
    def gradient(x: Tensor) -> Tensor:
        pooled = x.max_pool2d((kernel, kernel), stride)
        return (pooled * pooled).sum().gradient(x)[0]

    noise = np.random.default_rng(size)
    x = noise.standard_normal((4, 2, size, size), dtype=np.float32)
    program = capture(gradient, {"x": x}, fingerprint=False).program
    buffers = buffers_of(program, {"x": x}, {})
    for number, call in enumerate(program.calls):
        body, shapes = program.bodies[call.body], shapes_of(program, call)
        if (body.output_ranges or (1,))[0] != 4:
            continue
        box: Box = ((1, 2), *((0, extent - 1) for extent in body.output_ranges[1:]))
        needs = needed(body, shapes, box)
        if is_bounded:
            assert all(need is None or need[0] == (1, 2) for need, of in zip(needs, shapes, strict=True) if of[0] == 4)
        assert suffices(program, number, buffers, box, needs, noise, [])
