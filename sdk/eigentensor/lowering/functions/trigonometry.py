"""sin, cos, tan: multiples of π/2 are taken off in integers, exactly for all float32 (after Payne and Hanek, 1983)."""

from math import pi

import numpy as np

from eigentensor.lowering.functions.nodes import (
    add,
    bitcast,
    cast,
    fast_two_sum,
    fused,
    in_float32,
    less,
    magnitude,
    multiply,
    negative,
    polynomial,
    real,
    reciprocal,
    shift_left,
    shift_right,
    signed,
    subtract,
    where,
)
from eigentensor.program.expression import Node, binary, const
from eigentensor.program.ops import DType, Op

#: 198 bits of 2/π behind the point; with 26 zeros in front, seven words.
TWO_OVER_PI = 0x28BE60DB9391054A7F09D5F47D4D377036D8A5664F10E4107F
WORDS = tuple(TWO_OVER_PI >> 32 * (6 - i) & 0xFFFFFFFF for i in range(7))
UNIT = pi / 2 * 2.0**-64
UNIT_HIGH = float(np.float32(UNIT))
UNIT_LOW = UNIT - UNIT_HIGH
#: (sin(r) - r)/r³ and (cos(r) - 1 + r²/2)/r⁴ as polynomials of r², for |r| ≤ π/4
SIN = (-0.16666655242443085, 0.008332191966474056, -0.00019518790941219777)
COS = (0.04166664555668831, -0.00138873013202101, 2.443066841806285e-05)
#: (tan(r) - r)/r³, likewise
TAN = (
    0.33333349227905273, 0.13332675397396088, 0.054058898240327835, 0.021286386996507645, 0.010826707817614079,
    9.950884850695729e-05, 0.004371922463178635,
)  # fmt: skip


def _word(value: int) -> Node:
    return const(DType.UINT32, value)


def _window(start: Node) -> tuple[Node, Node]:
    """96 bits of the table, from bit `start` (0 to 128, uint32) on, as uint64: the first 64, and the other 32."""
    skipped = shift_right(start, 5)
    words = []
    for first in range(4):
        chosen = _word(WORDS[first + 4]) if first + 4 < len(WORDS) else _word(0)
        for skip in (3, 2, 1, 0):
            chosen = where(binary(Op.CMPEQ, skipped, _word(skip)), _word(WORDS[first + skip]), chosen)
        words.append(cast(chosen, DType.UINT64))
    left = cast(binary(Op.AND, start, _word(31)), DType.UINT64)
    upper, lower = (binary(Op.OR, shift_left(words[i], 32), words[i + 1]) for i in (0, 2))
    spilled = binary(Op.SHR, lower, subtract(const(DType.UINT64, 64), left))
    return binary(Op.OR, binary(Op.SHL, upper, left), spilled), shift_right(binary(Op.SHL, lower, left), 32)


def _reduced(x: Node) -> tuple[Node, Node, Node]:
    """(quadrant, r, s) with |x| = quadrant·π/2 + r + s modulo 2π, |r| ≤ π/4, s far below r; for finite x.

    |x| = m·2^(e-150). The product of m and the bits of 2/π that matter, modulo 2^64, is |x|·2/π modulo 4, in 2^-62.
    """
    bits = bitcast(magnitude(x), DType.UINT32)
    exponent = shift_right(bits, 23)
    m = cast(binary(Op.OR, binary(Op.AND, bits, _word(0x7FFFFF)), _word(0x800000)), DType.UINT64)
    upper, lower = _window(subtract(exponent, _word(126)))
    product = add(multiply(m, upper), shift_right(multiply(m, lower), 32))
    quadrant = shift_right(add(cast(shift_right(product, 32), DType.UINT32), _word(1 << 29)), 30)
    turn = bitcast(shift_left(product, 2), DType.INT64)
    high = cast(turn, DType.FLOAT32)
    low = cast(subtract(turn, cast(high, DType.INT64)), DType.FLOAT32)
    r = multiply(high, real(UNIT_HIGH))
    error = fused(high, real(UNIT_HIGH), multiply(r, real(-1)))
    s = fused(low, real(UNIT_HIGH), fused(high, real(UNIT_LOW), error))
    small = less(magnitude(x), real(pi / 4))
    return where(small, _word(0), quadrant), where(small, magnitude(x), r), where(small, real(0), s)


def _wave(x: Node, ahead: int, sign: Node) -> Node:
    """±sin(|x| + ahead·π/2), NaN for infinities and NaN; `sign` is the bit that turns it round."""
    quadrant, r, s = _reduced(x)
    quadrant = add(quadrant, _word(ahead)) if ahead else quadrant
    square = multiply(r, r)
    fall = multiply(square, real(-0.5))
    near = add(real(1), fall)
    cubic = polynomial(square, *SIN)
    sine = add(r, fused(multiply(r, square), cubic, multiply(s, near)))
    quartic = polynomial(square, *COS)
    lost = fused(multiply(r, s), real(-1), add(subtract(real(1), near), fall))
    cosine = add(near, fused(multiply(square, square), quartic, lost))
    odd = binary(Op.CMPNE, binary(Op.AND, quadrant, _word(1)), _word(0))
    flips = binary(Op.XOR, shift_left(binary(Op.AND, quadrant, _word(2)), 30), sign)
    value = binary(Op.XOR, bitcast(where(odd, cosine, sine), DType.UINT32), flips)
    return where(less(magnitude(x), real(float("inf"))), bitcast(value, DType.FLOAT32), real(float("nan")))


@in_float32
def sin(x: Node) -> Node:
    """Sine of x in radians, of any size. Infinities give NaN, -0 gives -0."""
    return _wave(x, 0, binary(Op.AND, bitcast(x, DType.UINT32), _word(1 << 31)))


@in_float32
def cos(x: Node) -> Node:
    """Cosine of x in radians, of any size. Infinities give NaN."""
    return _wave(x, 1, _word(0))


@in_float32
def tan(x: Node) -> Node:
    """Tangent of x in radians, of any size. Infinities give NaN, -0 gives -0."""
    quadrant, r, s = _reduced(x)
    square = multiply(r, r)
    cubic = multiply(multiply(r, square), polynomial(square, *TAN))
    rough = add(r, cubic)
    even, low = fast_two_sum(r, fused(s, fused(rough, rough, real(1)), cubic))
    minus = negative(reciprocal(even))
    # how far `minus` is from -1/(even + low), relatively
    off = fused(minus, low, fused(minus, even, real(1)))
    odd = binary(Op.CMPNE, binary(Op.AND, quadrant, _word(1)), _word(0))
    value = signed(where(odd, fused(minus, off, minus), even), x)
    return where(less(magnitude(x), real(float("inf"))), value, real(float("nan")))
