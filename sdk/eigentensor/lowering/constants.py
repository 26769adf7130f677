"""Constants as bit patterns: rounded once, to the type in which they are used."""

from fractions import Fraction
from math import copysign, isinf, isnan

from eigentensor.numerics.dtypes import CANONICAL_NAN, DType
from eigentensor.program.expression import Node, const
from eigentensor.program.ops import Op

_LAYOUT = {DType.FLOAT16: (5, 10), DType.BFLOAT16: (8, 7), DType.FLOAT32: (8, 23)}


def float_pattern(dtype: DType, value: float | int) -> int:
    """Bit pattern of the number of this type that is nearest to `value`; ties go to the even one."""
    exponent_bits, mantissa_bits = _LAYOUT[dtype]
    bias = (1 << exponent_bits - 1) - 1
    infinity = (1 << exponent_bits) - 1 << mantissa_bits
    if isinstance(value, float) and isnan(value):
        return CANONICAL_NAN[dtype]
    sign = (copysign(1, value) < 0) << exponent_bits + mantissa_bits
    if isinstance(value, float) and isinf(value):
        return sign | infinity
    magnitude = abs(Fraction(value))
    if not magnitude:
        return sign
    exponent = max(_floor_log2(magnitude), 1 - bias)
    steps = round(magnitude / Fraction(2) ** (exponent - mantissa_bits))
    return sign | min(steps + (exponent + bias - 1 << mantissa_bits), infinity)


def _floor_log2(x: Fraction) -> int:
    guess = x.numerator.bit_length() - x.denominator.bit_length()
    return guess if Fraction(2) ** guess <= x else guess - 1


def argument(dtype: DType, value: float | int | bool) -> int:
    """`value` in the type: the pattern of a float, rounded; an integer wrapped, truncated if it comes as a float."""
    if dtype.is_float:
        return float_pattern(dtype, value)
    if dtype is DType.BOOL:
        return int(bool(value))
    whole = int(value)
    if dtype is DType.INDEX:
        return whole
    bits = 8 * dtype.size
    whole &= (1 << bits) - 1
    return whole - (1 << bits) if dtype.is_signed and whole >> bits - 1 else whole


def constant(dtype: DType, value: float | int | bool) -> Node:
    """The constant of an expression that `argument` says."""
    return const(dtype, argument(dtype, value))


def identity(op: Op, dtype: DType) -> Node:
    """What a reduction starts from."""
    if op not in (Op.REDUCE_MAX, Op.REDUCE_MIN):
        return constant(dtype, op is Op.REDUCE_MUL)
    if dtype.is_float:
        return constant(dtype, float("-inf") if op is Op.REDUCE_MAX else float("inf"))
    if dtype is DType.BOOL:
        return constant(dtype, op is Op.REDUCE_MIN)
    bits = 8 * dtype.size - dtype.is_signed
    return constant(dtype, (1 << bits) - 1 if op is Op.REDUCE_MIN else -(1 << bits) if dtype.is_signed else 0)
