"""The operations of the format in UOps, each with a result for every operand, whatever a compiler makes of the rest.

A quotient by zero, a shift by the width, a cast of what does not fit: in C, in LLVM and in tinygrad these mean nothing,
so they are chosen away before they are computed.
"""

from collections.abc import Callable
from typing import Any

from tinygrad.dtype import dtypes
from tinygrad.uop.ops import Ops

from eigentensor.numerics.dtypes import DType
from eigentensor.program.ops import COMPARISONS, Op
from support.oracles.guarded import floats
from support.oracles.guarded.uops import (
    REGISTER,
    STORED,
    UNSIGNED,
    bitcast,
    both,
    cast,
    differ,
    either,
    flag,
    float32,
    integer,
    inverse,
    larger,
    less,
    like,
    same,
    smaller,
    uop,
    where,
)

PLAIN = {
    Op.ADD: Ops.ADD, Op.SUB: Ops.SUB, Op.MUL: Ops.MUL, Op.DIV: Ops.FDIV, Op.SQRT: Ops.SQRT, Op.TRUNC: Ops.TRUNC,
    Op.AND: Ops.AND, Op.OR: Ops.OR, Op.XOR: Ops.XOR, Op.MULACC: Ops.MULACC,
    Op.CMPLT: Ops.CMPLT, Op.CMPNE: Ops.CMPNE, Op.CMPEQ: Ops.CMPEQ,
}  # fmt: skip
OF_BOOLS: dict[Op, Callable[..., Any]] = {
    Op.ADD: either, Op.MUL: both, Op.MAX: either, Op.MIN: both, Op.AND: both, Op.OR: either, Op.XOR: differ,
    Op.CMPNE: differ, Op.CMPEQ: lambda a, b: inverse(differ(a, b)), Op.CMPLT: lambda a, b: both(inverse(a), b),
}  # fmt: skip
EXACT = {Op.MAX, Op.MIN, Op.TRUNC}  #: never to be rounded to a half type


def apply(op: Op, dtype: DType, source: DType, a: list[Any]) -> Any:
    """An operation on operands of the type `source` (of WHERE, the second) with a result of the type `dtype`."""
    if op is Op.WHERE:
        return where(*a)
    if op is Op.CAST:
        return _cast(source, dtype, a[0])
    if op is Op.BITCAST:
        result = value(dtype, bits(source, a[0]))
        return floats.canonical(result) if dtype.is_float else result
    if source is DType.BOOL:
        return OF_BOOLS[op](*a)
    if source is DType.INDEX:
        return _of_indices(op, a)
    if source.is_float:
        result = _of_floats(op, a)
        return result if op in COMPARISONS | EXACT else floats.rounded(dtype, result)
    return _of_integers(op, source, a)


def _of_floats(op: Op, a: list[Any]) -> Any:
    if op is Op.RECIPROCAL:
        return uop(Ops.FDIV, float32(127 << 23), a[0])
    if op in EXACT and op is not Op.TRUNC:
        return (floats.maximum if op is Op.MAX else floats.minimum)(*a)
    return uop(PLAIN[op], *a)


def _of_indices(op: Op, a: list[Any]) -> Any:
    """Mathematical integers. tinygrad has no smallest and no difference of these: they are made of others."""
    if op is Op.SUB:
        return uop(Ops.ADD, a[0], _minus(a[1]))
    if op is Op.MAX:
        return uop(Ops.MAX, *a)
    if op is Op.MIN:
        return _minus(uop(Ops.MAX, *map(_minus, a)))
    if op is Op.CMPEQ:
        return inverse(differ(*a))
    if op in (Op.CDIV, Op.CMOD, Op.FLOORDIV, Op.FLOORMOD):
        return _divided(op, *a)
    return uop(PLAIN[op], *a)


def _minus(a: Any) -> Any:
    return uop(Ops.MUL, a, like(a, -1))


def _divided(op: Op, a: Any, b: Any) -> Any:
    """Quotients and remainders of indices. Only a divisor that may be zero is chosen away."""
    none = same(b, like(b, 0)) if b.vmin <= 0 <= b.vmax else None
    divisor = b if none is None else where(none, like(b, 1), b)
    of = {Op.CDIV: Ops.CDIV, Op.CMOD: Ops.CMOD, Op.FLOORDIV: Ops.FLOORDIV, Op.FLOORMOD: Ops.FLOORMOD}[op]
    result = uop(of, a, divisor)
    if none is None:
        return result
    return where(none, like(a, 0) if op in (Op.CDIV, Op.FLOORDIV) else a, result)


def _of_integers(op: Op, dtype: DType, a: list[Any]) -> Any:
    if op in COMPARISONS:
        return uop(PLAIN[op], *a)
    if op in (Op.MAX, Op.MIN):
        return (larger if op is Op.MAX else smaller)(*a)
    if op in (Op.SHL, Op.SHR):
        return wrapped(dtype, _shifted(op, dtype, *a))
    if op in (Op.CDIV, Op.CMOD):
        return wrapped(dtype, _towards_zero(op, dtype, *a))
    if op in (Op.FLOORDIV, Op.FLOORMOD):
        return wrapped(dtype, _floored(op, dtype, *a))
    return wrapped(dtype, uop(PLAIN[op], *a))


