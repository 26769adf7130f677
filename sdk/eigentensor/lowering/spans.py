"""Long float reductions, cut into spans whose partial results a second reduction takes up in order.

With many results a span is a run of consecutive terms, and the partial results of one span stand side by side, as the
results do. With few there is nothing to fill vectors with, so a span is 16 lanes of at most 64 terms each. The cut
follows from shapes alone, never from a device, so that whoever owns a subtree of it gets the same bits.
"""

from math import prod
from typing import NamedTuple

from eigentensor.lowering.constants import identity
from eigentensor.lowering.indices import simplify
from eigentensor.lowering.kernel import Kernel, add, flat, fresh_array, fresh_axis, index, less, scaled, where
from eigentensor.lowering.passes import free_axes, guarded, in_order, rename, replace, substitute, take_out
from eigentensor.program.expression import Axis, Node, binary, counter, factors, load, reduction, walk
from eigentensor.program.ops import REDUCTIONS, Op

LANES = 16  # of a span, where results are few
TERMS = 64  # of a lane of a span, at most
RUN = 2048  # terms of a span without lanes, at most
SHORT = 256  # fewer terms are one chain
LONG = 4096  # more terms are always cut; fewer only if there are fewer results than this
_CUT = (Op.REDUCE_ADD, Op.REDUCE_MUL, Op.REDUCE_MULACC)


class Cut(NamedTuple):
    """A power of two of spans; each has so many lanes, and each lane takes so many terms. The last ones are padded."""

    spans: int
    lanes: int
    terms: int


def shape(terms: int, results: int) -> Cut | None:
    """How a float reduction of so many terms with so many results is cut; None if it is one chain."""
    if terms <= (LONG if results >= LONG else SHORT - 1):
        return None
    lanes, most = (1, RUN) if results >= LONG else (LANES, TERMS)
    # A power of two, so that a span is a subtree of its own; terms are then divided again, evenly.
    spans = 1 << (-(-terms // (lanes * most)) - 1).bit_length()
    return Cut(spans, lanes, -(-terms // (lanes * spans)))


def cut(kernel: Kernel) -> list[Kernel]:
    """The kernels that compute the same with no long float reduction; partial results come first."""
    made: list[Kernel] = []
    while (longest := _longest(kernel.value)) is not None:
        n, by = longest
        # A reduction below is computed once, by a kernel of its own, not again for each span.
        inner = [below for below in walk(*factors(n)) if below.op in REDUCTIONS]
        if inner:
            first, kernel = take_out(inner[-1], kernel)
        else:
            first, combined = _level(n, by, kernel)
            kernel = replace(kernel, n, combined)
        made.append(first)
    return [*made, kernel]


def _longest(value: Node) -> tuple[Node, Cut] | None:
    free = free_axes(value)
    for n in walk(value):
        if n.op in _CUT and n.dtype.is_float and all(s.op is Op.CONST for s in n.src[: len(n.arg)]):
            by = shape(prod(axis.extent for axis in n.arg), prod(axis.extent for axis in free[n]))
            if by is not None:
                return n, by
    return None


def _level(n: Node, by: Cut, kernel: Kernel) -> tuple[Kernel, Node]:
    """A kernel for the spans of a reduction, and the reduction over their results."""
    outer = in_order(kernel, free_axes(n)[n])
    results = prod(axis.extent for axis in outer)
    span = fresh_axis(by.spans)
    array = fresh_array(n.dtype, results * by.spans * by.lanes)
    own = {axis: fresh_axis(axis.extent) for axis in outer}
    rest = fresh_axis(by.spans * by.lanes, is_reduce=True)
    if by.lanes > 1:
        lane = fresh_axis(by.lanes)
        axes = (*own.values(), *((span,) if by.spans > 1 else ()), lane)
        element = add(scaled(flat(outer), rest.extent), counter(rest))
        value = _terms(n, by, counter(span), counter(lane))
    else:
        axes = (span, *own.values())
        element = add(scaled(counter(rest), results), flat(outer))
        value = _split(n, by, span) or _terms(n, by, counter(span), index(0))
    # partial sums are added, whatever made them: of a MULACC the products are rounded in already
    combine = Op.REDUCE_MUL if n.op is Op.REDUCE_MUL else Op.REDUCE_ADD
    return Kernel(array, axes, rename(value, own), kernel.origin), reduction(combine, (rest,), load(array, element))


def _split(n: Node, by: Cut, span: Axis) -> Node | None:
    """The reduction over one span, if spans are equal parts of the outermost axis."""
    first, *inner = n.arg
    if first.extent % by.spans:
        return None
    step = fresh_axis(first.extent // by.spans, is_reduce=True)
    place = scaled(counter(span), step.extent)
    is_one = step.extent == 1
    changes = {counter(first): place if is_one else add(place, counter(step))}
    inputs = [simplify(substitute(f, changes)) for f in factors(n)]
    return reduction(n.op, (*(() if is_one else (step,)), *inner), *inputs)


def _terms(n: Node, by: Cut, span: Node, lane: Node) -> Node:
    """The reduction over one lane of one span: its axes as one."""
    step = fresh_axis(by.terms, is_reduce=True)
    term = add(scaled(add(scaled(span, by.terms), counter(step)), by.lanes), lane)
    inputs = [simplify(substitute(f, dict(_counters(n.arg, term)))) for f in factors(n)]
    terms = prod(axis.extent for axis in n.arg)
    if by.spans * by.terms * by.lanes > terms:
        inside = less(term, index(terms))
        inputs = [_padded(f, inside, n.op) for f in inputs]
    return reduction(n.op, (step,), *inputs)


def _counters(axes: tuple[Axis, ...], term: Node) -> list[tuple[Node, Node]]:
    """What the counters of the axes are at the given term, in row-major order."""
    counters = []
    stride = prod(axis.extent for axis in axes)
    for position, axis in enumerate(axes):
        stride //= axis.extent
        value = binary(Op.FLOORDIV, term, index(stride)) if stride > 1 else term
        counters.append((counter(axis), binary(Op.FLOORMOD, value, index(axis.extent)) if position else value))
    return counters


def _padded(factor: Node, inside: Node, op: Op) -> Node:
    """The factor, or what changes nothing beyond the last term."""
    value = guarded(factor, inside)
    # a guarded load is +0, which a sum takes for nothing; a product needs 1
    if op is not Op.REDUCE_MUL and value.op is Op.LOAD:
        return value
    return where(inside, value, identity(op, factor.dtype))
