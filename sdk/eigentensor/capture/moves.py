"""Moves of tinygrad as moves of a graph, whose tensors have fixed shapes.

A tensor with an extent that depends on variables is held at its largest, and what lies beyond the extent is never used;
an offset that depends on them becomes a look-up by number.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tinygrad.uop.ops import Ops

from eigentensor.errors import CaptureError
from eigentensor.graph.moves import broadcast, gather
from eigentensor.graph.node import Form, Node, Shape, constant, counter, node
from eigentensor.program.ops import DType, Op

#: An extent or offset, a number or tinygrad's expression of variables, as an int32 of shape ().
Number = Callable[[Any], Node]
MOVES = frozenset({Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.FLIP, Ops.SHRINK, Ops.PAD})


def varies(extent: Any) -> bool:
    """Whether an extent or offset of tinygrad depends on variables."""
    return not isinstance(extent, int)


def largest(shape: Sequence[Any]) -> Shape:
    """The extents, or the largest that they can be."""
    return tuple(int(extent.vmax) if varies(extent) else int(extent) for extent in shape)


def moved(u: Any, x: Node, number: Number) -> Node:
    """What a movement of tinygrad makes of x. Raises CaptureError if an extent that varies is merged with another."""
    source = u.src[0].shape
    match u.op:
        case Ops.RESHAPE:
            _refuse_unless_aligned(source, u.shape)
            return node(Form.RESHAPE, x, arg=largest(u.shape))
        case Ops.EXPAND:  # puts new axes in front
            return broadcast(x, (*largest(u.marg), *x.shape))
        case Ops.PERMUTE:
            return node(Form.PERMUTE, x, arg=tuple(u.marg))
        case Ops.FLIP:
            return _flipped(x, source, [axis for axis, flag in enumerate(u.marg) if flag], number)
        case Ops.SHRINK:
            return _shrunk(x, u.marg, number)
    return _padded(x, source, u.marg, number)


def shifted(x: Node, axis: int, extent: int, start: Node) -> Node:
    """The part of so many elements along an axis from `start` on; zeros where x has none."""
    return gather(x, node(Op.ADD, counter((extent,), 0), broadcast(start, (extent,))), axis)


def negative(x: Node) -> Node:
    """0 − x, which for an index is −x."""
    return node(Op.SUB, constant(DType.INT32, 0, x.shape), x)


def below(shape: Shape, axis: int, bound: Node) -> Node:
    """Where the counter along an axis is smaller than a number of shape ()."""
    return node(Op.CMPLT, counter(shape, axis), broadcast(bound, shape))


def zeros(like: Node) -> Node:
    """Zeros of another node's type and shape."""
    return constant(like.dtype, 0, like.shape)


def _refuse_unless_aligned(source: Sequence[Any], target: Sequence[Any]) -> None:
    (before, varying), (after, others) = _runs(source), _runs(target)
    same = len(varying) == len(others) and all(map(_is_same, varying, others))
    if not same or (before != after and varying):
        raise CaptureError(
            f"a reshape from {_shown(source)} to {_shown(target)} merges an extent that depends on a variable",
            fix="keep that axis, or make a program of it as it is, with capture",
        )


def _runs(shape: Sequence[Any]) -> tuple[list[int], list[Any]]:
    """How many elements stand between the extents that vary, and these."""
    runs, varying = [1], []
    for extent in shape:
        if varies(extent):
            varying.append(extent)
            runs.append(1)
        else:
            runs[-1] *= extent
    return runs, varying


def _is_same(a: Any, b: Any) -> bool:
    return a is b or (difference := (a - b).simplify()).vmin == difference.vmax == 0


def _shown(shape: Sequence[Any]) -> str:
    return "(" + ", ".join(e.render() if varies(e) else str(e) for e in shape) + ")"


def _flipped(x: Node, source: Sequence[Any], axes: list[int], number: Number) -> Node:
    for axis in axes:
        if varies(source[axis]):
            extent = x.shape[axis]
            last = broadcast(number(source[axis] - 1), (extent,))
            x = gather(x, node(Op.SUB, last, counter((extent,), 0)), axis)
    fixed = tuple(axis for axis in axes if not varies(source[axis]))
    return node(Form.FLIP, x, arg=fixed)


def _shrunk(x: Node, parts: Sequence[tuple[Any, Any]], number: Number) -> Node:
    bounds = []
    for axis, (start, size) in enumerate(parts):
        (extent,) = largest((size,))
        if varies(start):
            x = shifted(x, axis, extent, number(start))
        first = 0 if varies(start) else int(start)
        if first + extent > x.shape[axis]:
            raise CaptureError(
                f"a part of {_shown((size,))} elements from {first} on is read, and there are {x.shape[axis]}",
                fix="bound the variable so that the part is always inside",
            )
        bounds.append((first, first + extent))
    return node(Form.SHRINK, x, arg=tuple(bounds))


def _padded(x: Node, source: Sequence[Any], parts: Sequence[tuple[Any, Any]], number: Number) -> Node:
    """tinygrad says where a tensor begins in a larger one, and how large that is."""
    widths = []
    for axis, ((start, size), extent) in enumerate(zip(parts, source, strict=True)):
        if varies(extent):
            x = node(Op.WHERE, below(x.shape, axis, number(extent)), x, zeros(x))
        (total,) = largest((size,))
        if varies(start):
            x = shifted(x, axis, total, negative(number(start)))
        first = 0 if varies(start) else int(start)
        if first + x.shape[axis] > total:
            whole = [(0, e) for e in x.shape]
            whole[axis] = 0, total - first
            x = node(Form.SHRINK, x, arg=tuple(whole))
        widths.append((first, total - first - x.shape[axis]))
    return node(Form.PAD, x, arg=tuple(widths))
