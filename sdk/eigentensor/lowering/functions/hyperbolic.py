"""sinh, cosh, tanh: odd polynomials near zero, where differences of exponentials would lose all digits."""

from eigentensor.lowering.functions.exponential import exp, scaled, split_exp
from eigentensor.lowering.functions.nodes import (
    add,
    fused,
    in_float32,
    less,
    magnitude,
    multiply,
    polynomial,
    real,
    reciprocal,
    signed,
    smaller,
    subtract,
    where,
)
from eigentensor.program.expression import Node

#: (tanh(x) - x)/x³ as a polynomial of x², for |x| ≤ 0.6
TANH = (-0.33333298563957214, 0.13331934809684753, -0.05378452315926552, 0.020797841250896454, -0.0058969599194824696)
#: (sinh(x) - x)/x³ as a polynomial of x², for |x| ≤ 1
SINH = (0.1666666716337204, 0.008333311416208744, 0.00019842635083477944, 2.7839255380968098e-06)


@in_float32
def tanh(x: Node) -> Node:
    """Hyperbolic tangent. ±∞ gives ±1, -0 gives -0."""
    size = magnitude(x)
    square = multiply(size, size)
    near = fused(multiply(square, size), polynomial(square, *TANH), size)
    inverse = reciprocal(add(exp(multiply(size, real(2))), real(1)))
    return signed(where(less(size, real(0.6)), near, fused(inverse, real(-2), real(1))), x)


def _halves(size: Node) -> tuple[Node, Node, Node]:
    """(u, q, magic) with (e^size ± e^-size)/2 = (1 + (u ± q))·2ⁿ for magic = MAGIC + n; infinite from 2¹²⁸ on."""
    u, magic = split_exp(smaller(size, real(90)))
    m = add(u, real(1))
    inverse = reciprocal(scaled(m, magic))
    return u, multiply(multiply(inverse, inverse), m), subtract(magic, real(1))


@in_float32
def sinh(x: Node) -> Node:
    """Hyperbolic sine. -0 gives -0; overflow is ±∞."""
    size = magnitude(x)
    square = multiply(size, size)
    near = fused(multiply(square, size), polynomial(square, *SINH), size)
    u, q, magic = _halves(size)
    far = scaled(add(subtract(u, q), real(1)), magic)
    return signed(where(less(size, real(1)), near, far), x)


@in_float32
def cosh(x: Node) -> Node:
    """Hyperbolic cosine. Overflow is +∞."""
    u, q, magic = _halves(magnitude(x))
    return scaled(add(add(u, q), real(1)), magic)
