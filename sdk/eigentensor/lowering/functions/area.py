"""asinh, acosh, atanh: the logarithm of 1 + z, z as two parts and small where the result is small."""

from eigentensor.lowering.functions.logarithm import of_sum, total
from eigentensor.lowering.functions.nodes import (
    add,
    divide,
    equal,
    fast_two_sum,
    fused,
    in_float32,
    less,
    magnitude,
    multiply,
    real,
    root,
    signed,
    smaller,
    subtract,
    two_sum,
    where,
    whole,
)
from eigentensor.program.expression import Node, binary
from eigentensor.program.ops import Op

#: From here on √(x² ± 1) is x to less than a hundredth of a unit.
FAR = 2.0**14


def _log1p(x: Node, z: Node, rest: Node) -> Node:
    """log(1 + z + rest), or log(2x) where x > FAR."""
    far = less(real(FAR), x)
    above, lost = two_sum(real(1), z)
    value = of_sum(where(far, x, above), where(far, real(0), add(lost, rest)), where(far, whole(1), whole(0)))
    return where(equal(x, real(float("inf"))), x, value)


@in_float32
def asinh(x: Node) -> Node:
    """Inverse hyperbolic sine, log(x + √(x² + 1)). ±∞ gives ±∞, -0 gives -0."""
    size = magnitude(x)
    near = smaller(size, real(FAR))
    square = multiply(near, near)
    curved = divide(square, add(root(fused(near, near, real(1))), real(1)))
    return signed(_log1p(size, *fast_two_sum(near, curved)), x)


@in_float32
def acosh(x: Node) -> Node:
    """Inverse hyperbolic cosine, log(x + √(x² - 1)). Less than 1 gives NaN, +∞ gives +∞."""
    above_one = binary(Op.MAX, smaller(subtract(x, real(1)), real(FAR)), real(-1))
    square = fused(above_one, above_one, add(above_one, above_one))
    return _log1p(x, *fast_two_sum(root(square), above_one))


@in_float32
def atanh(x: Node) -> Node:
    """Inverse hyperbolic tangent, log((1 + x)/(1 - x))/2. ±1 gives ±∞, beyond it NaN, -0 gives -0."""
    size = smaller(magnitude(x), real(2))
    high, low = fast_two_sum(size, divide(multiply(size, size), subtract(real(1), size)))
    above, lost = two_sum(real(1), add(high, high))
    half = multiply(of_sum(above, fused(low, real(2), lost)), real(0.5))
    return signed(total(above, half), x)
