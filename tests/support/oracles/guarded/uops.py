"""tinygrad's UOps, built without its operators, which would already simplify; and which type holds which value."""

from typing import Any

from tinygrad.dtype import dtypes
from tinygrad.uop.ops import Ops, UOp

from eigentensor.numerics.dtypes import DType

#: The types of elements in memory: bfloat16 travels as its pattern, for few processors know it.
STORED = {
    DType.BOOL: dtypes.bool, DType.INT8: dtypes.int8, DType.INT16: dtypes.int16, DType.INT32: dtypes.int32,
    DType.INT64: dtypes.int64, DType.UINT8: dtypes.uint8, DType.UINT16: dtypes.uint16, DType.UINT32: dtypes.uint32,
    DType.UINT64: dtypes.uint64, DType.FLOAT16: dtypes.float16, DType.BFLOAT16: dtypes.uint16,
    DType.FLOAT32: dtypes.float32,
}  # fmt: skip
#: The types of values: narrow integers as int32 and both halves as float32 of the same value, since C computes so.
REGISTER = STORED | {
    DType.INT8: dtypes.int32, DType.INT16: dtypes.int32, DType.UINT8: dtypes.int32, DType.UINT16: dtypes.int32,
    DType.FLOAT16: dtypes.float32, DType.BFLOAT16: dtypes.float32, DType.INDEX: dtypes.weakint,
}  # fmt: skip
UNSIGNED = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}


def uop(op: Any, *src: Any) -> Any:
    return UOp(op, src=src)


def integer(value: int, dtype: Any) -> Any:
    return UOp.const(value, dtype)


def flag(value: bool) -> Any:
    return UOp.const(value, dtypes.bool)


def cast(a: Any, dtype: Any) -> Any:
    return a if a.dtype is dtype else UOp(Ops.CAST, src=(a,), arg=dtype)


def bitcast(a: Any, dtype: Any) -> Any:
    return UOp(Ops.BITCAST, src=(a,), arg=dtype)


def float32(pattern: int) -> Any:
    """The float32 with these bits; a number in UOps could lose them on its way through Python and decimal text."""
    return bitcast(integer(pattern, dtypes.uint32), dtypes.float32)


def where(condition: Any, a: Any, b: Any) -> Any:
    return uop(Ops.WHERE, condition, a, b)


def less(a: Any, b: Any) -> Any:
    return uop(Ops.CMPLT, a, b)


def differ(a: Any, b: Any) -> Any:
    return uop(Ops.CMPNE, a, b)


def same(a: Any, b: Any) -> Any:
    return uop(Ops.CMPEQ, a, b)


def inverse(a: Any) -> Any:
    """not a"""
    return differ(a, flag(True))


def both(a: Any, b: Any) -> Any:
    return uop(Ops.AND, a, b)


def either(a: Any, b: Any) -> Any:
    return uop(Ops.OR, a, b)


def larger(a: Any, b: Any) -> Any:
    return where(less(a, b), b, a)


def smaller(a: Any, b: Any) -> Any:
    return where(less(b, a), b, a)


def like(a: Any, value: int) -> Any:
    """An integer of the type of another."""
    return integer(value, a.dtype)
