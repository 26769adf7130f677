"""erf: an odd polynomial near zero, 1 - exp(polynomial) elsewhere."""

from eigentensor.lowering.functions.exponential import expanded
from eigentensor.lowering.functions.nodes import (
    fused,
    in_float32,
    less,
    magnitude,
    multiply,
    polynomial,
    real,
    signed,
    smaller,
    subtract,
    where,
)
from eigentensor.program.expression import Node

#: (erf(x) - x)/x as a polynomial of x², for |x| ≤ NEAR
NEAR = 0.92
ODD = (
    0.12837915122509003, -0.3761250078678131, 0.11281877011060715, -0.026768580079078674, 0.004995853174477816,
    -0.0006003795424476266,
)  # fmt: skip
#: log(1 - erf(x)) for NEAR ≤ x ≤ 4
LOG = (
    -0.000195670552784577, -1.1276756525039673, -0.6371821761131287, -0.10393170267343521, 0.022227002307772636,
    -0.0030432480853050947, 0.00019594158220570534,
)  # fmt: skip


@in_float32
def erf(x: Node) -> Node:
    """The error function. ±∞ gives ±1, -0 gives -0."""
    size = magnitude(x)
    square = multiply(size, size)
    near = fused(size, polynomial(square, *ODD), size)
    far = subtract(real(1), expanded(polynomial(smaller(size, real(4)), *LOG)))
    return signed(where(less(size, real(NEAR)), near, far), x)
