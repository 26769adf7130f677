"""sigmoid, softplus, silu, gelu: with e = exp(-|…|) ≤ 1 nothing overflows, and tails keep their relative accuracy."""

from math import pi, sqrt

import numpy as np

from eigentensor.lowering.functions.exponential import expanded, factors, scaled, split_exp
from eigentensor.lowering.functions.nodes import (
    add,
    bitcast,
    divide,
    equal,
    fused,
    in_float32,
    less,
    magnitude,
    multiply,
    negative,
    polynomial,
    real,
    reciprocal,
    smaller,
    subtract,
    where,
    whole,
)
from eigentensor.program.expression import Node, binary
from eigentensor.program.ops import DType, Op

#: (x - log(1 + x))/x² for 0 ≤ x ≤ 1
BENT = (
    0.4999993145465851, -0.3333047032356262, 0.24958156049251556, -0.19693192839622498, 0.15349097549915314,
    -0.10670012980699539, 0.05756152793765068, -0.020150333642959595, 0.003306539496406913,
)  # fmt: skip
#: exp(a²/2)·Φ(-a)·(a + MIDDLE) as a polynomial of (a - MIDDLE)/(a + MIDDLE), for 0 ≤ a ≤ 14.5
MIDDLE = 2.5
TAIL = (
    0.7066566348075867, -0.4336921274662018, 0.13198795914649963, 0.009237805381417274, -0.016393132507801056,
    -0.0016103429952636361, 0.0025404563639312983, 0.0007033023866824806, -0.000324230786645785,
    -0.00017098883108701557,
)  # fmt: skip
#: WEIGHT + SLOPE·t is, to a few percent, the relative change of that inverse's product for one of the inverse
WEIGHT, SLOPE = 1.53, -0.52
#: 2·√(2/π)·(x + 0.044715·x³) = x·(LINEAR + CUBIC·x²), each in two parts
LINEAR, CUBIC = 2 * sqrt(2 / pi), 2 * sqrt(2 / pi) * 0.044715
LINEAR_HIGH, CUBIC_HIGH = float(np.float32(LINEAR)), float(np.float32(CUBIC))


def _not_below(x: Node, low: float) -> Node:
    """x, or `low` where x is less; NaN stays."""
    return where(less(x, real(low)), real(low), x)


def _minus_magnitude(x: Node) -> Node:
    return bitcast(binary(Op.OR, bitcast(x, DType.INT32), whole(-(1 << 31))), DType.FLOAT32)


def _plus_one(u: Node) -> tuple[Node, Node]:
    """1 + u for |u| < 1, and what rounding has lost of it."""
    total = add(u, real(1))
    return total, subtract(u, subtract(total, real(1)))


def _gate(x: Node, u: Node, magic: Node, factor: Node | None = None) -> Node:
    """factor/(1 + e), or factor·e/(1 + e) where x is negative, for e = (1 + u)·2ⁿ ≤ 1, scaled last: rounded once."""
    is_negative = less(x, real(0))
    m, low = _plus_one(u)
    parts = factors(magic)
    above, lost = _plus_one(multiply(multiply(m, parts[0]), parts[1]))
    inverse = reciprocal(above)
    numerator = where(is_negative, m, real(1))
    minus = negative(multiply(numerator, inverse))
    rest = add(fused(minus, above, numerator), fused(minus, lost, where(is_negative, low, real(0))))
    value = subtract(multiply(rest, inverse), minus)
    value = value if factor is None else multiply(factor, value)
    for part in parts:
        value = multiply(value, where(is_negative, part, real(1)))
    return value


@in_float32
def sigmoid(x: Node) -> Node:
    """1/(1 + e⁻ˣ). Underflow is gradual."""
    return _gate(x, *split_exp(_not_below(_minus_magnitude(x), -104)))


@in_float32
def softplus(x: Node) -> Node:
    """log(1 + eˣ). Underflow is gradual."""
    e = expanded(_not_below(_minus_magnitude(x), -104))
    bent = multiply(e, polynomial(e, *BENT))
    return add(binary(Op.MAX, x, real(0)), fused(negative(bent), e, e))


