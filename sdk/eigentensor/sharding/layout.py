"""Where the elements of a buffer lie: which box of it each worker has."""

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

from eigentensor.errors import BindingError
from eigentensor.program.model import Program, Role
from eigentensor.regions.boxes import Box, Shape, difference, overlap, volume, whole_box
from eigentensor.regions.dependence import shape_of
from eigentensor.sharding.signals import Hint

#: A box for each worker, or nothing.
Layout = tuple[Box | None, ...]


@lru_cache(maxsize=64)
def axes_of(program: Program) -> tuple[Shape, ...]:
    """The axes along which the boxes of each buffer lie: the loops of the call that writes it; of a state, of the call
    that writes the new one; else those of its record."""
    states = {n: program.new_states[b.name].buffer for n, b in enumerate(program.buffers) if b.role is Role.STATE}
    count = len(program.buffers) + len(program.calls)
    return tuple(shape_of(program, states.get(number, number)) for number in range(count))


class Place(NamedTuple):
    """Where a call's result is made: cut along an axis over these workers, or, without one, whole on each of them.

    `everywhere`: what the others made is sent to each.
    """

    axis: int | None
    workers: tuple[int, ...]
    everywhere: bool = False


@lru_cache(maxsize=1 << 14)
def made(place: Place, shape: Shape, count: int) -> Layout:
    """What each of so many workers makes of a result of this shape. An axis of e elements is cut at ⌊i·e/n⌋; one that
    is shorter than there are workers is cut for as many of them as it has elements."""
    if place.axis is None:
        return tuple(whole_box(shape) if worker in place.workers else None for worker in range(count))
    extent = shape[place.axis]
    workers = place.workers[:extent]
    boxes: list[Box | None] = [None] * count
    for n, worker in enumerate(workers):
        part = (n * extent // len(workers), (n + 1) * extent // len(workers) - 1)
        boxes[worker] = (*whole_box(shape[: place.axis]), part, *whole_box(shape[place.axis + 1 :]))
    return tuple(boxes)


@lru_cache(maxsize=1 << 16)
def volumes(layout: Layout) -> tuple[int, ...]:
    """How many elements each worker has."""
    return tuple(0 if box is None else volume(box) for box in layout)


def is_whole(layout: Layout, shape: Shape) -> bool:
    """Whether every element of a tensor is on some worker."""
    rest: list[Box] = [whole_box(shape)] if prod(shape) else []
    for box in layout:
        rest = rest if box is None else [part for left in rest for part in difference(left, box)]
    return not rest


def check_layouts(program: Program, layouts: Sequence[tuple[str, Layout]], workers: int) -> None:
    """Raises BindingError unless each layout is of a tensor that the program is given, has a box, or nothing, for each
    worker, and all elements between them."""
    given = {b.name: n for n, b in enumerate(program.buffers) if b.name}
    for name, layout in layouts:
        if name not in given:
            raise BindingError(f"the program has no tensor {name!r}", fix=f"Lay out some of {', '.join(given)}.")
        shape = axes_of(program)[given[name]]
        fits = all(box is None or (len(box) == len(shape) and overlap(box, whole_box(shape)) == box) for box in layout)
        if len(layout) != workers or not fits or not is_whole(layout, shape):
            raise BindingError(
                f"tensor {name!r}, {list(shape)}: the boxes of {workers} workers do not have all of it, or others",
                fix="Give each worker a box of the tensor, or None, so that no element is left out.",
            )


def check_hints(program: Program, hints: Sequence[Hint | None], workers: int) -> None:
    """Raises BindingError unless there is a hint, or None, for each call, all of whose workers exist."""
    if len(hints) not in (0, len(program.calls)):
        raise BindingError(f"{len(hints)} hints for {len(program.calls)} calls", fix="Give one for each call, or none.")
    for number, hint in enumerate(hints):
        if hint is not None and (not hint.workers or not set(hint.workers) <= set(range(workers))):
            raise BindingError(
                f"call {number} is to be on workers {list(hint.workers)}, of which there are {workers}",
                fix=f"Name some of 0…{workers - 1}, each once.",
            )


def box_bytes(box: Box | None, size: int) -> int:
    """Bytes of a box of elements of so many bytes."""
    return 0 if box is None else volume(box) * size
