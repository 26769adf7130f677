"""Rules of simplification for what depends on places alone: counting, as tinygrad writes a counter, is arithmetic."""

from eigentensor.graph.node import Form, Node, constant, counter, node
from eigentensor.graph.places import operands, own
from eigentensor.graph.rules import rule
from eigentensor.graph.schedule import TERM_MOVES
from eigentensor.lowering.affine import Affine, affine, combine, interval
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
    if leaf.op is not Op.CONST or len(n.arg) != 1 or n.dtype not in (DType.INT32, DType.FLOAT32) or not n.elements:
        return None
    value = _whole(leaf)
    extent = n.src[0].shape[n.arg[0]]
    if value is None or not any(step.op is Form.PAD for step in path) or abs(value) * extent >= EXACT:
        return None
    axes, step = [fresh_axis(e) for e in n.shape], fresh_axis(extent, is_reduce=True)
    place = own(n, axes)
    for moved in path:
        (place,) = operands(moved, place, (step,) if moved is n else ())
    guards = conjuncts(place.guard) if place.guard is not None else set()
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


def _count(guards: set[expression.Node], step: expression.Node, extent: int) -> Affine | None:
    """How many steps fulfil all conditions, if that is one sum for all places."""
    start, stop = Affine(), Affine({None: extent})
    for guard in guards:
        if guard.op is not Op.CMPLT:
            return None
        # low < high says that what is left, high - low - 1, is not negative
        left = combine(combine(affine(guard.src[1]), affine(guard.src[0]), -1), {None: -1})
        factor = left.pop(step, 0)
        if factor == 1:
            larger = _larger(start, combine({}, left, -1))
            if larger is None:
                return None
            start = larger
        elif factor == -1:
            smaller = _larger(combine({}, stop, -1), combine({}, combine(left, {None: 1}), -1))
            if smaller is None:
                return None
            stop = combine({}, smaller, -1)
        elif factor or interval(left)[0] < 0:
            return None
    count = combine(stop, start, -1)
    return count if interval(count)[0] >= 0 else None


def _larger(a: Affine, b: Affine) -> Affine | None:
    """The larger one of two sums, if it is the same everywhere."""
    low, high = interval(combine(a, b, -1))
    return a if low >= 0 else b if high <= 0 else None


def _sum(terms: Affine, axes: dict[expression.Node, int], shape: tuple[int, ...]) -> Node | None:
    total = constant(DType.INT32, terms.get(None, 0), shape)
    for atom, factor in terms.items():
        if atom is None:
            continue
        if atom not in axes:
            return None
        scaled = node(Op.MUL, counter(shape, axes[atom]), constant(DType.INT32, factor, shape))
        total = node(Op.ADD, scaled, total)
    return total
