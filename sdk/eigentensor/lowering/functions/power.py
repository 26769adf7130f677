"""x to the power of y: a logarithm and an exponential in pairs of float32, the second for what the first has lost."""

from math import log

import numpy as np

from eigentensor.lowering.functions.exponential import EXP2, MAGIC, clamped, scaled
from eigentensor.lowering.functions.logarithm import split, total
from eigentensor.lowering.functions.nodes import (
    add,
    bitcast,
    both,
    either,
    equal,
    fast_two_sum,
    fused,
    in_float32,
    less,
    magnitude,
    multiply,
    negative,
    polynomial,
    real,
    subtract,
    where,
    whole,
)
from eigentensor.program.expression import Node, binary, node
from eigentensor.program.ops import DType, Op

Pair = tuple[Node, Node]

TWO_LOG2E_HIGH = float(np.float32(2 / log(2)))
TWO_LOG2E_LOW = 2 / log(2) - TWO_LOG2E_HIGH
THIRD_HIGH = float(np.float32(1 / 3))
THIRD_LOW = 1 / 3 - THIRD_HIGH
#: (atanh(s)/s - 1 - s²/3)/s⁴ as a polynomial of s², for |s| ≤ 3 - 2√2
ATANH = (0.2, 0.1428, 0.1154)


def _sum(a: Node, b: Node, rest: Node) -> Pair:
    """a + b + rest for |a| ≥ |b|, or a = 0."""
    high, lost = fast_two_sum(a, b)
    return high, add(lost, rest)


def _product(a: Pair, b: Pair) -> Pair:
    high = multiply(a[0], b[0])
    lost = fused(a[0], b[0], negative(high))
    return high, fused(a[0], b[1], fused(a[1], b[0], lost))


def _quotient(f: Node) -> Pair:
    """f/(2 + f)"""
    high, low = _sum(real(2), f, real(0))
    inverse = node(Op.RECIPROCAL, DType.FLOAT32, high)
    quotient = multiply(f, inverse)
    rest = fused(negative(quotient), low, fused(negative(quotient), high, f))
    return quotient, multiply(rest, inverse)


def _log2(x: Node) -> Pair:
    """log2(x) to about 45 bits, for positive finite x; with s = f/(2 + f) it is n + 2·atanh(s)/log(2)."""
    n, f = split(x)
    s = _quotient(f)
    square = _product(s, s)
    series = _sum(real(THIRD_HIGH), multiply(square[0], polynomial(square[0], *ATANH)), real(THIRD_LOW))
    cubic = _product(s, _product(square, series))
    atanh = _sum(s[0], cubic[0], add(s[1], cubic[1]))
    of_mantissa = _product(atanh, (real(TWO_LOG2E_HIGH), real(TWO_LOG2E_LOW)))
    return _sum(n, *of_mantissa)


def _exp2(high: Node, low: Node) -> Node:
    """2^(high + low) for |low| far below 1."""
    near = clamped(high, -160.0, 160.0)
    magic = add(near, real(MAGIC))
    inside = less(magnitude(high), real(160))
    r, rest = _sum(subtract(near, subtract(magic, real(MAGIC))), where(inside, low, real(0)), real(0))
    return scaled(add(fused(polynomial(r, *EXP2), r, multiply(rest, real(log(2)))), real(1)), magic)


@in_float32
def power(x: Node, y: Node) -> Node:
    """xʸ with the special cases of IEEE 754 pow: x⁰ = 1 and 1ʸ = 1 even for NaN, negative x only to integers."""
    size = magnitude(x)
    high, low = _log2(size)
    ordinary = both(less(real(0), size), less(size, real(float("inf"))))
    high, low = total(size, high), where(ordinary, low, real(0))
    exponent = multiply(y, high)
    value = _exp2(exponent, fused(y, low, fused(y, high, negative(exponent))))

    half = multiply(y, real(0.5))
    fraction, of_half = (binary(Op.CMPNE, node(Op.TRUNC, DType.FLOAT32, a), a) for a in (y, half))
    odd = binary(Op.CMPLT, fraction, of_half)
    sign = binary(Op.AND, bitcast(x, DType.INT32), where(odd, whole(-(1 << 31)), whole(0)))
    value = bitcast(binary(Op.XOR, bitcast(value, DType.INT32), sign), DType.FLOAT32)
    undefined = both(both(less(x, real(0)), less(size, real(float("inf")))), fraction)
    value = where(undefined, real(float("nan")), value)
    forever = both(equal(size, real(1)), equal(magnitude(y), real(float("inf"))))
    return where(either(either(equal(y, real(0)), equal(x, real(1))), forever), real(1), value)
