"""Rules of simplification for moves: two become one, and what moves nothing goes."""

from collections.abc import Sequence

from eigentensor.graph.node import Form, Node, constant, counter, data, is_bounded, node
from eigentensor.graph.rules import rule
from eigentensor.program.ops import REDUCTIONS, DType, Op

_LEAVES = (Form.INPUT, Form.WEIGHT, Form.STATE, Form.DATA)
#: Reductions whose steps may be taken in any order, of floats too.
_FREE = (Op.REDUCE_MAX, Op.REDUCE_MIN)


def _padded(x: Node, widths: Sequence[tuple[int, int]]) -> Node:
    return node(Form.PAD, x, arg=tuple(widths)) if any(map(any, widths)) else x


@rule(Form.RESHAPE)
def reshape_of_reshape(n: Node) -> Node | None:
    """The last shape alone counts."""
    return node(Form.RESHAPE, n.src[0].src[0], arg=n.shape) if n.src[0].op is Form.RESHAPE else None


@rule(Form.PERMUTE)
def permute_of_permute(n: Node) -> Node | None:
    """One permutation; `arg` says where an axis comes from, so the inner is read at the outer."""
    (x,) = n.src
    if x.op is not Form.PERMUTE:
        return None
    return node(Form.PERMUTE, x.src[0], arg=tuple(x.arg[axis] for axis in n.arg))


@rule(Form.EXPAND)
def expand_of_expand(n: Node) -> Node | None:
    """The last shape alone counts."""
    return node(Form.EXPAND, n.src[0].src[0], arg=n.shape) if n.src[0].op is Form.EXPAND else None


@rule(Form.SHRINK)
def shrink_of_shrink(n: Node) -> Node | None:
    """One cut: the outer bounds count from where the inner begin."""
    (x,) = n.src
    if x.op is not Form.SHRINK:
        return None
    bounds = tuple((low + start, low + stop) for (low, _), (start, stop) in zip(x.arg, n.arg, strict=True))
    return node(Form.SHRINK, x.src[0], arg=bounds)


@rule(Form.PAD)
def pad_of_pad(n: Node) -> Node | None:
    """Widths added up: both fill with the same zeros."""
    (x,) = n.src
    if x.op is not Form.PAD:
        return None
    return _padded(x.src[0], [(a + c, b + d) for (a, b), (c, d) in zip(x.arg, n.arg, strict=True)])


@rule(Form.FLIP)
def flip_of_flip(n: Node) -> Node | None:
    """An axis that is reversed twice is not."""
    (x,) = n.src
    if x.op is not Form.FLIP:
        return None
    return node(Form.FLIP, x.src[0], arg=tuple(sorted(set(n.arg) ^ set(x.arg))))


@rule(Form.RESHAPE, Form.EXPAND, Form.SHRINK, Form.PAD, Form.PERMUTE, Form.FLIP)
def move_of_nothing(n: Node) -> Node | None:
    """Gone, if shape and order stay; a flip is kept along axes of more than one element."""
    (x,) = n.src
    if n.op is Form.PERMUTE:
        return x if n.arg == tuple(range(len(n.shape))) else None
    if n.op is Form.FLIP:
        axes = tuple(axis for axis in n.arg if n.shape[axis] > 1)
        return None if axes == n.arg else node(Form.FLIP, x, arg=axes) if axes else x
    return x if n.shape == x.shape else None


@rule(Form.SHRINK)
def shrink_of_pad(n: Node) -> Node | None:
    """What is cut off again is not added."""
    (x,) = n.src
    if x.op is not Form.PAD:
        return None
    inner, widths = [], []
    for extent, (before, _), (start, stop) in zip(x.src[0].shape, x.arg, n.arg, strict=True):
        low, high = max(start - before, 0), min(stop - before, extent)
        if low >= high:
            return None
        inner.append((low, high))
        widths.append((low + before - start, stop - before - high))
    return _padded(node(Form.SHRINK, x.src[0], arg=tuple(inner)), widths)


@rule(Form.SHRINK)
def shrink_of_expand(n: Node) -> Node | None:
    """Fewer repetitions."""
    (x,) = n.src
    if x.op is not Form.EXPAND:
        return None
    pairs = list(zip(x.src[0].shape, n.arg, strict=True))
    kept = node(Form.SHRINK, x.src[0], arg=tuple((0, 1) if extent == 1 else bounds for extent, bounds in pairs))
    return node(Form.EXPAND, kept, arg=n.shape) if n.elements else None


