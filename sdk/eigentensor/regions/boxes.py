"""Boxes of elements of a tensor: an interval along each axis."""

from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.program.intervals import Interval, common, union
from eigentensor.program.intervals import within as lies_within

#: An interval, both ends included, along each axis.
Box = tuple[Interval, ...]
Shape = tuple[int, ...]

#: Boxes that stand for some elements of one tensor, at most.
BOXES = 4


def whole_box(shape: Shape) -> Box:
    """The box of all elements of a shape; empty along an axis without elements."""
    return tuple((0, extent - 1) for extent in shape)


def extents_of_box(box: Box) -> Shape:
    """How many elements a box has along each axis."""
    return tuple(high - low + 1 for low, high in box)


def volume(box: Box) -> int:
    """How many elements a box has."""
    return prod(extents_of_box(box))


def slices(box: Box) -> tuple[slice, ...]:
    """What takes a box out of an array."""
    return tuple(slice(low, high + 1) for low, high in box)


def hull(a: Box, b: Box) -> Box:
    """The smallest box around both."""
    return tuple(map(union, a, b))


def overlap(a: Box, b: Box) -> Box | None:
    """The box of all that two have in common; None if that is nothing."""
    both = tuple(map(common, a, b))
    return None if any(low > high for low, high in both) else both


def covers(box: Box, other: Box) -> bool:
    """Whether all of another box lies in this one."""
    return all(map(lies_within, other, box))


def difference(box: Box, other: Box) -> tuple[Box, ...]:
    """Boxes that have all of this one that another has not, each element once."""
    both = overlap(box, other)
    if both is None:
        return (box,)
    rest, left = list[Box](), box
    for axis, ((low, high), (start, end)) in enumerate(zip(box, both, strict=True)):
        for part in ((low, start - 1), (end + 1, high)):
            if part[0] <= part[1]:
                rest.append((*left[:axis], part, *left[axis + 1 :]))
        left = (*left[:axis], (start, end), *left[axis + 1 :])
    return tuple(rest)


def reshaped(box: Box, before: Shape, after: Shape) -> Box | None:
    """The box of the same elements, in the same order, of a tensor that has other axes; None if they are no box there.
    Both shapes have as many elements."""
    if before == after:
        return box
    if not prod(before):
        return whole_box(after)
    parts, i, j = list[Interval](), 0, 0
    while i < len(before) or j < len(after):
        first, second, elements, others = i, j, 1, 1
        while elements != others or (i, j) == (first, second):
            if elements <= others and i < len(before):
                elements, i = elements * before[i], i + 1
            else:
                others, j = others * after[j], j + 1
        part = _regrouped(box[first:i], before[first:i], after[second:j])
        if part is None:
            return None
        parts.extend(part)
    return tuple(parts)


def _regrouped(box: Box, before: Shape, after: Shape) -> Box | None:
    """The same of axes that are one axis together: elements that follow each other, as they must there."""
    low = high = 0
    for (start, end), extent in zip(box, before, strict=True):
        low, high = low * extent + start, high * extent + end
    parts, start, end = list[Interval](), low, high
    for extent in reversed(after):
        parts.append((start % extent, end % extent))
        start, end = start // extent, end // extent
    made = tuple(reversed(parts))
    if all(a <= b for a, b in made) and volume(box) == volume(made) == high - low + 1:
        return made
    return None


def merged(boxes: Iterable[Box], most: int = BOXES) -> tuple[Box, ...]:
    """A few boxes around these: two become one where that has no more elements, or where there would be too many."""
    hulls = sorted(set(boxes))
    while len(hulls) > 1:
        pairs = [(a, b) for n, a in enumerate(hulls) for b in hulls[:n]]
        growth = {(a, b): volume(hull(a, b)) - volume(a) - volume(b) for a, b in pairs}
        a, b = min(pairs, key=lambda pair: growth[pair])
        if growth[a, b] > 0 and len(hulls) <= most:
            break
        hulls = sorted({box for box in hulls if box not in (a, b)} | {hull(a, b)})
    return tuple(hulls)


def rounded_box(box: Box, shape: Shape) -> Box:
    """As long as a power of two along each axis, or as all of it, or, but for the last axis, half as much more: where
    elements are neighbours in memory, other extents are slow."""
    last = len(shape) - 1
    return tuple(_rounded(*of, axis < last) for axis, of in enumerate(zip(box, shape, strict=True)))


def _rounded(interval: Interval, extent: int, between: bool) -> Interval:
    low, high = interval
    size = 1 << (high - low).bit_length()
    if between and size * 3 // 4 > high - low:
        size = size * 3 // 4
    size = min(extent, size)
    start = min(low, extent - size)
    return start, start + size - 1


def inside(box: Box, part: Box) -> Box:
    """A box whose places count from the first element of another, where that begins."""
    return tuple((start + low, start + high) for (start, _), (low, high) in zip(box, part, strict=True))


def within(box: Box, other: Box) -> Box:
    """Another box, all of which lies in this one, whose places count from the first element of this."""
    return tuple((low - start, high - start) for (start, _), (low, high) in zip(box, other, strict=True))


def boxes_of(mask: NDArray[Any], most: int = 1) -> tuple[Box, ...]:
    """At most so many boxes around all that is true, cut at the widest gaps; nothing if nothing is true.

    Where most is true, that is one around everything.
    """
    if 2 * np.count_nonzero(mask) > mask.size:
        return (whole_box(mask.shape),)
    boxes = [box] if mask.size and (box := _bounds(mask)) else []
    while len(boxes) < most:
        gaps = [(*gap, n) for n, box in enumerate(boxes) if (gap := _widest_gap(mask[slices(box)]))]
        if not gaps:
            break
        _, axis, low, high, n = max(gaps)
        box = boxes.pop(n)
        start, end = box[axis]
        for part in ((start, start + low), (start + high, end)):
            half = (*box[:axis], part, *box[axis + 1 :])
            inner = _bounds(mask[slices(half)])
            assert inner is not None  # both sides of a gap have something
            boxes.append(inside(half, inner))
    return tuple(sorted(boxes))


def _bounds(mask: NDArray[Any]) -> Box | None:
    intervals = list[Interval]()
    for _ in range(mask.ndim):
        places = np.flatnonzero(mask.reshape(len(mask), -1).any(axis=1))
        if not len(places):
            return None
        intervals.append((int(places[0]), int(places[-1])))
        mask = np.asarray(mask.any(axis=0))
    return tuple(intervals)


def _places(mask: NDArray[Any], axis: int) -> NDArray[np.intp]:
    """Where along an axis something is true."""
    return np.flatnonzero(mask.any(axis=tuple(a for a in range(mask.ndim) if a != axis)))


def _widest_gap(mask: NDArray[Any]) -> tuple[int, int, int, int] | None:
    """Elements that are left out if the mask is cut along an axis, the axis, and the places beside the gap."""
    gaps = []
    for axis in range(mask.ndim):
        places = _places(mask, axis)
        widths = np.diff(places)
        if widths.max(initial=1) > 1:
            widest = int(widths.argmax())
            low, high = int(places[widest]), int(places[widest + 1])
            gaps.append(((high - low - 1) * mask.size // mask.shape[axis], axis, low, high))
    return max(gaps, default=None)
