"""Floating point in UOps: roundings, the one NaN, extrema by integers that are ordered as the numbers are."""

from typing import Any

from tinygrad.dtype import dtypes
from tinygrad.uop.ops import Ops

from eigentensor.numerics.dtypes import CANONICAL_NAN, INFINITY, DType
from support.oracles.guarded.uops import (
    bitcast,
    both,
    cast,
    differ,
    either,
    float32,
    integer,
    larger,
    less,
    like,
    same,
    uop,
    where,
)

F16, BF16, F32 = DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32
INT32, UINT32 = dtypes.int32, dtypes.uint32


def u32(value: int) -> Any:
    return integer(value, UINT32)


def canonical(a: Any) -> Any:
    """The one NaN for every NaN."""
    return where(differ(a, a), float32(CANONICAL_NAN[F32]), a)


def rounded(dtype: DType, a: Any) -> Any:
    """A float32 as the nearest value of a float type, still as float32."""
    if dtype is F16:
        return cast(cast(a, dtypes.float16), dtypes.float32)
    if dtype is BF16:
        bits = bitcast(canonical(a), UINT32)
        odd = uop(Ops.AND, uop(Ops.SHR, bits, u32(16)), u32(1))
        near = uop(Ops.ADD, uop(Ops.ADD, bits, u32(0x7FFF)), odd)
        return bitcast(uop(Ops.AND, near, u32(0xFFFF0000)), dtypes.float32)
    return a


def overflowed(a: Any) -> Any:
    """A float32 that was an integer, infinite where it is to a float16: LLVM drops the rounding if it has few bits."""
    infinite = where(at_least(float32(0xC77FF000), a), float32(INFINITY[F32] | 1 << 31), a)
    return where(at_least(a, float32(0x477FF000)), float32(INFINITY[F32]), infinite)


def pattern(dtype: DType, a: Any) -> Any:
    """The bits of a value of a float type, as an unsigned integer of its width."""
    if dtype is F16:
        return bitcast(cast(canonical(a), dtypes.float16), dtypes.uint16)
    bits = bitcast(canonical(a), UINT32)
    return cast(uop(Ops.SHR, bits, u32(16)), dtypes.uint16) if dtype is BF16 else bits


def from_pattern(dtype: DType, bits: Any) -> Any:
    """The float32 of the value of a float type with these bits, which are of its width."""
    if dtype is F16:
        return cast(bitcast(bits, dtypes.float16), dtypes.float32)
    return bitcast(uop(Ops.SHL, cast(bits, UINT32), u32(16)) if dtype is BF16 else bits, dtypes.float32)


def key(a: Any) -> Any:
    """An int32 that is ordered as IEEE 754-2019 maximum has it: −0 below +0, and NaN above all."""
    return _turned(bitcast(canonical(a), INT32))


def from_key(number: Any) -> Any:
    return bitcast(_turned(number), dtypes.float32)


def _turned(bits: Any) -> Any:
    """Negative numbers have their order reversed; doing so twice is doing nothing."""
    return uop(Ops.XOR, bits, uop(Ops.AND, uop(Ops.SHR, bits, like(bits, 31)), like(bits, 0x7FFFFFFF)))


LOWEST_KEY = (0x7FFFFFFF ^ (INFINITY[F32] | 1 << 31)) - (1 << 32)  #: of −∞


def negative(a: Any) -> Any:
    """−a; NaN stays the one NaN."""
    flipped = bitcast(uop(Ops.XOR, bitcast(a, UINT32), u32(1 << 31)), dtypes.float32)
    return where(differ(a, a), float32(CANONICAL_NAN[F32]), flipped)


def maximum(a: Any, b: Any) -> Any:
    return from_key(larger(key(a), key(b)))


def minimum(a: Any, b: Any) -> Any:
    return negative(maximum(negative(a), negative(b)))


def to_integer(a: Any, low: int, high: int, dtype: Any) -> Any:
    """Towards zero, saturating at low and high (a power of two less one, and 0 or minus a power of two); NaN is 0."""
    end, start = _power(high + 1), _power(low)
    inside = both(at_least(a, start), less(a, end))
    whole = cast(where(inside, a, float32(0)), dtype)
    above, below = at_least(a, end), less(a, start)
    return where(above, integer(high, dtype), where(below, integer(low, dtype), whole))


def at_least(a: Any, b: Any) -> Any:
    """a ≥ b, false if one is NaN."""
    return either(less(b, a), same(a, b))


def _power(value: int) -> Any:
    """The float32 of 0 or of plus or minus a power of two."""
    if not value:
        return float32(0)
    return float32((1 << 31 if value < 0 else 0) | (abs(value).bit_length() - 1 + 127) << 23)


def few_bits(magnitude: Any) -> Any:
    """A uint64 as float32: exact, or with at least 14 bits of which the last is set if any was lost.

    Rounding it to the 8 bits of a bfloat16 is then the only rounding.
    """
    scale = float32(127 << 23)
    for limit, drop in ((44, 30), (24, 10)):
        many = less(integer((1 << limit) - 1, dtypes.uint64), magnitude)
        lost = differ(uop(Ops.AND, magnitude, like(magnitude, (1 << drop) - 1)), like(magnitude, 0))
        kept = uop(Ops.SHR, magnitude, like(magnitude, drop))
        odd = uop(Ops.OR, kept, where(lost, like(magnitude, 1), like(magnitude, 0)))
        magnitude = where(many, odd, magnitude)
        scale = where(many, uop(Ops.MUL, scale, float32((127 + drop) << 23)), scale)
    return uop(Ops.MUL, cast(magnitude, dtypes.float32), scale)
