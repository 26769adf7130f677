"""Movement of whole tensors: broadcasting, indexing, padding, joining. Every function takes nodes and gives a node."""

from collections.abc import Sequence
from itertools import zip_longest
from math import prod
from typing import Any

from eigentensor.graph.node import Form, Node, Shape, counter, node
from eigentensor.graph.types import number, refused
from eigentensor.program.ops import DType, Op


def reshape(x: Node, shape: Sequence[int]) -> Node:
    """One extent may be -1: what is left over."""
    wanted = tuple(int(extent) for extent in shape)
    known = prod(extent for extent in wanted if extent != -1)
    if wanted.count(-1) == 1 and known and x.elements % known == 0:
        wanted = tuple(x.elements // known if extent == -1 else extent for extent in wanted)
    if min(wanted, default=0) < 0 or prod(wanted) != x.elements:
        raise refused(f"{x.shape} cannot be reshaped to {tuple(shape)}", "Keep the number of elements.")
    return x if wanted == x.shape else node(Form.RESHAPE, x, arg=wanted)


def permute(x: Node, axes: Sequence[int]) -> Node:
    """The axes in another order, each named once; negative ones count from the end. Raises CaptureError otherwise."""
    order = tuple(axis_of(axis, len(x.shape)) for axis in axes)
    if sorted(order) != list(range(len(x.shape))):
        raise refused(f"{tuple(axes)} are not the axes of {x.shape}", "Name each axis once.")
    return x if order == tuple(sorted(order)) else node(Form.PERMUTE, x, arg=order)


def axis_of(axis: int, rank: int) -> int:
    """The axis, counted from the front; negative ones count from the end."""
    if not -rank <= axis < rank:
        raise refused(f"there is no axis {axis} of {rank}", "Count axes from 0, or from the end with -1.")
    return axis % rank


def axes_of(axis: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Axes in ascending order; None is all of them."""
    if axis is None:
        return tuple(range(rank))
    named = (axis,) if isinstance(axis, int) else tuple(axis)
    axes = tuple(sorted(axis_of(a, rank) for a in named))
    if len(set(axes)) < len(axes):
        raise refused(f"an axis is named twice in {named}", "Name each axis once.")
    return axes


def common_shape(*shapes: Shape) -> Shape:
    """What the shapes broadcast to, by the rules of NumPy."""
    common = []
    for extents in zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1):
        several = {extent for extent in extents if extent != 1}
        if len(several) > 1:
            raise refused(f"shapes {', '.join(map(str, shapes))} do not broadcast", "Reshape one of them.")
        common.append(several.pop() if several else 1)
    return tuple(common[::-1])


def broadcast(x: Node, shape: Shape) -> Node:
    """The tensor repeated to a shape by NumPy's rules.

    Raises CaptureError if one of its extents is neither 1 nor the shape's.
    """
    if x.shape != shape and (len(x.shape) > len(shape) or common_shape(x.shape, shape) != shape):
        raise refused(f"{x.shape} does not broadcast to {shape}", "Only axes of extent 1 are repeated.")
    x = reshape(x, (1,) * (len(shape) - len(x.shape)) + x.shape)
    return x if x.shape == shape else node(Form.EXPAND, x, arg=shape)


def pad(x: Node, widths: Sequence[tuple[int, int]]) -> Node:
    """Zeros (before, after) along each axis.

    Raises CaptureError for negative widths, or other than one pair an axis.
    """
    if len(widths) != len(x.shape) or any(min(pair) < 0 for pair in widths):
        raise refused(f"{list(widths)} pads no {x.shape}", "Give (before, after) for each axis.")
    return node(Form.PAD, x, arg=tuple((int(a), int(b)) for a, b in widths)) if any(map(any, widths)) else x


def shrink(x: Node, bounds: Sequence[tuple[int, int]]) -> Node:
    """The part from start to stop along each axis; the caller has checked that it lies inside."""
    whole = tuple((0, extent) for extent in x.shape)
    return x if tuple(bounds) == whole else node(Form.SHRINK, x, arg=tuple(bounds))


def repeat(x: Node, count: int, axis: int) -> Node:
    """Each part along an axis so often in a row."""
    before, extent, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    _refuse_negative(count)
    several = broadcast(reshape(x, (*before, extent, 1, *after)), (*before, extent, count, *after))
    return reshape(several, (*before, extent * count, *after))


def tile(x: Node, counts: Sequence[int]) -> Node:
    """The whole so often along each axis, counted from the last."""
    _refuse_negative(*counts)
    rank = max(len(counts), len(x.shape))
    shape = (1,) * (rank - len(x.shape)) + x.shape
    times = (1,) * (rank - len(counts)) + tuple(counts)
    apart = reshape(x, [e for extent in shape for e in (1, extent)])
    several = broadcast(apart, tuple(e for pair in zip(times, shape, strict=True) for e in pair))
    return reshape(several, [count * extent for count, extent in zip(times, shape, strict=True)])


def _refuse_negative(*counts: int) -> None:
    if not all(isinstance(count, int) and count >= 0 for count in counts):
        raise refused(f"{', '.join(map(str, counts))} times", "Give numbers that are not negative.")


def concat(parts: Sequence[Node], axis: int) -> Node:
    """The parts one after the other along an axis; they have one type already."""
    axis = axis_of(axis, len(parts[0].shape))
    rest = {(*part.shape[:axis], *part.shape[axis + 1 :]) for part in parts}
    if len(rest) > 1:
        raise refused(f"shapes {[p.shape for p in parts]} cannot be joined along axis {axis}", "Only it may differ.")
    total, end, joined = sum(part.shape[axis] for part in parts), 0, None
    for part in parts:
        widths = [(0, 0)] * len(part.shape)
        widths[axis] = end, total - end - part.shape[axis]
        placed = pad(part, widths)
        if joined is None:
            joined = placed
        else:
            before = node(Op.CMPLT, counter(placed.shape, axis), number(end, DType.INT32, placed.shape))
            joined = node(Op.WHERE, before, joined, placed)
        end += part.shape[axis]
    assert joined is not None
    return joined


def gather(x: Node, indices: Node, axis: int) -> Node:
    """x at the indices along an axis, which their axes replace; zeros where an index is outside."""
    if not indices.dtype.is_integer:
        raise refused("an index is an integer or a tensor of integers", "Cast it with astype, or use where.")
    rank, depth = len(x.shape), len(indices.shape)
    rows = node(Form.GATHER, permute(x, (axis, *(a for a in range(rank) if a != axis))), indices)
    order = (*range(depth, depth + axis), *range(depth), *range(depth + axis, depth + rank - 1))
    return permute(rows, order)


def windows(x: Node, size: int, stride: int, axis: int) -> Node:
    """All spans of `size` along an axis, `stride` apart; the steps within a span become the last axis."""
    count = (x.shape[axis] - size) // stride + 1
    if size < 1 or stride < 1 or count < 1:
        raise refused(f"no window of {size} fits along axis {axis} of {x.shape}", "Pad it first.")
    starts = node(Op.MUL, counter((count, size), 0), number(stride, DType.INT32, (count, size)))
    spans = gather(x, node(Op.ADD, starts, counter((count, size), 1)), axis)
    last = len(spans.shape) - 1
    return permute(spans, (*range(axis + 1), *range(axis + 2, last + 1), axis + 1))


def indexed(x: Node, key: Any) -> Node:
    """x[key] by NumPy's rules, with at most one tensor of indices."""
    parts = _complete(x, key if isinstance(key, tuple) else (key,))
    axis, tensors = 0, 0
    for part in parts:
        if part is None:
            x = reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))
            axis += 1
        elif isinstance(part, slice):
            x = _sliced(x, axis, part)
            axis += 1
        elif isinstance(part, Node):
            tensors += 1
            if tensors > 1:
                raise refused("two tensors of indices in one subscript", "Take one after the other.")
            x = gather(x, _from_end(part, x.shape[axis]), axis)
            axis += len(part.shape)
        else:
            x = _taken(x, axis, part)
    return x


