"""Rules of simplification for what depends on places alone: counting, as tinygrad writes a counter, is arithmetic."""

from eigentensor.graph.accesses import operands, own
from eigentensor.graph.node import Form, Node, constant, counter, node
from eigentensor.graph.rules import rule
from eigentensor.graph.schedule import TERM_MOVES
from eigentensor.lowering.indices import Sum, affine, sum_interval
from eigentensor.lowering.kernel import fresh_axis
from eigentensor.lowering.passes import conjuncts
from eigentensor.numerics.conversion import cast
from eigentensor.numerics.operations import from_pattern
from eigentensor.program import expression
from eigentensor.program.ops import DType, Op

#: float32 counts exactly up to here.
EXACT = 1 << 24


@rule(Op.REDUCE_ADD)
def sum_of_padded_constant(n: Node) -> Node | None:
    """Σ over one axis of a whole number, or zero beside it, is that number times how often it is there."""
    path, leaf = [n], n.src[0]
    while leaf.op in TERM_MOVES or leaf.op is Form.PAD:
        path.append(leaf)
        leaf = leaf.src[0]
    counts = n.dtype is DType.FLOAT32 or n.dtype.is_integer
    if leaf.op is not Op.CONST or len(n.arg) != 1 or not counts or not n.elements:
        return None
    value = _whole(leaf)
    extent = n.src[0].shape[n.arg[0]]
    if value is None or not any(step.op is Form.PAD for step in path) or abs(value) * extent >= EXACT:
        return None
    axes, step = [fresh_axis(e) for e in n.shape], fresh_axis(extent, is_reduce=True)
    access = own(n, axes)
    for moved in path:
        (access,) = operands(moved, access, (step,) if moved is n else ())
    guards = conjuncts(access.guard) if access.guard is not None else set()
    count = _count(guards, expression.counter(step), extent)
    if count is None:
        return None
    total = _sum(count, {expression.counter(axis): i for i, axis in enumerate(axes)}, n.shape)
    if total is None:
        return None
    total = node(Op.MUL, total, constant(DType.INT32, value, n.shape))
    return total if n.dtype is DType.INT32 else node(Op.CAST, total, arg=n.dtype)


def _whole(leaf: Node) -> int | None:
    """The constant, if it is a whole number."""
    if not leaf.dtype.is_float:
        return int(leaf.arg)
    value = float(cast(leaf.dtype, DType.FLOAT32, from_pattern(leaf.dtype, leaf.arg)))
    return int(value) if value.is_integer() else None


def _count(guards: set[expression.Node], step: expression.Node, extent: int) -> Sum | None:
    """How many steps fulfil all conditions, if that is one sum for all places."""
    start: Sum = Sum(0)
    stop: Sum = Sum(extent)
    for guard in guards:
        if guard.op is not Op.CMPLT:
            return None
        # low < high says that what is left, high - low - 1, is not negative
        left = affine(guard.src[1]).plus(affine(guard.src[0]), -1).plus(Sum(-1))
        factor, left = left.coefficient(step), left.without(step)
        if factor == 1:
            larger = _larger(start, left.times(-1))
            if larger is None:
                return None
            start = larger
        elif factor == -1:
            smaller = _larger(stop.times(-1), left.plus(Sum(1)).times(-1))
            if smaller is None:
                return None
            stop = smaller.times(-1)
        elif factor or sum_interval(left)[0] < 0:
            return None
    count = stop.plus(start, -1)
    return count if sum_interval(count)[0] >= 0 else None


def _larger(a: Sum, b: Sum) -> Sum | None:
    """The larger one of two sums, if it is the same everywhere."""
    low, high = sum_interval(a.plus(b, -1))
    return a if low >= 0 else b if high <= 0 else None


def _sum(form: Sum, axes: dict[expression.Node, int], shape: tuple[int, ...]) -> Node | None:
    total = constant(DType.INT32, form.constant, shape)
    for atom, factor in form.terms:
        if atom not in axes:
            return None
        scaled = node(Op.MUL, counter(shape, axes[atom]), constant(DType.INT32, factor, shape))
        total = node(Op.ADD, scaled, total)
    return total
