"""Long float reductions with few results, cut into spans: 16 lanes of at most 64 terms each, then the next level.

The cut follows from shapes alone, never from a device, so that whoever owns a subtree of it gets the same bits.
"""

from math import prod

from eigentensor.lowering.affine import simplify
from eigentensor.lowering.constants import identity
from eigentensor.lowering.kernel import Kernel, add, flat, fresh_array, fresh_axis, index, less, scaled, where
from eigentensor.lowering.passes import free_axes, guarded, in_order, rename, replace, substitute, take_out
from eigentensor.program.expression import Axis, Node, binary, counter, factors, load, reduction, walk
from eigentensor.program.ops import REDUCTIONS, Op

LANES = 16
TERMS = 64
SHORT = 256  # fewer terms are one chain
LONG = 4096  # more terms are always cut; fewer only if there are fewer results than this
_CUT = (Op.REDUCE_ADD, Op.REDUCE_MUL, Op.REDUCE_MULACC)


def is_long(terms: int, results: int) -> bool:
    """Whether a float reduction of so many terms with so many results is cut."""
    return terms > LONG or (terms >= SHORT and results < LONG)


def shape(terms: int) -> tuple[int, int]:
    """(spans per lane, terms of a span): a power of two of spans, of equal length, the last ones padded."""
    spans = 1 << max(0, (-(-terms // (LANES * TERMS)) - 1).bit_length())
    return spans, -(-terms // (LANES * spans))


def cut(kernel: Kernel) -> list[Kernel]:
    """The kernels that compute the same with no long float reduction; partial results come first."""
    made: list[Kernel] = []
    while (found := _longest(kernel.value)) is not None:
        inner = [n for n in walk(*factors(found)) if n.op in REDUCTIONS]
        if inner:
            first, kernel = take_out(inner[-1], kernel)
        else:
            first, combined = _level(found, kernel)
            kernel = replace(kernel, found, combined)
        made.append(first)
    return [*made, kernel]


def _longest(value: Node) -> Node | None:
    free = free_axes(value)
    for n in walk(value):
        if n.op in _CUT and n.dtype.is_float and all(s.op is Op.CONST for s in n.src[: len(n.arg)]):
            results = prod(axis.extent for axis in free[n])
            if is_long(prod(axis.extent for axis in n.arg), results):
                return n
    return None


def _level(n: Node, kernel: Kernel) -> tuple[Kernel, Node]:
    """A kernel for the spans of a reduction, and the reduction over their results."""
    axes: tuple[Axis, ...] = n.arg
    terms = prod(axis.extent for axis in axes)
    spans, length = shape(terms)
    outer = in_order(kernel, free_axes(n)[n])
    span, lane, step = fresh_axis(spans), fresh_axis(LANES), fresh_axis(length, is_reduce=True)
    term = add(scaled(add(scaled(counter(span), length), counter(step)), LANES), counter(lane))
    inputs = [simplify(substitute(f, dict(_counters(axes, term)))) for f in factors(n)]
    if spans * length * LANES > terms:
        inside = less(term, index(terms))
        inputs = [_padded(f, inside, n.op) for f in inputs]
    own = {axis: fresh_axis(axis.extent) for axis in outer}
    value = rename(reduction(n.op, (step,), *inputs), own)
    array = fresh_array(n.dtype, prod(a.extent for a in outer) * spans * LANES)
    partial = Kernel(array, (*own.values(), *((span,) if spans > 1 else ()), lane), value, kernel.origin)
    rest = fresh_axis(spans * LANES, is_reduce=True)
    combine = Op.REDUCE_MUL if n.op is Op.REDUCE_MUL else Op.REDUCE_ADD
    return partial, reduction(combine, (rest,), load(array, add(scaled(flat(outer), rest.extent), counter(rest))))


def _counters(axes: tuple[Axis, ...], term: Node) -> list[tuple[Node, Node]]:
    """What the counters of the axes are at the given term, in row-major order."""
    found = []
    stride = prod(axis.extent for axis in axes)
    for position, axis in enumerate(axes):
        stride //= axis.extent
        value = binary(Op.FLOORDIV, term, index(stride)) if stride > 1 else term
        found.append((counter(axis), binary(Op.FLOORMOD, value, index(axis.extent)) if position else value))
    return found


def _padded(factor: Node, inside: Node, op: Op) -> Node:
    """The factor, or what changes nothing beyond the last term."""
    value = guarded(factor, inside)
    if op is not Op.REDUCE_MUL and value.op is Op.LOAD:
        return value
    return where(inside, value, identity(op, factor.dtype))
