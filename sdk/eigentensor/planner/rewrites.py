"""Rules: a tensor → other ways to compute the same real numbers. Their bits may differ, and their errors.

Every rule is sound over the reals wherever the tensor that it rewrites is defined; the tests hold each to the oracle.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import reduce

from eigentensor.graph.node import Form, Node, constant, is_bounded, node
from eigentensor.numerics.dtypes import DType
from eigentensor.planner.algebra import below_movement, constant_along, function, is_number, number, unmoved, value_of
from eigentensor.planner.contractions import reassociate
from eigentensor.planner.decompositions import DECOMPOSITIONS, fused
from eigentensor.planner.normal import chain, repeated, terms
from eigentensor.program.ops import Op

Rule = Callable[[Node], Iterator[Node]]
#: Rules that choose what the normal form forgets: how terms of a chain are grouped.
GROUPING = frozenset({"group small terms", "square and multiply"})
SPANS = (16, 64, 256)  #: terms of a part of a sum
_ELEMENTWISE = frozenset({
    Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MULACC, Op.MAX, Op.MIN, Op.SQRT, Op.RECIPROCAL, Form.FUNCTION
})  # fmt: skip


def _both_ways(n: Node) -> Iterator[tuple[Node, Node]]:
    a, b = n.src
    yield a, b
    if a is not b:
        yield b, a


def _decomposition(of: str, make: Callable[[Node], Node]) -> Rule:
    def decompose(n: Node) -> Iterator[Node]:
        if n.op is Form.FUNCTION and n.arg == of:
            yield make(n.src[0])

    return decompose


def exp_minus_one(n: Node) -> Iterator[Node]:
    """exp(x) - 1 → expm1(x)"""
    if n.op is Op.SUB and n.src[0].op is Form.FUNCTION and n.src[0].arg == "exp" and is_number(n.src[1], 1):
        yield function("expm1", n.src[0].src[0])


def power(n: Node) -> Iterator[Node]:
    """xⁿ of a small whole n by multiplications; √x for a half"""
    if n.op is Form.FUNCTION and n.arg == "power" and (exponent := value_of(n.src[1])) is not None:
        x, times = n.src[0], abs(exponent)
        if times in range(1, 17):
            product = repeated(Op.MUL, x, int(times))
            yield product if exponent > 0 else node(Op.RECIPROCAL, product)
        elif times == 0.5:
            yield node(Op.SQRT, x) if exponent > 0 else node(Op.RECIPROCAL, node(Op.SQRT, x))


def distribute(n: Node) -> Iterator[Node]:
    """a·(b ± c) → a·b ± a·c"""
    if n.op is Op.MUL and n.dtype.is_float:
        for a, total in _both_ways(n):
            if total.op in (Op.ADD, Op.SUB):
                b, c = total.src
                yield node(total.op, node(Op.MUL, a, b), node(Op.MUL, a, c))


def factor(n: Node) -> Iterator[Node]:
    """a·b ± a·c → a·(b ± c)"""
    if n.op in (Op.ADD, Op.SUB) and n.dtype.is_float and all(s.op is Op.MUL for s in n.src):
        for a, b in _both_ways(n.src[0]):
            yield from (node(Op.MUL, a, node(n.op, b, c)) for d, c in _both_ways(n.src[1]) if a is d)


def multiply_add(n: Node) -> Iterator[Node]:
    """a·b + c, rounded once"""
    if n.op is Op.ADD and n.dtype is DType.FLOAT32:
        yield from (node(Op.MULACC, *product.src, c) for product, c in _both_ways(n) if product.op is Op.MUL)


def multiply_then_add(n: Node) -> Iterator[Node]:
    """a·b + c, rounded twice"""
    if n.op is Op.MULACC:
        a, b, c = n.src
        yield node(Op.ADD, node(Op.MUL, a, b), c)


def powers(n: Node) -> Iterator[Node]:
    """x·x·x·x → (x²)²"""
    if n.op is Op.MUL and n.dtype.is_float and max((of := terms(n)).values()) > 3:
        yield reduce(lambda a, b: node(Op.MUL, a, b), (repeated(Op.MUL, x, times) for x, times in of.items()))


def group(n: Node) -> Iterator[Node]:
    """(x + s) + t → x + (s + t) where s and t are small tensors, repeated to the shape of x"""
    op = n.op
    if (op is not Op.ADD and op is not Op.MUL) or not n.dtype.is_float or op not in {s.op for s in n.src}:
        return
    small, rest = Counter[Node](), Counter[Node]()
    for term, times in terms(n).items():
        (small if unmoved(term).elements < n.elements else rest)[term] += times
    if len(small) > 1 and rest:
        yield node(op, chain(op, rest), chain(op, small))


def before_repeating(n: Node) -> Iterator[Node]:
    """f(s, t) of what is repeated along the same axes → f(s, t), repeated"""
    if n.op not in _ELEMENTWISE or not n.dtype.is_float:
        return
    shapes = {s.src[0].shape for s in n.src if s.op is Form.EXPAND}
    if len(shapes) == 1 and all(s.op in (Form.EXPAND, Op.CONST) for s in n.src):
        (shape,) = shapes
        small = (constant(s.dtype, s.arg, shape) if s.op is Op.CONST else s.src[0] for s in n.src)
        yield node(Form.EXPAND, node(n.op, *small, arg=n.arg), arg=n.shape)


def quotient(n: Node) -> Iterator[Node]:
    """x / y → x·(1/y), the reciprocal taken where y is smallest; that of a number beforehand"""
    if n.op is Op.DIV:
        x, y = n.src
        known = value_of(y)
        yield node(Op.MUL, x, number(y, 1 / known) if known else below_movement(Op.RECIPROCAL, y))


def reciprocal(n: Node) -> Iterator[Node]:
    """x·(1/y) → x / y"""
    if n.op is Op.MUL:
        yield from (node(Op.DIV, x, y.src[0]) for x, y in _both_ways(n) if y.op is Op.RECIPROCAL)


def root(n: Node) -> Iterator[Node]:
    """1/√x ↔ √(1/x)"""
    if {n.op, *(s.op for s in n.src)} == {Op.SQRT, Op.RECIPROCAL}:
        yield node(n.src[0].op, node(n.op, n.src[0].src[0]))


def out_of_sum(n: Node) -> Iterator[Node]:
    """Σ a·s → s·Σ a where s is the same in all terms"""
    if n.op is not Op.REDUCE_ADD or n.src[0].op is not Op.MUL or not n.dtype.is_float:
        return
    inside, outside = Counter[Node](), Counter[Node]()
    for term, times in terms(n.src[0]).items():
        same = constant_along(term, n.arg)
        if same is None:
            inside[term] += times
        else:
            outside[same] += times
    if inside and outside:
        total = node(Op.REDUCE_ADD, chain(Op.MUL, inside), *n.src[1:], arg=n.arg)
        yield node(Op.MUL, total, chain(Op.MUL, outside))


def into_factor(n: Node) -> Iterator[Node]:
    """c·Σ a·b → Σ (c·a)·b for a number c, multiplied where a is smallest"""
    if n.op is not Op.MUL or not n.dtype.is_float:
        return
    for total, c in _both_ways(n):
        inner, known = total.src[0] if total.op is Op.REDUCE_ADD else total, value_of(c)
        if known is not None and inner is not total and inner.op is Op.MUL:
            for a, b in _both_ways(inner):
                yield node(Op.REDUCE_ADD, node(Op.MUL, _scaled(a, known), b), *total.src[1:], arg=total.arg)


def _scaled(x: Node, by: float) -> Node:
    if x.op in (Form.EXPAND, Form.RESHAPE, Form.PERMUTE):
        return node(x.op, _scaled(x.src[0], by), arg=x.arg)
    return node(Op.MUL, x, number(x, by))


def spans(n: Node) -> Iterator[Node]:
    """A long sum as a sum of sums: of neighbours, or of every k-th term"""
    if n.op is not Op.REDUCE_ADD or not n.dtype.is_float or len(n.arg) != 1 or is_bounded(n):
        return
    x, (axis,) = n.src[0], n.arg
    for k in SPANS:
        if x.shape[axis] % k == 0 and x.shape[axis] > k:
            parts = node(Form.RESHAPE, x, arg=(*x.shape[:axis], x.shape[axis] // k, k, *x.shape[axis + 1 :]))
            for first in (axis + 1, axis):
                yield node(Op.REDUCE_ADD, node(Op.REDUCE_ADD, parts, arg=(first,)), arg=(axis,))


RULES: dict[str, Rule] = {
    **{name: _decomposition(of, make) for of, ways in DECOMPOSITIONS.items() for name, make in ways.items()},
    "one function": fused,
    "expm1 for exp - 1": exp_minus_one,
    "power by products": power,
    "distribute": distribute,
    "factor": factor,
    "multiply-add": multiply_add,
    "multiply, then add": multiply_then_add,
    "square and multiply": powers,
    "group small terms": group,
    "before repeating": before_repeating,
    "times 1/y": quotient,
    "over y": reciprocal,
    "root of reciprocal": root,
    "factor out of a sum": out_of_sum,
    "number into a factor": into_factor,
    "sum of sums": spans,
    "other product first": reassociate,
}
