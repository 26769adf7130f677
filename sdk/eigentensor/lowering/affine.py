"""Index expressions as sums: constant + Σ coefficient · atom, with atoms that are neither sums nor multiples."""

from collections.abc import Mapping

from eigentensor.lowering.kernel import add, index, scaled
from eigentensor.program.expression import Node, binary, rewrite
from eigentensor.program.ops import DType, Op

Affine = dict[Node | None, int]  # the constant stands under None


def affine(value: Node) -> Affine:
    """The sum that an index expression is; atoms with coefficient zero are left out."""
    if value.op is Op.CONST:
        return _clean({None: int(value.arg)})
    if value.op in (Op.ADD, Op.SUB):
        a, b = (affine(s) for s in value.src)
        return combine(a, b, -1 if value.op is Op.SUB else 1)
    if value.op is Op.MUL:
        a, b = (affine(s) for s in value.src)
        if not set(a) - {None}:
            a, b = b, a
        if not set(b) - {None}:
            return _clean({atom: c * b.get(None, 0) for atom, c in a.items()})
    return {value: 1}


def combine(a: Affine, b: Affine, factor: int = 1) -> Affine:
    """a + factor · b"""
    return _clean({atom: a.get(atom, 0) + factor * b.get(atom, 0) for atom in (*a, *b)})


def expression(terms: Mapping[Node | None, int]) -> Node:
    """The sum as an expression: terms in the order of the mapping, the constant last."""
    total = index(0)
    for atom, c in terms.items():
        if atom is not None:
            total = add(total, scaled(atom, c))
    return add(total, index(terms.get(None, 0)))


def _clean(terms: Affine) -> Affine:
    return {atom: c for atom, c in terms.items() if c}


def simplify(value: Node) -> Node:
    """Fewer quotients and remainders by constants: of sums of multiples, and where both stand in one sum."""
    return rewrite(value, _simpler)


def _simpler(value: Node) -> Node:
    if value.dtype is not DType.INDEX:
        return value
    if value.op in (Op.FLOORDIV, Op.FLOORMOD) and value.src[1].op is Op.CONST and (n := int(value.src[1].arg)) > 0:
        return _divided(value, n)
    if value.op in (Op.ADD, Op.SUB, Op.MUL):
        return expression(_recombined(affine(value)))
    return value


def _divided(value: Node, n: int) -> Node:
    terms = affine(value.src[0])
    whole = {atom: c for atom, c in terms.items() if c % n == 0}
    rest = {atom: c for atom, c in terms.items() if c % n}
    low, high = interval(rest)
    if low < 0 or high >= n:  # perhaps what is left of each coefficient stays within one multiple
        left = _clean({atom: c % n for atom, c in rest.items()})
        low, high = interval(left)
        if low >= 0 and high < n:
            whole, rest = {atom: c - left.get(atom, 0) for atom, c in terms.items()}, left
    if value.op is Op.FLOORMOD:
        if low >= 0 and high < n:
            return expression(rest)
        return value if not whole else binary(Op.FLOORMOD, expression(rest), index(n))
    quotient = _clean({atom: c // n for atom, c in whole.items()})
    if low >= 0 and high < n:
        return expression(quotient)
    return value if not whole else add(expression(quotient), binary(Op.FLOORDIV, expression(rest), index(n)))


def _recombined(terms: Affine) -> Affine:
    """c·n·(x // n) + c·(x % n) is c·x."""
    for atom, c in terms.items():
        if atom is not None and atom.op is Op.FLOORMOD and atom.src[1].op is Op.CONST:
            quotient = binary(Op.FLOORDIV, *atom.src)
            if terms.get(quotient) == c * int(atom.src[1].arg):
                rest = {k: v for k, v in terms.items() if k is not atom and k is not quotient}
                return _recombined(combine(rest, affine(atom.src[0]), c))
    return terms


def interval(terms: Affine) -> tuple[int, int]:
    """Smallest and largest value of a sum; unknown atoms are without bounds."""
    low = high = terms.get(None, 0)
    for atom, c in terms.items():
        if atom is not None:
            ends = [c * end for end in _bounds(atom)]
            low, high = low + min(ends), high + max(ends)
    return low, high


UNKNOWN = 1 << 62


def _bounds(atom: Node) -> tuple[int, int]:
    if atom.op in (Op.WHERE, Op.MAX, Op.MIN):  # one of two values
        (a, b), (c, d) = (interval(affine(s)) for s in atom.src[-2:])
        return min(a, c), max(b, d)
    if atom.op is Op.CAST and atom.src[0].dtype is DType.BOOL:
        return 0, 1
    if atom.op is Op.RANGE:
        return 0, max(atom.arg.extent - 1, 0)
    if atom.op is Op.VAR:
        return int(atom.arg.bounds.minimum), int(atom.arg.bounds.maximum)
    if atom.op in (Op.FLOORDIV, Op.FLOORMOD) and atom.src[1].op is Op.CONST and (n := int(atom.src[1].arg)) > 0:
        low, high = interval(affine(atom.src[0]))
        if atom.op is Op.FLOORDIV:
            return low // n, high // n
        return (low, high) if low >= 0 and high < n else (0, n - 1)
    return -UNKNOWN, UNKNOWN
