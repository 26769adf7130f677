"""log and log2: the exponent, and a polynomial on a mantissa between √½ and √2."""

import math

import numpy as np

from eigentensor.lowering.functions.exponential import LN2_HIGH, LN2_LOW
from eigentensor.lowering.functions.nodes import (
    add,
    bitcast,
    cast,
    divide,
    equal,
    fused,
    in_float32,
    less,
    multiply,
    negative,
    polynomial,
    real,
    shift_left,
    shift_right,
    subtract,
    two_sum,
    where,
    whole,
)
from eigentensor.program.expression import Node
from eigentensor.program.ops import DType

LOG2E, LOG10E = 1 / math.log(2), 1 / math.log(10)
#: The upper 12 bits of log10(2): their product with an exponent is exact.
LOG10_2_HIGH = round(math.log10(2) * 2**13) / 2**13
LOG10_2_LOW = math.log10(2) - LOG10_2_HIGH
#: (log(1 + f) - f + f²/2)/f³ for 1 + f between √½ and √2
SERIES = (
    0.3333331346511841, -0.25000008940696716, 0.2000207155942917, -0.16667990386486053, 0.14220362901687622,
    -0.12406207621097565, 0.11883470416069031, -0.11670192331075668, 0.06749556213617325,
)  # fmt: skip


def split(x: Node) -> tuple[Node, Node]:
    """(n, f) with x = 2ⁿ·(1 + f), √½ ≤ 1 + f < √2, f exact, for positive finite x."""
    subnormal = less(x, real(2.0**-126))
    n, f = _split_normal(where(subnormal, multiply(x, real(2.0**23)), x))
    return cast(subtract(n, where(subnormal, whole(23), whole(0))), DType.FLOAT32), f


def _split_normal(x: Node) -> tuple[Node, Node]:
    """(n, f) as above, n an int32, for x ≥ 2⁻¹²⁶."""
    bits = bitcast(x, DType.INT32)
    n = shift_right(subtract(bits, whole(0x3F3504F3)), 23)
    return n, subtract(bitcast(subtract(bits, shift_left(n, 23)), DType.FLOAT32), real(1))


def bent(f: Node, more: Node) -> Node:
    """log(1 + f) - f + more, where more is small"""
    cube = multiply(multiply(f, f), f)
    return fused(multiply(f, real(-0.5)), f, fused(cube, polynomial(f, *SERIES), more))


def total(x: Node, value: Node) -> Node:
    """The logarithm for every x, given its value for positive finite x."""
    of_others = where(equal(x, real(0)), real(float("-inf")), real(float("nan")))
    return where(less(x, real(float("inf"))), where(less(real(0), x), value, of_others), x)


def of_sum(above: Node, lost: Node, doublings: Node | None = None) -> Node:
    """log((above + lost)·2^doublings) for finite above ≥ 2⁻¹²⁶ and |lost| far below it."""
    exponent, f = _split_normal(above)
    n = cast(exponent if doublings is None else add(exponent, doublings), DType.FLOAT32)
    rest = bent(f, fused(n, real(LN2_LOW), divide(lost, above)))
    return fused(n, real(LN2_HIGH), add(f, rest))


def _times(f: Node, rest: Node, factor: float) -> tuple[Node, Node]:
    """(f + rest)·factor as a product and what is to be added to it."""
    upper = float(np.float32(factor))
    high = multiply(f, real(upper))
    low = fused(f, real(factor - upper), fused(f, real(upper), negative(high)))
    return high, fused(rest, real(upper), low)


@in_float32
def log(x: Node) -> Node:
    """Natural logarithm. ±0 gives -∞, negative gives NaN."""
    n, f = split(x)
    rest = bent(f, multiply(n, real(LN2_LOW)))
    return total(x, fused(n, real(LN2_HIGH), add(f, rest)))


@in_float32
def log2(x: Node) -> Node:
    """Logarithm to the base 2, exact for powers of two. ±0 gives -∞, negative gives NaN."""
    n, f = split(x)
    high, low = _times(f, bent(f, real(0)), LOG2E)
    return total(x, add(n, add(high, low)))


@in_float32
def log10(x: Node) -> Node:
    """Logarithm to the base 10. ±0 gives -∞, negative gives NaN."""
    n, f = split(x)
    high, low = _times(f, bent(f, real(0)), LOG10E)
    return total(x, fused(n, real(LOG10_2_HIGH), add(high, fused(n, real(LOG10_2_LOW), low))))


@in_float32
def log1p(x: Node) -> Node:
    """log(1 + x). -1 gives -∞, less gives NaN, -0 gives -0."""
    above, lost = two_sum(real(1), x)
    return where(equal(x, real(0)), x, total(above, of_sum(above, lost)))
