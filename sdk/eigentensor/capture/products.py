"""Products with reciprocals as quotients: what tinygrad rewrites after it is recorded so that infinities meet no zeros.

x·(1/(1 + x)), which is in every gradient of a sigmoid, is ∞·0 where x is infinite, but tends to 1. x·(1/y) overflows
where y is subnormal, x/y does not. Factors are multiplied in the order and the nesting that they had.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tinygrad.dtype import dtypes
from tinygrad.uop.ops import Ops, UOp

IsOne = Callable[[Any], bool]
#: So many products or sums within one are looked into; deeper ones count as one factor or term.
NESTED = 64
_MOVES = (Ops.RESHAPE, Ops.PERMUTE, Ops.EXPAND, Ops.SHRINK, Ops.FLIP)


def quotient(u: Any, is_one: IsOne) -> Any:
    """The product `u` without a reciprocal that may be infinite or zero beside its factors; None if there is none.

    What `is_one` names is not taken apart: functions that are computed as one.
    """
    if u.op is not Ops.MUL or not dtypes.is_float(u.dtype):
        return None
    tree = _nested(u, is_one)
    factors = list(_leaves(tree))
    for d in factors:
        x = _beside_one(d)
        if x is not None and (parts := _held(x, factors)):
            finite = x.ne(math.inf) & x.ne(-math.inf)
            limit = finite.where(x.alu(Ops.FDIV, d.src[0]), 1.0)
            return _replaced(tree, {parts[0]: limit}, [d, *parts[1:]])
    for total in factors:
        if total.op is Ops.ADD and not is_one(total):
            terms = list(_leaves(_nested(total)))
            for x in dict.fromkeys(_beside_one(d) for t in terms for d in _leaves(_nested(t, op=Ops.MUL))):
                if x is not None and (parts := _held(x, factors)):
                    return _replaced(tree, {total: UOp.usum(*(t * x for t in terms))}, parts)
    divisors = [_divisor(f, is_one) for f in factors]
    if all(divisor is None for divisor in divisors):
        return None
    pairs = zip(factors, divisors, strict=True)
    return _product(tree, (_Fraction(f) if d is None else _Fraction(None, (d,)) for f, d in pairs)).value


class _Fraction(NamedTuple):
    """What is left of a factor: a numerator, which may be missing, and what it is still to be divided by."""

    numerator: Any
    divisors: tuple[Any, ...] = ()

    @property
    def value(self) -> Any:
        first, divisors = self.numerator, self.divisors
        if first is None:
            first, divisors = divisors[0].reciprocal(), divisors[1:]
        for divisor in divisors:
            first = first.alu(Ops.FDIV, divisor)
        return first


def _nested(u: Any, is_one: IsOne = lambda _: False, op: Any = None) -> Any:
    """The operands of `u`, those of operands of the same kind in their places: nested pairs."""
    op, left = op or u.op, [NESTED]

    def of(s: Any) -> Any:
        if s.op is not op or (s is not u and is_one(s)) or not left[0]:
            return s
        left[0] -= 1
        return tuple(of(operand) for operand in s.src)

    return of(u)


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, tuple):
        for part in tree:
            yield from _leaves(part)
    else:
        yield tree


def _product(tree: Any, parts: Iterator[_Fraction]) -> _Fraction:
    """The product with these parts in place of its factors."""
    if not isinstance(tree, tuple):
        return next(parts)
    a, b = (_product(branch, parts) for branch in tree)
    if a.numerator is None or b.numerator is None:
        first, second = (b, a) if a.numerator is None else (a, b)
        return _Fraction(first.numerator, (*first.divisors, *second.divisors))
    return _Fraction(a.value * b.value)


def _replaced(tree: Any, by: dict[Any, Any], dropped: Iterable[Any]) -> Any:
    """The product with one factor replaced once, and others left out once."""
    left = Counter(dropped)

    def parts() -> Iterator[_Fraction]:
        for f in _leaves(tree):
            if f in by:
                yield _Fraction(by.pop(f))
            elif left[f]:
                left[f] -= 1
                yield _Fraction(None)
            else:
                yield _Fraction(f)

    return _product(tree, parts()).value


def _beside_one(d: Any) -> Any:
    """x of 1/(1 + x)."""
    if d.op is Ops.RECIPROCAL and d.src[0].op is Ops.ADD:
        for one, x in (d.src[0].src, d.src[0].src[::-1]):
            if one.op is Ops.CONST and one.val == 1:
                return x
    return None


def _held(x: Any, factors: list[Any]) -> list[Any]:
    """Those factors that x is, or is the product of; none if they are not all there."""
    for parts in ([x], list(_leaves(_nested(x, op=Ops.MUL)))):
        if not Counter(parts) - Counter(factors):
            return parts
    return []


def _divisor(f: Any, is_one: IsOne) -> Any:
    """b of 1/b, also where that is moved; of a number, the reciprocal is a number."""
    moves = []
    while f.op in _MOVES:
        moves.append(f)
        f = f.src[0]
    if f.op is not Ops.RECIPROCAL or f.src[0].base.op is Ops.CONST or is_one(f):
        return None
    divisor = f.src[0]
    for move in reversed(moves):
        divisor = move.replace(src=(divisor, *move.src[1:]))
    return divisor
