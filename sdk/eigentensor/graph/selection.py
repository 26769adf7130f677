"""Sums that select: Σᵢ (i = number ? table[i] : 0), as tinygrad writes a look-up, is a GATHER."""

from eigentensor.graph.node import Form, Node, is_bounded, node
from eigentensor.program.ops import Op


def selected(n: Node) -> Node:
    """The look-up that a node is, or itself. Where the sum gives +0 for an element that is -0, the look-up gives -0."""
    if n.op is not Op.REDUCE_ADD or len(n.arg) != 1 or is_bounded(n):
        return n
    return _look_up(n.src[0], n.arg[0], n) or n


def _look_up(term: Node, axis: int, n: Node) -> Node | None:
    order = list(range(len(term.shape)))
    while term.op is Form.PERMUTE:
        axis, order = term.arg[axis], [term.arg[a] for a in order]
        term = term.src[0]
    if term.op is not Op.WHERE or term.src[2].op is not Op.CONST or term.src[2].arg:
        return None
    number = _compared(term.src[0], axis)
    if number is None:
        return None
    rank = len(term.shape)
    rest = [a for a in range(rank) if a != axis]
    of_number = [a for a in rest if not is_constant(number, a)]
    of_table = [a for a in rest if a not in of_number]
    table = term.src[1]
    if any(not is_constant(table, a) for a in of_number):
        return None
    rows = number
    for a in sorted((axis, *of_table), reverse=True):
        rows = first(rows, a)
    for a in sorted(of_number, reverse=True):
        table = first(table, a)
    kept = [a for a in range(rank) if a not in of_number]
    table = node(Form.PERMUTE, table, arg=(kept.index(axis), *(kept.index(a) for a in of_table)))
    gathered = node(Form.GATHER, table, rows)
    placed = [*of_number, *of_table]
    wanted = [a for a in order if a != axis]
    return node(Form.PERMUTE, gathered, arg=tuple(placed.index(a) for a in wanted))


def _compared(condition: Node, axis: int) -> Node | None:
    """What the counter along the axis is compared with, if that does not depend on it."""
    if condition.op is Form.RESHAPE or condition.op is Form.EXPAND:
        return _below(condition, axis)
    pair: tuple[Node, ...] = ()
    if condition.op is Op.CMPEQ:
        pair = condition.src
    elif condition.op is Op.CMPNE and condition.src[0].op is Op.CMPNE and condition.src[1].op is Op.CONST:
        pair = condition.src[0].src if condition.src[1].arg else ()
    for a, b in (pair, pair[::-1]) if pair else ():
        if a.op is Form.COUNTER and a.arg == axis and is_constant(b, axis):
            return b
    return None


def _below(moved: Node, axis: int) -> Node | None:
    """The same of a condition that is only given more axes."""
    (x,) = moved.src
    if moved.op is Form.EXPAND:
        number = _compared(x, axis) if x.shape[axis] == moved.shape[axis] else None
        return None if number is None else node(Form.EXPAND, number, arg=moved.shape)
    real = [a for a, extent in enumerate(moved.shape) if extent != 1]
    inner = [a for a, extent in enumerate(x.shape) if extent != 1]
    if [moved.shape[a] for a in real] != [x.shape[a] for a in inner] or axis not in real:
        return None
    number = _compared(x, inner[real.index(axis)])
    return None if number is None else node(Form.RESHAPE, number, arg=moved.shape)


def is_constant(n: Node, axis: int) -> bool:
    """Whether all elements along an axis are the same, as far as is easily seen."""
    if n.shape[axis] == 1 or n.op is Op.CONST:
        return True
    match n.op:
        case Form.EXPAND:
            return is_constant(n.src[0], axis)
        case Form.COUNTER:
            return bool(n.arg != axis)
        case Form.PERMUTE:
            return is_constant(n.src[0], n.arg[axis])
        case Form.RESHAPE:
            inner = _same_axis(n, axis)
            return inner is not None and is_constant(n.src[0], inner)
    return (
        not isinstance(n.op, Form)
        and bool(n.src)
        and len(n.src[0].shape) == len(n.shape)
        and all(is_constant(s, axis) for s in n.src)
    )


def _same_axis(n: Node, axis: int) -> int | None:
    """The axis of what is reshaped that an axis is, if only axes of extent 1 come and go."""
    real = [a for a, extent in enumerate(n.shape) if extent != 1]
    inner = [a for a, extent in enumerate(n.src[0].shape) if extent != 1]
    if axis not in real or [n.shape[a] for a in real] != [n.src[0].shape[a] for a in inner]:
        return None
    return inner[real.index(axis)]


def first(n: Node, axis: int) -> Node:
    """The tensor without an axis along which it is constant."""
    shape = (*n.shape[:axis], *n.shape[axis + 1 :])
    if n.op is Form.EXPAND and n.src[0].shape[axis] == 1:
        return node(Form.EXPAND, first(n.src[0], axis), arg=shape)
    bounds = tuple((0, 1 if a == axis else extent) for a, extent in enumerate(n.shape))
    return node(Form.RESHAPE, node(Form.SHRINK, n, arg=bounds), arg=shape)