def _complete(x: Node, key: tuple[Any, ...]) -> list[Any]:
    """The parts of a subscript with the ellipsis, or what is missing at the end, spelled out."""
    ellipses = sum(part is Ellipsis for part in key)
    named = sum(part is not None and part is not Ellipsis for part in key)
    if ellipses > 1 or named > len(x.shape):
        raise refused(f"{len(key)} indices for shape {x.shape}", "Give at most one for each axis.")
    rest = [slice(None)] * (len(x.shape) - named)
    if not ellipses:
        return [*key, *rest]
    place = next(i for i, part in enumerate(key) if part is Ellipsis)
    return [*key[:place], *rest, *key[place + 1 :]]


def _taken(x: Node, axis: int, part: Any) -> Node:
    try:
        position = part.__index__()
    except AttributeError:
        raise refused(f"{part!r} is no index", "Index with integers, slices, None, … or one tensor.") from None
    extent = x.shape[axis]
    if isinstance(part, bool) or not -extent <= position < extent:
        raise refused(f"index {part} is outside of axis {axis} of {x.shape}", f"It has {extent} elements.")
    start = position % extent
    bounds = [(0, e) for e in x.shape]
    bounds[axis] = start, start + 1
    return reshape(shrink(x, bounds), (*x.shape[:axis], *x.shape[axis + 1 :]))


def _sliced(x: Node, axis: int, part: slice) -> Node:
    try:
        start, stop, step = part.indices(x.shape[axis])
    except (TypeError, ValueError):
        raise refused(f"{part} is no slice with integers", "Use where with arange for bounds that vary.") from None
    steps = range(start, stop, step)
    low, high = (min(steps), max(steps) + 1) if steps else (0, 0)
    bounds = [(0, e) for e in x.shape]
    bounds[axis] = low, high
    x = shrink(x, bounds)
    if step < 0 and len(steps) > 1:
        x = node(Form.FLIP, x, arg=(axis,))
    return _every(x, axis, abs(step)) if abs(step) > 1 and len(steps) > 1 else x


def _every(x: Node, axis: int, step: int) -> Node:
    """Each `step`-th element along an axis, from the first."""
    before, extent, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    count = -(-extent // step)
    widths = [(0, 0)] * len(x.shape)
    widths[axis] = 0, count * step - extent
    x = reshape(pad(x, widths), (*before, count, step, *after))
    bounds = [(0, e) for e in x.shape]
    bounds[axis + 1] = 0, 1
    return reshape(shrink(x, bounds), (*before, count, *after))


def _from_end(indices: Node, extent: int) -> Node:
    """Negative indices count from the end."""
    if not indices.dtype.is_signed:
        return indices
    if indices.dtype.size < 4:
        indices = node(Op.CAST, indices, arg=DType.INT32)
    negative = node(Op.CMPLT, indices, number(0, indices.dtype, indices.shape))
    return node(Op.WHERE, negative, node(Op.ADD, indices, number(extent, indices.dtype, indices.shape)), indices)
