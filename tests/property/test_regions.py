"""What can differ, held to what does: programs computed in full before and after a change."""

from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from eigentensor import reference
from eigentensor.program import Call, Program, check
from eigentensor.program.restriction import Restricted, restrict
from eigentensor.regions.boxes import Box, boxes_of, extents_of_box, merged, reshaped, rounded_box, slices
from eigentensor.regions.dependence import dirty
from support.generated.programs import generate
from support.programs.changes import buffers_of, covered, differing, random_box, with_changes

FEW = settings(max_examples=40)


@FEW
@given(st.integers(0, 1 << 32))
def test_whatever_differs_lies_in_the_boxes_of_what_can(seed: int) -> None:
    random, example = Random(seed), generate(seed)
    program, variables = example.program, dict(example.variables)
    later = {v.name: random.randint(v.minimum, v.maximum) for v in program.variables}
    if random.random() < 0.5:
        later = variables
    tensors = with_changes(random, program, example.tensors)
    old, new = buffers_of(program, example.tensors, variables), buffers_of(program, tensors, later)
    numbers = range(len(program.buffers))
    changed = {n: boxes_of(differing(old[n], new[n]), random.choice((1, 4))) for n in numbers}
    pairs = ((variables[v.name], later[v.name]) for v in program.variables)
    moved = [(min(pair), max(pair)) for pair in pairs]
    regions = dirty(program, changed, moved)
    for number, (before, after) in enumerate(zip(old, new, strict=True)):
        outside = ~covered(before.shape, regions.get(number, ()))
        assert not (differing(before, after) & outside).any(), f"buffer {number}"


@FEW
@given(st.integers(0, 1 << 32))
def test_a_restricted_body_is_valid_and_computes_the_same_elements(seed: int) -> None:
    random, example = Random(seed), generate(seed)
    program = example.program
    buffers = buffers_of(program, example.tensors, example.variables)
    for number, call in enumerate(program.calls):
        body = program.bodies[call.body]
        if body.parameters[0].elements:
            box = random_box(random, body.output_ranges)
            restricted = restrict(body, extents_of_box(box))
            check(restricted.program)
            result = computed(program, call, restricted, buffers, box, example.variables)
            assert (
                result.tobytes()
                == buffers[len(program.buffers) + number].reshape(body.output_ranges)[slices(box)].tobytes()
            )


def computed(
    program: Program,
    call: Call,
    restricted: Restricted,
    buffers: list[NDArray[Any]],
    box: Box,
    variables: dict[str, int],
) -> NDArray[Any]:
    """A restricted call by the reference."""
    inputs = [buffers[call.arguments[parameter - 1]].reshape(-1) for parameter in restricted.parameters]
    values = [
        variables[program.variables[call.variables[v]].name] if v >= 0 else box[-1 - v][0] for v in restricted.variables
    ]
    return reference.execute(
        restricted.program,
        {f"{n:02}": array for n, array in enumerate(inputs)},
        {f"{n:02}": value for n, value in enumerate(values)},
    ).outputs["output"]


@FEW
@given(st.integers(0, 1 << 32), st.integers(1, 5))
def test_boxes_around_a_mask_hold_all_that_is_true_and_stay_few(seed: int, most: int) -> None:
    random = np.random.default_rng(seed)
    shape = tuple(random.integers(0, 7, random.integers(1, 4)).tolist())
    mask = random.random(shape) < random.choice([0.02, 0.2, 0.9])
    boxes = boxes_of(mask, most)
    assert len(boxes) <= most and bool(boxes) == mask.any()
    assert not (mask & ~covered(shape, boxes)).any()
    assert all(mask[slices(box)].any() for box in boxes)


@FEW
@given(st.integers(0, 1 << 32))
def test_boxes_that_are_merged_or_rounded_cover_what_they_covered(seed: int) -> None:
    random = Random(seed)
    shape = tuple(random.randint(1, 20) for _ in range(random.randint(1, 3)))
    boxes = [random_box(random, shape) for _ in range(random.randint(1, 7))]
    mask = covered(shape, boxes)
    around = [rounded_box(box, shape) for box in boxes]
    for cover in (merged(boxes), around):
        assert not (mask & ~covered(shape, cover)).any()
    assert len(merged(boxes)) <= 4
    for box in around:
        *sizes, last = zip(extents_of_box(box), shape, strict=True)
        assert all(size in (1, 2, 3, 4, 6, 8, 12, 16, extent) for size, extent in sizes)
        assert last[0] in (1, 2, 4, 8, 16, last[1])


#: Shapes of as many elements.
ALIKE = ((24,), (4, 6), (6, 4), (2, 12), (2, 1, 3, 4), (1, 24, 1), (2, 2, 3, 2), (3, 8), (24, 1))


@settings(max_examples=200)
@given(st.integers(0, 1 << 32))
def test_a_box_along_other_axes_has_the_same_elements_in_the_same_order_or_there_is_none(seed: int) -> None:
    random, numbers = Random(seed), np.arange(24)
    before, after = random.choice(ALIKE), random.choice(ALIKE)
    box = random_box(random, before)
    elements = numbers.reshape(before)[slices(box)].reshape(-1)
    made = reshaped(box, before, after)
    if made is not None:
        assert np.array_equal(numbers.reshape(after)[slices(made)].reshape(-1), elements)
        return
    places = np.argwhere(np.isin(numbers.reshape(after), elements))
    around = tuple(zip(places.min(0), places.max(0), strict=True))
    assert numbers.reshape(after)[slices(around)].size > len(elements)


def test_boxes_of_nothing_stay_boxes_of_nothing() -> None:
    assert reshaped(((0, -1), (0, 3)), (0, 4), (4, 0)) == ((0, 3), (0, -1))