def wrapped(dtype: DType, a: Any) -> Any:
    """A result of int32 arithmetic as the narrow integer that it stands for."""
    return cast(cast(a, STORED[dtype]), REGISTER[dtype])


def _towards_zero(op: Op, dtype: DType, a: Any, b: Any) -> Any:
    zero, one = like(a, 0), like(a, 1)
    none, minus = same(b, zero), same(b, like(b, -1)) if dtype.is_signed else flag(False)
    safe = where(either(none, minus), one, b)
    if op is Op.CDIV:
        return where(none, zero, where(minus, uop(Ops.SUB, zero, a), uop(Ops.CDIV, a, safe)))
    return where(none, a, where(minus, zero, uop(Ops.CMOD, a, safe)))


def _floored(op: Op, dtype: DType, a: Any, b: Any) -> Any:
    quotient, rest = _towards_zero(Op.CDIV, dtype, a, b), _towards_zero(Op.CMOD, dtype, a, b)
    zero = like(a, 0)
    opposite = both(differ(less(rest, zero), less(b, zero)), both(differ(rest, zero), differ(b, zero)))
    if not dtype.is_signed:
        return quotient if op is Op.FLOORDIV else rest
    if op is Op.FLOORDIV:
        return uop(Ops.SUB, quotient, where(opposite, like(a, 1), zero))
    return uop(Ops.ADD, rest, where(opposite, b, zero))


def _shifted(op: Op, dtype: DType, a: Any, b: Any) -> Any:
    zero = like(a, 0)
    near = less(b, like(b, 8 * dtype.size))
    if dtype.is_signed:
        near = both(near, inverse(less(b, zero)))
    distance = where(near, b, zero)
    if op is Op.SHR:
        far = where(less(a, zero), like(a, -1), zero) if dtype.is_signed else zero
        return where(near, uop(Ops.SHR, a, distance), far)
    unsigned = UNSIGNED[a.dtype.itemsize]
    moved = uop(Ops.SHL, cast(a, unsigned), cast(distance, unsigned))
    return where(near, cast(moved, a.dtype), zero)


def bits(dtype: DType, a: Any) -> Any:
    """The pattern of a value, as an unsigned integer of its width."""
    return floats.pattern(dtype, a) if dtype.is_float else cast(a, UNSIGNED[dtype.size])


def stored(dtype: DType, a: Any) -> Any:
    """A value as memory holds it."""
    if dtype is DType.BFLOAT16:
        return floats.pattern(dtype, a)
    return cast(floats.canonical(a) if dtype.is_float else a, STORED[dtype])


def value(dtype: DType, pattern: Any) -> Any:
    """The value whose pattern this is."""
    if dtype.is_float:
        return floats.from_pattern(dtype, pattern)
    return cast(cast(pattern, STORED[dtype]), REGISTER[dtype])


def _cast(source: DType, target: DType, a: Any) -> Any:
    if source is target:
        return a
    if target is DType.BOOL:
        return differ(a, float32(0) if source.is_float else like(a, 0))
    if source is DType.BOOL:
        if target.is_float:
            return where(a, float32(127 << 23), float32(0))
        return where(a, integer(1, REGISTER[target]), integer(0, REGISTER[target]))
    if source.is_float:
        return floats.rounded(target, a) if target.is_float else _saturated(target, a)
    if target is DType.INDEX:
        return unbounded(a)
    wide = cast(a, dtypes.int64) if source is DType.INDEX else a
    if not target.is_float:
        return wrapped(target, wide)
    if target is DType.BFLOAT16 and source.size > 2:
        return floats.rounded(target, _few_bits(source, wide))
    nearest = cast(wide, dtypes.float32)
    if target is DType.FLOAT16 and source.size > 2:
        nearest = floats.overflowed(nearest)
    return floats.rounded(target, nearest)


def unbounded(a: Any) -> Any:
    """An integer as an index of which nothing is known: tinygrad believes that arithmetic of integers never wraps."""
    return cast(bitcast(cast(a, dtypes.uint64), dtypes.int64), dtypes.weakint)


def _few_bits(source: DType, a: Any) -> Any:
    if source.is_integer and not source.is_signed:
        return floats.few_bits(cast(a, dtypes.uint64))
    wide = cast(a, dtypes.int64)
    below = less(wide, like(wide, 0))
    unsigned = cast(wide, dtypes.uint64)
    magnitude = where(below, uop(Ops.SUB, like(unsigned, 0), unsigned), unsigned)
    result = floats.few_bits(magnitude)
    return where(below, floats.negative(result), result)


def _saturated(target: DType, a: Any) -> Any:
    width = 8 * target.size - target.is_signed
    return floats.to_integer(a, -(1 << width) if target.is_signed else 0, (1 << width) - 1, REGISTER[target])
