"""Floating point of float16, bfloat16 and float32: IEEE 754, to nearest even, gradual underflow, one NaN.

Values are held as `STORAGE` says: bfloat16 is its 16-bit pattern. Each operation on a half type is done in float32 and
rounded once to the type. Results never hold a NaN but `CANONICAL_NAN`; operands may.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.numerics.dtypes import CANONICAL_NAN, INFINITY, DType
from eigentensor.numerics.storage import STORAGE

Values = NDArray[Any]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]


def deviations() -> tuple[str, ...]:
    """What this thread does otherwise than IEEE 754 does by default; a library made for speed may have set it.

    The sums: a subnormal operand, a subnormal result, a tie that goes down, a tie that goes up.
    """
    a, b, sums = np.array(
        [
            [0x00400000, 0x00C00000, 0x3F800000, 0x3F800001],
            [0x00800000, 0x80800000, 0x33800000, 0x33800000],
            [0x00C00000, 0x00400000, 0x3F800000, 0x3F800002],
        ],
        np.uint32,
    )
    operand, result, *ties = (a.view(np.float32) + b.view(np.float32)).view(np.uint32) == sums
    lacks = ("takes subnormal operands for zero", "flushes subnormal results to zero", "does not round to nearest even")
    return tuple(text for text, right in zip(lacks, (operand, result, all(ties)), strict=True) if not right)


def patterns(dtype: DType, a: Values) -> Values:
    """The unsigned integers with the bits of `a`."""
    return a.view(np.dtype(f"u{dtype.size}"))


def canonical(dtype: DType, a: Values) -> Values:
    """`a` with every NaN replaced by the one of its type; `a` itself if it is of no float type or without NaN."""
    if not dtype.is_float:
        return a
    bits = patterns(dtype, a)
    nan = (bits & bits.dtype.type((1 << 8 * dtype.size - 1) - 1)) > INFINITY[dtype]
    return np.where(nan, bits.dtype.type(CANONICAL_NAN[dtype]), bits).view(STORAGE[dtype]) if nan.any() else a


def widen(dtype: DType, a: Values) -> Float32:
    """The float32 with the same value: exact for every float type."""
    if dtype is DType.BFLOAT16:
        return (a.astype(np.uint32) << 16).view(np.float32)
    return a.astype(np.float32, copy=False)


def narrow(dtype: DType, a: Float32) -> Values:
    """float32 to a float type: one rounding, to nearest even; too large is infinite."""
    if dtype is DType.BFLOAT16:
        bits = canonical(DType.FLOAT32, a).view(np.uint32)
        # half of the last place less one, plus the bit that is kept: ties go to even, carries run into the exponent
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return canonical(dtype, a.astype(STORAGE[dtype], copy=False))


def _in_float32(function: Callable[..., Float32]) -> Callable[..., Values]:
    """An operation of float32 made one of every float type."""

    @np.errstate(all="ignore")
    def operation(dtype: DType, *operands: Values) -> Values:
        # Half types have 11 bits or less, float32 24 ≥ 2·11 + 2: rounding twice is rounding once for these operations.
        return narrow(dtype, function(*(widen(dtype, np.asarray(a)) for a in operands)))

    operation.__doc__ = function.__doc__
    return operation


def _extremum(a: Float32, b: Float32, larger: bool) -> Float32:
    first = a > b if larger else a < b
    # equal values differ in bits only as zeros: +0 is the larger, and has no bit set
    bits = (np.bitwise_and if larger else np.bitwise_or)(a.view(np.uint32), b.view(np.uint32))
    ordered = np.where(a == b, bits.view(np.float32), np.where(first, a, b))
    return np.where(np.isnan(a) | np.isnan(b), np.float32(np.nan), ordered)


@_in_float32
def add(a: Float32, b: Float32) -> Float32:
    """a + b in float32, rounded to nearest even."""
    return np.asarray(a + b)


@_in_float32
def subtract(a: Float32, b: Float32) -> Float32:
    """a − b in float32, rounded to nearest even."""
    return np.asarray(a - b)


@_in_float32
def multiply(a: Float32, b: Float32) -> Float32:
    """a · b in float32, rounded to nearest even."""
    return np.asarray(a * b)


@_in_float32
def divide(a: Float32, b: Float32) -> Float32:
    """a / b in float32, correctly rounded; x / 0 is an infinity, 0 / 0 NaN."""
    return np.asarray(a / b)


@_in_float32
def square_root(a: Float32) -> Float32:
    """√a in float32, correctly rounded; NaN below −0."""
    return np.asarray(np.sqrt(a))


@_in_float32
def reciprocal(a: Float32) -> Float32:
    """1 / a in float32, correctly rounded."""
    return np.asarray(np.float32(1) / a)


@_in_float32
def truncate(a: Float32) -> Float32:
    """Towards zero; the sign of zero stays: trunc(-0.5) is -0."""
    return np.asarray(np.trunc(a))


@_in_float32
def maximum(a: Float32, b: Float32) -> Float32:
    """IEEE 754-2019 maximum: NaN wins, -0 < +0."""
    return np.asarray(_extremum(a, b, larger=True))


@_in_float32
def minimum(a: Float32, b: Float32) -> Float32:
    """IEEE 754-2019 minimum: NaN wins, -0 < +0."""
    return np.asarray(_extremum(a, b, larger=False))


@np.errstate(all="ignore")
def fused_multiply_add(dtype: DType, a: Values, b: Values, c: Values) -> Values:
    """a·b + c with one rounding, float32 only.

    The product of two float32 is exact in float64, so the sum there is rounded once. Rounding it again to float32 does
    harm only where the sum has become a tie of float32, which ends in 28 zeros or more: there it is rounded to odd.
    """
    assert dtype is DType.FLOAT32
    product = np.asarray(a, np.float64) * np.asarray(b, np.float64)
    addend = np.asarray(c, np.float64)
    total = np.asarray(product + addend)
    ties = total.view(np.int64) & 0xFFFFFFF == 0
    if ties.any():
        total = np.where(ties, _to_odd(product, addend, total), total)
    return canonical(dtype, total.astype(np.float32))


def _to_odd(a: Float64, b: Float64, total: Float64) -> Float64:
    """a + b, given its rounded value: inexact and even moves to the neighbour on the side of the error."""
    # Knuth's two-sum: the error of a rounded sum is itself a float, and this is it
    virtual = total - a
    error = (a - (total - virtual)) + (b - virtual)
    bits = total.view(np.int64)
    away = np.where((error > 0) == (total > 0), 1, -1)
    moves = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    return np.asarray(np.where(moves, bits + away, bits)).view(np.float64)
