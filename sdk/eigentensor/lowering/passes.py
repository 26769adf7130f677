"""From what tinygrad schedules to what the format admits: small rewrites, and kernels taken apart."""

from collections.abc import Callable, Iterable, Mapping

from eigentensor.lowering.constants import constant
from eigentensor.lowering.kernel import Kernel, flat, fresh_array, fresh_axis
from eigentensor.program.expression import (
    Array,
    Axis,
    Node,
    binary,
    conjunction,
    counter,
    factors,
    load,
    reduction,
    rewrite,
    walk,
)
from eigentensor.program.ops import REDUCTIONS, DType, Op

Split = tuple[Kernel, Node]  # a kernel that computes a sub-expression, and the expression that reads its result


def free_axes(value: Node) -> dict[Node, tuple[Axis, ...]]:
    """For every node below `value` the axes that it depends on, without those that reductions below it run over."""
    free: dict[Node, tuple[Axis, ...]] = {}
    for n in walk(value):
        if n.op is Op.RANGE:
            free[n] = (n.arg,)
        else:
            axes = dict.fromkeys(axis for s in n.src for axis in free[s])
            bound = n.arg if n.op in REDUCTIONS else ()
            free[n] = tuple(axis for axis in axes if axis not in bound)
    return free


def rename(value: Node, axes: dict[Axis, Axis]) -> Node:
    """The expression over other output axes."""
    return rewrite(value, lambda n: counter(axes[n.arg]) if n.op is Op.RANGE and n.arg in axes else n)


def substitute(value: Node, changes: Mapping[Node, Node]) -> Node:
    """The expression with some nodes replaced, from the leaves up."""
    return rewrite(value, lambda n: changes.get(n, n))


def guarded(value: Node, condition: Node) -> Node:
    """The expression with every load made conditional: +0 is loaded where the condition is false."""

    def change(n: Node) -> Node:
        if n.op is not Op.LOAD:
            return n
        guard = condition if len(n.src) == 1 else conjunction(condition, n.src[1])
        return load(n.arg, n.src[0], guard)

    return rewrite(value, change)


def in_order(kernel: Kernel, axes: Iterable[Axis]) -> tuple[Axis, ...]:
    """Output axes as the kernel has them, then the others."""
    rest = tuple(axes)
    return (*(axis for axis in kernel.axes if axis in rest), *(axis for axis in rest if axis not in kernel.axes))


def materialise(value: Node, kernel: Kernel) -> Split:
    """A kernel that computes a sub-expression for all counters of the axes it depends on, and a load of it."""
    axes = in_order(kernel, free_axes(value)[value])
    own = {axis: fresh_axis(axis.extent) for axis in axes}
    elements = 1
    for axis in axes:
        elements *= axis.extent
    array = fresh_array(value.dtype, elements)
    return Kernel(array, tuple(own.values()), rename(value, own), kernel.origin), load(array, flat(axes))


def take_out(value: Node, kernel: Kernel) -> tuple[Kernel, Kernel]:
    """The kernel in two: first the sub-expression, then the rest, which reads it."""
    first, read = materialise(value, kernel)
    return first, replace(kernel, value, read)


def nested(value: Node) -> Node | None:
    """An innermost reduction whose value depends on the axes of a reduction around it."""
    free = free_axes(value)
    for outer in walk(value):
        if outer.op in REDUCTIONS:
            for inner in walk(*factors(outer)):
                if inner.op in REDUCTIONS and set(free[inner]) & set(outer.arg):
                    return inner
    return None


def unnest(kernel: Kernel) -> list[Kernel]:
    """The same without reductions inside reductions."""
    made: list[Kernel] = []
    while (inner := nested(kernel.value)) is not None:
        first, kernel = take_out(inner, kernel)
        made.append(first)
    return [*made, kernel]


def replace(kernel: Kernel, old: Node, new: Node) -> Kernel:
    """A kernel with one expression in place of another, wherever it stands."""
    return Kernel(kernel.result, kernel.axes, rewrite(kernel.value, lambda n: new if n is old else n), kernel.origin)


def conjuncts(condition: Node) -> set[Node]:
    """The conditions that a conjunction is made of; a single one is itself."""
    if condition.op is Op.AND and condition.dtype is DType.BOOL:
        return conjuncts(condition.src[0]) | conjuncts(condition.src[1])
    return {condition}


def tidy(value: Node) -> Node:
    """Rewrites that keep every bit: fewer instructions, and fused multiply-adds where a sum of products is meant."""
    return rewrite(value, _tidied)


def _tidied(n: Node) -> Node:
    changed = _RULES[n.op](n) if n.op in _RULES else None
    return n if changed is None else changed


def _difference(n: Node) -> Node | None:
    """a + b·(−1) is a − b."""
    for a, b in (n.src, n.src[::-1]):
        if b.op is Op.MUL and b.src[1] is constant(b.dtype, -1) and n.dtype is not DType.BOOL:
            return binary(Op.SUB, a, b.src[0])
    return None


def _equality(n: Node) -> Node | None:
    """not (a ≠ b) is a = b."""
    a, b = n.src
    if a.op is Op.CMPNE and b.dtype is DType.BOOL and b is constant(DType.BOOL, True):
        return binary(Op.CMPEQ, *a.src)
    return None


def _gated(n: Node) -> Node | None:
    """A guarded load is +0 already where a weaker condition would choose +0."""
    condition, value, other = n.src
    if condition.op is Op.CONST:
        return value if condition.arg else other
    if value.op is Op.LOAD and len(value.src) == 2 and other is constant(other.dtype, 0):
        return value if conjuncts(condition) <= conjuncts(value.src[1]) else None
    return None


def _fused(n: Node) -> Node | None:
    """A float32 sum of products accumulates with one rounding per step."""
    (term,) = factors(n)
    if n.dtype is not DType.FLOAT32 or term.op is not Op.MUL:
        return None
    extents = n.src[: len(n.arg)]
    return reduction(Op.REDUCE_MULACC, n.arg, *term.src, extents=extents)


_RULES: dict[Op, Callable[[Node], Node | None]] = {
    Op.ADD: _difference,
    Op.CMPNE: _equality,
    Op.WHERE: _gated,
    Op.REDUCE_ADD: _fused,
}


def arrays(value: Node) -> dict[Array, None]:
    """The arrays that an expression loads from, in order of first use."""
    return dict.fromkeys(n.arg for n in walk(value) if n.op is Op.LOAD)