@in_float32
def silu(x: Node) -> Node:
    """x/(1 + e⁻ˣ). -∞ gives -0, underflow is gradual."""
    x = _not_below(x, -112)
    return _gate(x, *split_exp(_not_below(_minus_magnitude(x), -112)), x)


@in_float32
def mish(x: Node) -> Node:
    """x·tanh(log(1 + eˣ)). -∞ gives -0, underflow is gradual.

    With e = exp(-|x|) it is x·(1 - 2e²/(1 + 2e + 2e²)), and x·e·(1 - (e + e²)/(2 + 2e + e²)) where x is negative.
    """
    x = _not_below(x, -112)
    is_negative = less(x, real(0))
    u, magic = split_exp(_not_below(_minus_magnitude(x), -112))
    m, low = _plus_one(u)
    parts = factors(magic)
    e = multiply(multiply(m, parts[0]), parts[1])
    above = add(e, real(1))
    part = divide(
        multiply(e, where(is_negative, above, add(e, e))),
        where(is_negative, fused(above, above, real(1)), fused(add(e, e), above, real(1))),
    )
    weight, rest = where(is_negative, m, real(1)), where(is_negative, low, real(0))
    minus = negative(part)
    gate = fused(minus, weight, weight)
    lost = fused(gate, rest, fused(minus, weight, subtract(weight, gate)))
    value = fused(x, gate, multiply(smaller(x, real(64)), lost))
    for factor in parts:
        value = multiply(value, where(is_negative, factor, real(1)))
    return where(equal(x, real(0)), x, value)


@in_float32
def gelu_tanh(x: Node) -> Node:
    """x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))/2. -∞ gives -0, underflow is gradual."""
    x = _not_below(x, -10.85)
    a = smaller(magnitude(x), real(10.85))
    square = multiply(a, a)
    lost = fused(a, a, negative(square))
    # p + d is LINEAR + CUBIC·a², and high + rest is -a times it
    p = fused(square, real(CUBIC_HIGH), real(LINEAR_HIGH))
    grown = subtract(p, real(LINEAR_HIGH))
    d = add(subtract(real(LINEAR_HIGH), subtract(p, grown)), fused(square, real(CUBIC_HIGH), negative(grown)))
    small = fused(square, real(CUBIC - CUBIC_HIGH), fused(lost, real(CUBIC_HIGH), real(LINEAR - LINEAR_HIGH)))
    minus = negative(a)
    high = multiply(minus, p)
    rest = fused(minus, add(d, small), fused(minus, p, negative(high)))
    return _gate(x, *split_exp(high, rest), x)


@in_float32
def gelu(x: Node) -> Node:
    """x·Φ(x) with the normal distribution Φ: x·(1 + erf(x/√2))/2. -∞ gives -0, underflow is gradual."""
    a = smaller(magnitude(x), real(14.5))
    half = multiply(a, real(-0.5))
    high = multiply(half, a)
    u, magic = split_exp(high, fused(half, a, negative(high)))
    m, low = _plus_one(u)
    above = add(a, real(MIDDLE))
    inverse = reciprocal(above)
    t = fused(inverse, real(-2 * MIDDLE), real(1))
    # how far the inverse is off, relatively, times what that does to the product below
    minus = negative(inverse)
    off = fused(minus, subtract(a, subtract(above, real(MIDDLE))), fused(minus, above, real(1)))
    sloped = polynomial(t, *TAIL[1:])
    w = fused(sloped, t, real(TAIL[0]))
    lost = fused(sloped, t, subtract(real(TAIL[0]), w))
    more = fused(multiply(w, off), fused(t, real(SLOPE), real(WEIGHT)), lost)
    # a·inverse·(w + more)·(m + low), rounded once at the end
    p = multiply(a, inverse)
    pw = multiply(p, w)
    rest = fused(p, more, fused(p, w, negative(pw)))
    rest = fused(fused(a, inverse, negative(p)), w, rest)
    tail = scaled(fused(pw, m, fused(rest, m, multiply(pw, low))), magic)
    return subtract(binary(Op.MAX, x, real(-0.0)), tail)