@rule(Form.RESHAPE, Form.PERMUTE, Form.EXPAND, Form.SHRINK, Form.FLIP, Form.PAD)
def move_of_constant(n: Node) -> Node | None:
    """The same constant in another shape; a pad only of zeros, which is what it adds."""
    (x,) = n.src
    if x.op is not Op.CONST or (n.op is Form.PAD and x.arg):
        return None
    return constant(n.dtype, x.arg, n.shape)


@rule(Form.RESHAPE)
def reshape_of_data(n: Node) -> Node | None:
    """The same bytes: both are row-major."""
    return data(n.dtype, n.shape, n.src[0].arg) if n.src[0].op is Form.DATA else None


@rule(Form.RESHAPE, Form.PERMUTE, Form.EXPAND, Form.SHRINK)
def move_of_counter(n: Node) -> Node | None:
    """A counter along another axis, or from another number on."""
    (x,) = n.src
    if x.op is not Form.COUNTER:
        return None
    if n.op is Form.PERMUTE:
        return counter(n.shape, n.arg.index(x.arg))
    if n.op is Form.SHRINK:
        start = n.arg[x.arg][0]
        numbers = counter(n.shape, x.arg)
        return node(Op.ADD, numbers, constant(DType.INT32, start, n.shape)) if start else numbers
    if n.op is Form.EXPAND:
        return counter(n.shape, x.arg) if x.shape[x.arg] == n.shape[x.arg] else None
    real = [axis for axis, extent in enumerate(n.shape) if extent != 1]
    is_alone = [extent for extent in x.shape if extent != 1] == [n.shape[axis] for axis in real]
    if not is_alone or x.shape[x.arg] == 1:
        return None
    return counter(n.shape, real[sum(extent != 1 for extent in x.shape[: x.arg])])


@rule(Form.COUNTER)
def counter_of_one(n: Node) -> Node | None:
    """A loop of one step counts 0."""
    return constant(DType.INT32, 0, n.shape) if n.shape[n.arg] == 1 else None


@rule(Form.GATHER)
def gather_of_known_rows(n: Node) -> Node | None:
    """Rows that are one after the other, or one alone, are a part of the table."""
    table, rows = n.src
    rest = tuple((0, extent) for extent in table.shape[1:])
    if rows.op is Form.COUNTER and len(rows.shape) == 1 and 0 < rows.elements <= table.shape[0]:
        return node(Form.SHRINK, table, arg=((0, rows.elements), *rest))
    if rows.op is not Op.CONST or not rows.elements:
        return None
    if not 0 <= rows.arg < table.shape[0]:
        return constant(n.dtype, 0, n.shape)
    row = node(Form.SHRINK, table, arg=((rows.arg, rows.arg + 1), *rest))
    wide = node(Form.RESHAPE, row, arg=(*(1 for _ in rows.shape), *table.shape[1:]))
    return node(Form.EXPAND, wide, arg=n.shape)


@rule(Form.CONTIGUOUS)
def copy_of_stored(n: Node) -> Node | None:
    """What is loaded anyway is not stored again."""
    return n.src[0] if n.src[0].op in _LEAVES or n.src[0].op is Form.CONTIGUOUS else None


@rule(Form.ROUNDED)
def rounding_of_rounded(n: Node) -> Node | None:
    """What is no product is as it is."""
    return n.src[0] if n.src[0].op in (*_LEAVES, Op.CONST, Form.CONTIGUOUS, Form.ROUNDED) else None


@rule(*REDUCTIONS)
def reduction_of_one_step(n: Node) -> Node | None:
    """Its term, without the axes: the format has no loop of one step."""
    return node(Form.RESHAPE, n.src[0], arg=n.shape) if n.elements == n.src[0].elements else None


@rule(*REDUCTIONS)
def reduction_of_reduction(n: Node) -> Node | None:
    """One after the other over more axes is one over all, if the order of steps is free."""
    (x,) = n.src
    if x.op is not n.op or is_bounded(x) or (n.dtype.is_float and n.op not in _FREE):
        return None
    kept = [axis for axis in range(len(x.src[0].shape)) if axis not in x.arg]
    return node(n.op, x.src[0], arg=tuple(sorted((*x.arg, *(kept[axis] for axis in n.arg)))))
