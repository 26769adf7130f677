"""exp and exp2: an integer number of halvings or doublings, and a polynomial on what is left."""

from math import log

from eigentensor.lowering.functions.nodes import (
    add,
    bitcast,
    fused,
    in_float32,
    less,
    magnitude,
    multiply,
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

#: Added to |a| < 2²², leaves the integer nearest to a in the low bits of the pattern.
MAGIC = 1.5 * 2.0**23
MAGIC_PATTERN = 0x4B400000
#: The upper 13 bits of log 2: their product with an exponent is exact.
LN2_HIGH = 0.693115234375
LN2_LOW = log(2) - LN2_HIGH
#: (e^r - 1 - r)/r² for |r| ≤ log(2)/2, and (2^r - 1)/r for |r| ≤ ½
EXP = (0.4999999403953552, 0.1666652113199234, 0.04166826233267784, 0.008368671871721745, 0.0013821000466123223)
EXP2 = (
    0.6931471824645996, 0.24022647738456726, 0.05550359562039375,
    0.00961849931627512, 0.0013390969252213836, 0.0001532926398795098,
)  # fmt: skip


def clamped(x: Node, low: float, high: float) -> Node:
    """x kept within low…high; NaN stays."""
    x = where(less(real(high), x), real(high), x)
    return where(less(x, real(low)), real(low), x)


def factors(magic: Node) -> tuple[Node, Node]:
    """Two powers of two whose product is 2ⁿ, for magic = MAGIC + n and |n| < 252: they neither over- nor underflow."""
    n = subtract(bitcast(magic, DType.INT32), whole(MAGIC_PATTERN))
    half = shift_right(n, 1)
    first, second = (
        bitcast(add(shift_left(part, 23), whole(0x3F800000)), DType.FLOAT32) for part in (half, subtract(n, half))
    )
    return first, second


def scaled(value: Node, magic: Node) -> Node:
    """value·2ⁿ, rounded once, for magic = MAGIC + n and |n| < 252."""
    first, second = factors(magic)
    return multiply(multiply(value, first), second)


def split_exp(x: Node, rest: Node | None = None) -> tuple[Node, Node]:
    """(u, magic) with e^(x + rest) = (1 + u)·2ⁿ for magic = MAGIC + n, √½ < 1 + u < √2, and rest far below 1."""
    magic = fused(x, real(1 / log(2)), real(MAGIC))
    n = subtract(magic, real(MAGIC))
    high = fused(n, real(-LN2_HIGH), x)
    low = multiply(n, real(-LN2_LOW)) if rest is None else fused(n, real(-LN2_LOW), rest)
    r = add(high, low)
    q = polynomial(r, *EXP)
    return add(fused(multiply(r, r), q, low), high), magic


@in_float32
def exp(x: Node) -> Node:
    """eˣ. NaN gives NaN, -∞ gives +0; overflow is +∞, underflow is gradual."""
    return expanded(clamped(x, -104.0, 89.0))


def expanded(x: Node) -> Node:
    """eˣ for -112 ≤ x ≤ 89, or NaN."""
    u, magic = split_exp(x)
    return scaled(add(u, real(1)), magic)


@in_float32
def expm1(x: Node) -> Node:
    """eˣ - 1. NaN gives NaN, -0 gives -0; overflow is +∞."""
    u, magic = split_exp(clamped(x, -25.0, 89.0))
    n = subtract(bitcast(magic, DType.INT32), whole(MAGIC_PATTERN))
    half = bitcast(shift_left(add(n, whole(126)), 23), DType.FLOAT32)
    value = fused(u, half, subtract(half, real(0.5)))
    return where(less(magnitude(x), real(2.0**-25)), x, add(value, value))


@in_float32
def exp2(x: Node) -> Node:
    """2ˣ, exact for integers. NaN gives NaN, -∞ gives +0; overflow is +∞, underflow is gradual."""
    x = clamped(x, -151.0, 129.0)
    magic = add(x, real(MAGIC))
    r = subtract(x, subtract(magic, real(MAGIC)))
    q = polynomial(r, *EXP2)
    return scaled(fused(q, r, real(1)), magic)
