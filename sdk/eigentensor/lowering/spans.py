"""Long float reductions, cut into spans whose partial results a second reduction takes up in order.

The partial results of one span stand side by side, as the results do. With many results a span is a run of consecutive
terms. With few there is nothing to fill vectors with, so a span is 16 lanes of at most 64 terms each, and lanes are
combined within it before spans are. The cut follows from shapes alone, never from a device: a span's partial result is
one element along an axis of spans, and whoever computes it needs the span's terms alone and gets the same bits.
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
#: Partial sums are added, whatever made them: of a MULACC the products are rounded in already.
_COMBINED = {Op.REDUCE_MULACC: Op.REDUCE_ADD}


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


def cut(kernel: Kernel, apart: Axis | None = None) -> list[Kernel]:
    """The kernels that compute the same with no long float reduction; partial results come first.

    An axis that stands `apart` counts no results: each of its elements may be computed on its own.
    """
    made: list[Kernel] = []
    while (longest := _longest(kernel.value, apart)) is not None:
        n, by = longest
        # A reduction below is computed once, by a kernel of its own, not again for each span.
        if below := reductions_below(n):
            first, kernel = take_out(below[-1], kernel)
            made.append(first)
        else:
            parts, value = _level(n, by, kernel)
            kernel = replace(kernel, n, value)
            made += parts
    return [*made, kernel]


def reductions_below(n: Node) -> list[Node]:
    """The reductions that a reduction's factors are made of, operands first."""
    return [below for below in walk(*factors(n)) if below.op in REDUCTIONS]


def has_constant_extents(n: Node) -> bool:
    """Whether a reduction takes all steps of its axes, whatever variables are."""
    return all(extent.op is Op.CONST for extent in n.src[: len(n.arg)])


def _longest(value: Node, apart: Axis | None) -> tuple[Node, Cut] | None:
    free = free_axes(value)
    for n in walk(value):
        if n.op in _CUT and n.dtype.is_float and has_constant_extents(n):
            results = prod(axis.extent for axis in free[n] if axis != apart)
            by = shape(prod(axis.extent for axis in n.arg), results)
            if by is not None:
                return n, by
    return None


def _level(n: Node, by: Cut, kernel: Kernel) -> tuple[list[Kernel], Node]:
    """The kernels for the spans of a reduction, and the reduction over their results."""
    outer = in_order(kernel, free_axes(n)[n])
    spans = (fresh_axis(by.spans),) if by.spans > 1 else ()
    place = counter(spans[0]) if spans else index(0)
    if by.lanes == 1:
        value = _split(n, by, place) or _terms(n, by, place, index(0))
        whole = partials((*spans, *outer), value, kernel)
        return [whole], over_spans(n.op, whole, outer)
    lane, step = fresh_axis(by.lanes), fresh_axis(by.lanes, is_reduce=True)
    lanes = partials((*spans, *outer, lane), _terms(n, by, place, counter(lane)), kernel)
    element = add(scaled(flat((*spans, *outer)), by.lanes), counter(step))
    value = reduction(_COMBINED.get(n.op, n.op), (step,), load(lanes.result, element))
    if not spans:
        return [lanes], value
    whole = partials((*spans, *outer), value, kernel)
    return [lanes, whole], over_spans(n.op, whole, outer)


def partials(axes: tuple[Axis, ...], value: Node, kernel: Kernel) -> Kernel:
    """A kernel for a part of another one's work: an element for each combination of the axes, the last one fastest."""
    own = {axis: fresh_axis(axis.extent) for axis in axes}
    array = fresh_array(value.dtype, prod(axis.extent for axis in axes))
    return Kernel(array, tuple(own.values()), rename(value, own), kernel.origin)


def over_spans(op: Op, parts: Kernel, outer: tuple[Axis, ...]) -> Node:
    """The reduction over the first axis of a kernel of partial results, for counters of its other axes."""
    step = fresh_axis(parts.axes[0].extent, is_reduce=True)
    element = add(scaled(counter(step), prod(axis.extent for axis in outer)), flat(outer))
    return reduction(_COMBINED.get(op, op), (step,), load(parts.result, element))


def _split(n: Node, by: Cut, span: Node) -> Node | None:
    """The reduction over one span, if spans are equal parts of the outermost axis."""
    first, *inner = n.arg
    if first.extent % by.spans:
        return None
    step = fresh_axis(first.extent // by.spans, is_reduce=True)
    place = scaled(span, step.extent)
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
