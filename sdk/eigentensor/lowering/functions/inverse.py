"""asin, acos, atan: polynomials near zero, else asin(x) = π/2 - 2·asin(√((1 - x)/2)) and atan(x) = π/2 - atan(1/x)."""

from math import pi

import numpy as np

from eigentensor.lowering.functions.nodes import (
    add,
    fast_two_sum,
    fused,
    in_float32,
    less,
    magnitude,
    multiply,
    polynomial,
    real,
    reciprocal,
    root,
    signed,
    subtract,
    where,
)
from eigentensor.program.expression import Node

HALF_PI_HIGH = float(np.float32(pi / 2))
HALF_PI_LOW = pi / 2 - HALF_PI_HIGH
#: (asin(x) - x)/x³ as a polynomial of x², for |x| ≤ ½
ASIN = (0.16666753590106964, 0.07495252043008804, 0.0454760417342186, 0.02415209263563156, 0.04221179708838463)
#: (atan(x) - x)/x³ as a polynomial of x², for |x| ≤ 1
ATAN = (
    -0.33333298563957214, 0.1999853104352951, -0.14264051616191864, 0.10951174795627594, -0.08400475233793259,
    0.05790654569864273, -0.031127002090215683, 0.010887361131608486, -0.0017875476041808724,
)  # fmt: skip


def _asin_parts(size: Node) -> tuple[Node, Node, Node]:
    """(near, r, c) with asin(size) = r + c where it is near zero, and π/2 - 2·(r + c) elsewhere."""
    near = less(size, real(0.5))
    square = where(near, multiply(size, size), fused(size, real(-0.5), real(0.5)))
    r = where(near, size, root(square))
    return near, r, multiply(multiply(r, square), polynomial(square, *ASIN))


@in_float32
def asin(x: Node) -> Node:
    """Inverse sine. Beyond ±1 it is NaN, -0 gives -0."""
    near, r, c = _asin_parts(magnitude(x))
    high, lost = fast_two_sum(real(HALF_PI_HIGH), multiply(r, real(-2)))
    far = add(high, add(lost, fused(c, real(-2), real(HALF_PI_LOW))))
    return signed(where(near, add(r, c), far), x)


@in_float32
def acos(x: Node) -> Node:
    """Inverse cosine. Beyond ±1 it is NaN."""
    near, r, c = _asin_parts(magnitude(x))
    angle = add(r, c)
    turned = subtract(where(near, signed(angle, x), angle), real(HALF_PI_LOW))
    beside = subtract(real(HALF_PI_HIGH), turned)
    return where(near, beside, multiply(where(less(x, real(0)), beside, angle), real(2)))


@in_float32
def atan(x: Node) -> Node:
    """Inverse tangent. ±∞ gives ±π/2, -0 gives -0."""
    size = magnitude(x)
    steep = less(real(1), size)
    r = where(steep, reciprocal(size), size)
    square = multiply(r, r)
    c = multiply(multiply(r, square), polynomial(square, *ATAN))
    low = where(steep, subtract(c, real(HALF_PI_LOW)), c)
    angle = add(r, low)
    return signed(where(steep, subtract(real(HALF_PI_HIGH), angle), angle), x)
