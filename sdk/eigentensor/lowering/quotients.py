"""Quotients and remainders of indices by numbers that depend on variables: (a·n + j) // n is a, (a·n + j) % n is j.

That needs 0 ≤ j < n wherever the index counts: a counter is below its extent, which may depend on variables, too.
"""

from collections.abc import Mapping
from functools import reduce
from itertools import product as pairs

from eigentensor.lowering.affine import UNKNOWN, affine, interval
from eigentensor.lowering.kernel import add, index, scaled
from eigentensor.program.expression import Node, binary, walk
from eigentensor.program.ops import Op

Monomial = tuple[Node, ...]  # a product, its factors in the order of their identities
Polynomial = dict[Monomial, int]  # what each is multiplied by, never zero
Extents = Mapping[Node, Node]  # of counters: each is at least 0 and less than its extent


def divided(value: Node, by: Node, extents: Extents) -> tuple[Node, Node] | None:
    """Quotient and remainder of an index by one that depends on variables, without dividing; None if that fails."""
    divisor, rest, quotient = polynomial(by), polynomial(value), Polynomial()
    leading = max(divisor, key=len, default=())
    if not leading:
        return None
    while (found := _multiple(rest, leading, divisor[leading])) is not None:
        quotient = _sum(quotient, found)
        rest = _sum(rest, _product(found, divisor), -1)
    above = _sum(_sum(divisor, rest, -1), {(): 1}, -1)
    is_remainder = _least(rest, extents) >= 0 and _least(above, extents) >= 0
    order = {n: place for place, n in enumerate(walk(value, by))}
    return (_expression(quotient, order), _expression(rest, order)) if is_remainder else None


def polynomial(value: Node) -> Polynomial:
    """The sum of products that an index expression is."""
    if value.op is Op.CONST:
        return _clean({(): int(value.arg)})
    if value.op in (Op.ADD, Op.SUB):
        a, b = map(polynomial, value.src)
        return _sum(a, b, -1 if value.op is Op.SUB else 1)
    if value.op is Op.MUL:
        return _product(*map(polynomial, value.src))
    return {(value,): 1}


def _clean(terms: Polynomial) -> Polynomial:
    return {monomial: c for monomial, c in terms.items() if c}


def _sum(a: Polynomial, b: Polynomial, factor: int = 1) -> Polynomial:
    return _clean({m: a.get(m, 0) + factor * b.get(m, 0) for m in (*a, *b)})


def _product(a: Polynomial, b: Polynomial) -> Polynomial:
    total = Polynomial()
    for (m, c), (n, d) in pairs(a.items(), b.items()):
        total = _sum(total, {tuple(sorted((*m, *n), key=id)): c * d})
    return total


def _multiple(of: Polynomial, leading: Monomial, factor: int) -> Polynomial | None:
    """What the leading term of a divisor has to be multiplied by to be one of these terms."""
    for monomial, c in of.items():
        left = list(monomial)
        if c % factor == 0 and all(_taken(left, atom) for atom in leading):
            return {tuple(left): c // factor}
    return None


def _taken(left: list[Node], atom: Node) -> bool:
    if atom not in left:
        return False
    left.remove(atom)
    return True


def _least(terms: Polynomial, extents: Extents) -> int:
    """A lower bound: each counter in turn is put where the sum is smallest."""
    for counter, extent in extents.items():
        of = {tuple(a for a in m if a is not counter): c for m, c in terms.items() if m.count(counter) == 1}
        if not of or any(m.count(counter) > 1 for m in terms):
            continue
        low, high = _interval(of)
        if low < 0 < high:
            continue
        without = {m: c for m, c in terms.items() if counter not in m}
        last = _sum(polynomial(extent), {(): 1}, -1)
        terms = without if low >= 0 else _sum(without, _product(of, last))
    return _interval(terms)[0]


def _interval(terms: Polynomial) -> tuple[int, int]:
    low = high = 0
    for monomial, c in terms.items():
        ends = [c]
        for atom in monomial:
            bounds = interval(affine(atom))
            if max(map(abs, bounds)) >= UNKNOWN:
                return -UNKNOWN, UNKNOWN
            ends = [a * b for a, b in pairs(ends, bounds)]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _expression(terms: Polynomial, order: Mapping[Node, int]) -> Node:
    total = index(0)
    for monomial, c in terms.items():
        if monomial:
            factors = sorted(monomial, key=lambda atom: order[atom])
            total = add(total, scaled(reduce(lambda a, b: binary(Op.MUL, a, b), factors), c))
    return add(total, index(terms.get((), 0)))
