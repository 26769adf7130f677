"""Short names for the expressions that the functions are made of."""

from collections.abc import Callable

import numpy as np

from eigentensor.program.expression import Node, binary, const, node
from eigentensor.program.ops import DType, Op

Function = Callable[..., Node]


def real(value: float) -> Node:
    """The float32 nearest to the value."""
    return const(DType.FLOAT32, int(np.float32(value).view(np.uint32)))


def whole(value: int) -> Node:
    """An int32."""
    return const(DType.INT32, value)


def add(a: Node, b: Node) -> Node:
    """a + b, rounded once."""
    return binary(Op.ADD, a, b)


def subtract(a: Node, b: Node) -> Node:
    """a − b, rounded once."""
    return binary(Op.SUB, a, b)


def multiply(a: Node, b: Node) -> Node:
    """a · b, rounded once: never one rounding with an addition."""
    return binary(Op.MUL, a, b)


def divide(a: Node, b: Node) -> Node:
    """a / b, correctly rounded."""
    return binary(Op.DIV, a, b)


def reciprocal(a: Node) -> Node:
    """1 / a, correctly rounded."""
    return node(Op.RECIPROCAL, a.dtype, a)


def root(a: Node) -> Node:
    """√a, correctly rounded."""
    return node(Op.SQRT, a.dtype, a)


def negative(a: Node) -> Node:
    """−a: the product with −1, which changes the sign of zeros, too."""
    return binary(Op.MUL, a, real(-1))


def fused(a: Node, b: Node, c: Node) -> Node:
    """a·b + c, one rounding."""
    return node(Op.MULACC, a.dtype, a, b, c)


def two_sum(a: Node, b: Node) -> tuple[Node, Node]:
    """a + b, and what rounding has lost of it (Knuth, The Art of Computer Programming, volume 2, 4.2.2)."""
    total = add(a, b)
    part = subtract(total, a)
    return total, add(subtract(a, subtract(total, part)), subtract(b, part))


def fast_two_sum(a: Node, b: Node) -> tuple[Node, Node]:
    """The same for |a| ≥ |b|, or a = 0 (Dekker, 1971)."""
    total = add(a, b)
    return total, add(subtract(a, total), b)


def smaller(a: Node, b: Node) -> Node:
    """The smaller one; NaN if one is."""
    return binary(Op.MIN, a, b)


def less(a: Node, b: Node) -> Node:
    """Whether a < b; false of NaN."""
    return binary(Op.CMPLT, a, b)


def equal(a: Node, b: Node) -> Node:
    """Whether a = b: −0 is 0, NaN is nothing."""
    return binary(Op.CMPEQ, a, b)


def both(a: Node, b: Node) -> Node:
    """Whether two bools hold; of integers the common bits."""
    return binary(Op.AND, a, b)


def either(a: Node, b: Node) -> Node:
    """Whether one of two bools holds; of integers the bits of either."""
    return binary(Op.OR, a, b)


def where(condition: Node, a: Node, b: Node) -> Node:
    """a where the condition holds, else b."""
    return node(Op.WHERE, a.dtype, condition, a, b)


def cast(a: Node, dtype: DType) -> Node:
    """a in another type: floats to integers saturate."""
    return node(Op.CAST, dtype, a)


def bitcast(a: Node, dtype: DType) -> Node:
    """The bits of a as another type of its width."""
    return node(Op.BITCAST, dtype, a)


def shift_left(a: Node, distance: int) -> Node:
    """Bits moved up by a constant number; those that leave the type are lost."""
    return binary(Op.SHL, a, const(a.dtype, distance))


def shift_right(a: Node, distance: int) -> Node:
    """Bits moved down by a constant number; a signed type repeats its sign."""
    return binary(Op.SHR, a, const(a.dtype, distance))


def polynomial(x: Node, *coefficients: float) -> Node:
    """Horner's scheme with one rounding per step; coefficients from the constant up."""
    value = real(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = fused(value, x, real(coefficient))
    return value


def magnitude(x: Node) -> Node:
    """|x| of a float32, by its bits: −0 becomes 0."""
    return bitcast(binary(Op.AND, bitcast(x, DType.INT32), whole(0x7FFFFFFF)), DType.FLOAT32)


def signed(value: Node, x: Node) -> Node:
    """The value, turned round where x has the sign bit."""
    sign = binary(Op.AND, bitcast(x, DType.INT32), whole(-(1 << 31)))
    return bitcast(binary(Op.XOR, bitcast(value, DType.INT32), sign), DType.FLOAT32)


def in_float32(function: Function) -> Function:
    """The function for every float type: half types are computed in float32 and rounded once."""

    def of_any_float(*operands: Node) -> Node:
        dtype = operands[0].dtype
        if dtype is DType.FLOAT32:
            return function(*operands)
        return cast(function(*(cast(operand, DType.FLOAT32) for operand in operands)), dtype)

    of_any_float.__doc__ = function.__doc__
    of_any_float.__name__ = function.__name__
    return of_any_float
