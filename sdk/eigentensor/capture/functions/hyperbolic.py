"""tanh: a polynomial near zero, where 1 - 2/(e²ˣ + 1) would lose all digits."""

from eigentensor.capture.functions.exponential import exp
from eigentensor.capture.functions.nodes import (
    add,
    bitcast,
    fused,
    in_float32,
    less,
    magnitude,
    multiply,
    polynomial,
    real,
    where,
    whole,
)
from eigentensor.program.expression import Node, binary, node
from eigentensor.program.ops import DType, Op

#: (tanh(x) - x)/x³ as a polynomial of x², for |x| ≤ 0.6
TANH = (-0.33333298563957214, 0.13331934809684753, -0.05378452315926552, 0.020797841250896454, -0.0058969599194824696)


@in_float32
def tanh(x: Node) -> Node:
    """Hyperbolic tangent. ±∞ gives ±1, -0 gives -0."""
    size = magnitude(x)
    square = multiply(size, size)
    near = fused(multiply(square, size), polynomial(square, *TANH), size)
    inverse = node(Op.RECIPROCAL, DType.FLOAT32, add(exp(multiply(size, real(2))), real(1)))
    value = where(less(size, real(0.6)), near, fused(inverse, real(-2), real(1)))
    sign = binary(Op.AND, bitcast(x, DType.INT32), whole(-(1 << 31)))
    return bitcast(binary(Op.XOR, bitcast(value, DType.INT32), sign), DType.FLOAT32)
