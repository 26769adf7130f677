"""Some elements of a program's results by the reference, without the others: where all would take too long. Pure.

A spot is a box of a result. What it needs of each call is computed, and nothing else of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor import reference
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.binding import bind
from eigentensor.program.cost import body_cost
from eigentensor.program.model import Program
from eigentensor.regions.boxes import Box, Shape, merged, reshaped, slices, volume, whole_box
from eigentensor.regions.dependence import shape_of
from eigentensor.regions.needs import needed

Values = NDArray[Any]
#: Of each result spots are looked at around so many places, evenly from its first element to its last.
PLACES = 3
#: Boxes of each call's result that are computed, by its number.
Parts = Mapping[int, tuple[Box, ...]]


def spots(program: Program, most: int) -> list[tuple[Box, ...]]:
    """For each result of a valid program without variables boxes of it that are computed in at most so many
    evaluations: all of it, if that is not more; else a few, as large as may be, but of one element at least."""
    shapes = [result.shape for result in program.results]
    boxes: list[tuple[Box, ...]] = [(whole_box(shape),) for shape in shapes]
    size = max((volume(box) for of in boxes for box in of), default=0)
    while size > 1 and evaluations(program, parts(program, boxes)) > most:
        size = -(-size // 4)
        boxes = [_around_places(shape, size) for shape in shapes]
    return boxes


def parts(program: Program, boxes: Sequence[Sequence[Box]]) -> Parts:
    """What boxes of each result, in order, need of all calls."""
    first, wanted = len(program.buffers), dict[int, tuple[Box, ...]]()
    for result, of in zip(program.results, boxes, strict=True):
        moved = (_at(box, result.shape, shape_of(program, result.buffer)) for box in of if volume(box))
        wanted[result.buffer] = merged([*wanted.get(result.buffer, ()), *moved])
    for number in reversed(range(first, first + len(program.calls))):
        call = program.calls[number - first]
        shapes = tuple(shape_of(program, argument) for argument in call.arguments)
        for box in wanted.get(number, ()):
            for argument, need in zip(call.arguments, needed(program.bodies[call.body], shapes, box), strict=True):
                if need is not None and argument >= first:
                    wanted[argument] = merged([*wanted.get(argument, ()), need])
    return {number: of for number, of in wanted.items() if number >= first}


def evaluations(program: Program, of: Parts) -> int:
    """How many evaluations these parts of a program take, if every element of a call takes as many."""
    total = 0
    for number, boxes in of.items():
        body = program.bodies[program.calls[number - len(program.buffers)].body]
        part = sum(map(volume, boxes)) / max(1, body.parameters[0].elements)
        total += int(part * body_cost(body).evaluations)
    return total


def at_spots(program: Program, tensors: Mapping[str, Values], boxes: Sequence[Sequence[Box]]) -> list[list[Values]]:
    """The values of boxes of each result of a valid program without variables, in order, as `reference.execute` has
    them. Raises BindingError for tensors that do not fit."""
    reference.check_arithmetic()
    buffers, first = list[Values](bind(program, tensors, {}, 1)), len(program.buffers)
    needs = parts(program, boxes)
    for number in range(len(program.calls)):
        dtype, elements = program.parameter(first + number)
        buffers.append(np.zeros(elements, STORAGE[dtype]))
        for box in needs.get(first + number, ()):
            at = _numbers(box, shape_of(program, first + number))
            for start in range(0, len(at), reference.LANES):
                some = at[start : start + reference.LANES]
                buffers[-1][some] = reference.elements(program, buffers, number, some)
    return [
        [buffers[result.buffer].reshape(result.shape)[slices(box)] for box in of]
        for result, of in zip(program.results, boxes, strict=True)
    ]


def _around_places(shape: Shape, size: int) -> tuple[Box, ...]:
    """Boxes of about so many neighbours together."""
    extents, left = list[int](), max(1, size // PLACES)
    for extent in reversed(shape):
        extents.insert(0, min(extent, left))
        left = max(1, left // max(1, extent))
    found = set[Box]()
    for place in range(PLACES):
        starts = ((whole - extent) * place // (PLACES - 1) for whole, extent in zip(shape, extents, strict=True))
        found.add(tuple((start, start + extent - 1) for start, extent in zip(starts, extents, strict=True)))
    return tuple(sorted(found))


def _at(box: Box, shape: Shape, loops: Shape) -> Box:
    """A box around the same elements of a tensor with other axes."""
    if (same := reshaped(box, shape, loops)) is not None:
        return same
    places = np.unravel_index(_numbers(box, shape), loops)
    return tuple((int(along.min()), int(along.max())) for along in places)


def _numbers(box: Box, shape: Shape) -> Values:
    """The numbers of a box's elements in row-major order of the whole tensor."""
    numbers = np.zeros((), np.int64)
    for (low, high), extent in zip(box, shape, strict=True):
        numbers = numbers[..., np.newaxis] * extent + np.arange(low, high + 1)
    return np.asarray(numbers.reshape(-1))
