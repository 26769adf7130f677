"""log and log2: the exponent, and a polynomial on a mantissa between √½ and √2."""

import math

import numpy as np

from eigentensor.capture.functions.exponential import LN2_HIGH, LN2_LOW
from eigentensor.capture.functions.nodes import (
    add,
    bitcast,
    cast,
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
    where,
    whole,
)
from eigentensor.program.expression import Node
from eigentensor.program.ops import DType

LOG2E_HIGH = float(np.float32(1 / math.log(2)))
LOG2E_LOW = 1 / math.log(2) - LOG2E_HIGH
#: (log(1 + f) - f + f²/2)/f³ for 1 + f between √½ and √2
SERIES = (
    0.3333331346511841, -0.25000008940696716, 0.2000207155942917, -0.16667990386486053, 0.14220362901687622,
    -0.12406207621097565, 0.11883470416069031, -0.11670192331075668, 0.06749556213617325,
)  # fmt: skip


def split(x: Node) -> tuple[Node, Node]:
    """(n, f) with x = 2ⁿ·(1 + f), √½ ≤ 1 + f < √2, f exact, for positive finite x."""
    subnormal = less(x, real(2.0**-126))
    bits = bitcast(where(subnormal, multiply(x, real(2.0**23)), x), DType.INT32)
    n = shift_right(subtract(bits, whole(0x3F3504F3)), 23)
    f = subtract(bitcast(subtract(bits, shift_left(n, 23)), DType.FLOAT32), real(1))
    return cast(subtract(n, where(subnormal, whole(23), whole(0))), DType.FLOAT32), f


def bent(f: Node, more: Node) -> Node:
    """log(1 + f) - f + more, where more is small"""
    cube = multiply(multiply(f, f), f)
    return fused(multiply(f, real(-0.5)), f, fused(cube, polynomial(f, *SERIES), more))


def total(x: Node, value: Node) -> Node:
    """The logarithm for every x, given its value for positive finite x."""
    of_others = where(equal(x, real(0)), real(float("-inf")), real(float("nan")))
    return where(less(x, real(float("inf"))), where(less(real(0), x), value, of_others), x)


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
    rest = bent(f, real(0))
    high = multiply(f, real(LOG2E_HIGH))
    low = fused(f, real(LOG2E_LOW), fused(f, real(LOG2E_HIGH), negative(high)))
    return total(x, add(n, add(high, fused(rest, real(LOG2E_HIGH), low))))
