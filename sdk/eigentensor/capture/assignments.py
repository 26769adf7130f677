"""Assignments of tinygrad as values: what a tensor is after a part of it, or all, was written."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tinygrad.uop.ops import Ops, UOp

from eigentensor.capture.adapter import storage_of, viewed
from eigentensor.capture.moves import MOVES, Number, largest, moved, negative, shifted, varies, zeros
from eigentensor.errors import CaptureError
from eigentensor.graph.moves import broadcast
from eigentensor.graph.node import Form, Node, constant, counter, node
from eigentensor.program.ops import DType, Op


def stores(effects: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """(what is written, its value) in the order of assignment."""
    for effect in effects:
        if effect.op is Ops.STORE and len(effect.src) == 2:
            yield effect.src
        elif effect.op is Ops.AFTER:
            yield from stores(effect.src[1:])
        else:
            raise CaptureError(f"{effect.op.name} cannot be in a graph", fix="use Tensor methods only")


def last_stored(roots: Sequence[Any], realized: Sequence[Any], buffers: Mapping[str, Any]) -> dict[str, Any]:
    """What each of these buffers, by name, is after all that is stored to it on the way to the roots, or to what was
    realized before them.

    Raises CaptureError where that depends on an order that the graph does not have.
    """
    names = {buffer: name for name, buffer in buffers.items()}
    after: dict[str, list[Any]] = {}
    for u in UOp.sink(*roots, *realized).toposort():
        is_stored_to = u.op is Ops.AFTER and not u.is_bound_var and u.has_buffer_identity(after_ok=True)
        if is_stored_to and (base := storage_of(u)) in names:
            after.setdefault(names[base], []).append(u)
    for name, assignments in after.items():
        if not set(assignments) <= set(assignments[-1].toposort()):
            raise CaptureError(f"{name!r} is stored to twice, in no order", fix="assign it, one time after the other")
    for name in after:
        if _is_read(roots, buffers[name]):
            raise CaptureError(f"{name!r} is stored to and read, in no order", fix="read what `after` gives")
    return {name: assignments[-1] for name, assignments in after.items()}


def _is_read(roots: Sequence[Any], buffer: Any) -> bool:
    """Whether a buffer is read otherwise than after a store to it, or for one."""
    return buffer in UOp.sink(*roots).toposort(lambda u: u.op is not Ops.AFTER or storage_of(u) is not buffer)


def written_in(root: Any) -> dict[Any, str]:
    """The buffers that are stored to on the way to a node, without the lines."""
    return {viewed(u.src[0]): "" for u in root.toposort() if u.op is Ops.STORE and not u.src[0].is_variable}


def written(target: Any, base: Any, before: Node, value: Node, number: Number) -> Node:
    """The value of `base`, which was `before`, once `value` is written to `target`, a view of it."""
    if target is base:
        return value
    view = target.src[0]
    return written(view, base, before, _put(target, _seen(view, base, before, number), value, number), number)


def _seen(view: Any, base: Any, value: Node, number: Number) -> Node:
    """What a view of `base` shows where that has a value."""
    if view is base:
        return value
    if view.op is Ops.BUFFER:
        raise CaptureError("a store to one tensor is waited for with another", fix="assign it, or use capture")
    x = _seen(view.src[0], base, value, number)
    if view.op is Ops.DETACH:
        return x
    return moved(view, x, number) if view.op in MOVES else _refused(view)


def _put(u: Any, whole: Node, value: Node, number: Number) -> Node:
    """What is moved, `whole`, once the result of the move is `value`."""
    match u.op:
        case Ops.DETACH:
            return value
        case Ops.RESHAPE:
            return node(Form.RESHAPE, value, arg=whole.shape)
        case Ops.PERMUTE:
            return node(Form.PERMUTE, value, arg=tuple(u.marg.index(axis) for axis in range(len(u.marg))))
        case Ops.FLIP if not any(map(varies, u.shape)):
            return moved(u, value, number)
        case Ops.SHRINK:
            return _in_box(u.marg, whole, value, number)
    return _refused(u)


def _in_box(parts: Sequence[tuple[Any, Any]], whole: Node, value: Node, number: Number) -> Node:
    """`whole` with the value in the box of (start, size) along each axis."""
    conditions = []
    for axis, (start, size) in enumerate(parts):
        extent = whole.shape[axis]
        if not varies(start) and not varies(size) and (start, size) == (0, extent):
            continue
        place = node(Op.SUB, counter(whole.shape, axis), broadcast(number(start), whole.shape))
        minus = constant(DType.INT32, -1, whole.shape)
        if varies(start) or start:
            conditions.append(node(Op.CMPLT, minus, place))
        conditions.append(node(Op.CMPLT, place, broadcast(number(size), whole.shape)))
        if largest((size,)) != (1,):  # one element is repeated
            value = shifted(value, axis, extent, negative(number(start)))
    value = broadcast(value, whole.shape)
    if not whole.elements or not conditions:
        return value if whole.elements else zeros(whole)
    inside = conditions[0]
    for condition in conditions[1:]:
        inside = node(Op.AND, inside, condition)
    return node(Op.WHERE, inside, value, whole)


def _refused(view: Any) -> Node:
    raise CaptureError(
        f"an assignment writes through {view.op.name}", fix="build the new tensor with where, cat or pad, and assign it"
    )
