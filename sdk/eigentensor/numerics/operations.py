"""The table of operations: names as in sdk/README.md, functions of (dtype of the operands, operands).

CAST and BITCAST have two types and stand apart in `conversion`; WHERE takes the dtype of its second and third operand.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.numerics import floats, integers
from eigentensor.numerics.conversion import cast
from eigentensor.numerics.dtypes import INFINITY, DType
from eigentensor.numerics.storage import STORAGE

Values = NDArray[Any]
Operation = Callable[..., Values]


def _either(of_floats: Operation, of_integers: Operation, of_bools: Operation | None = None) -> Operation:
    """One operation of three kinds of types; without `of_bools` there is none for BOOL."""

    def operation(dtype: DType, *operands: Values) -> Values:
        if dtype is DType.BOOL and of_bools is not None:
            return np.asarray(of_bools(*operands))
        return (of_floats if dtype.is_float else of_integers)(dtype, *operands)

    return operation


def _plain(function: Operation) -> Operation:
    """A NumPy function that needs no type."""
    return lambda dtype, *operands: np.asarray(function(*operands))


def _compare(function: Operation) -> Operation:
    def operation(dtype: DType, a: Values, b: Values) -> Values:
        if dtype.is_float:
            a, b = floats.widen(dtype, np.asarray(a)), floats.widen(dtype, np.asarray(b))
        return np.asarray(function(a, b))

    return operation


def _choose(dtype: DType, condition: Values, b: Values, c: Values) -> Values:
    return np.where(condition, b, c)


OPERATIONS: dict[str, Operation] = {
    "ADD": _either(floats.add, integers.add, np.logical_or),
    "SUB": _either(floats.subtract, integers.subtract),
    "MUL": _either(floats.multiply, integers.multiply, np.logical_and),
    "DIV": floats.divide,
    "MULACC": floats.fused_multiply_add,
    "MAX": _either(floats.maximum, _plain(np.maximum), np.logical_or),
    "MIN": _either(floats.minimum, _plain(np.minimum), np.logical_and),
    "SQRT": floats.square_root,
    "RECIPROCAL": floats.reciprocal,
    "TRUNC": floats.truncate,
    "CDIV": integers.divide,
    "CMOD": integers.modulo,
    "FLOORDIV": integers.floor_divide,
    "FLOORMOD": integers.floor_modulo,
    "AND": _plain(np.bitwise_and),
    "OR": _plain(np.bitwise_or),
    "XOR": _plain(np.bitwise_xor),
    "SHL": integers.shift_left,
    "SHR": integers.shift_right,
    "CMPLT": _compare(np.less),
    "CMPNE": _compare(np.not_equal),
    "CMPEQ": _compare(np.equal),
    "WHERE": _choose,
}


def from_pattern(dtype: DType, pattern: int) -> Values:
    """The value, without dimensions, whose bits are the low ones of `pattern`; BOOL is 0 or 1."""
    if dtype is DType.BOOL:
        return np.asarray(bool(pattern & 1))
    return np.asarray(pattern & (1 << 8 * dtype.size) - 1, f"u{dtype.size}").view(STORAGE[dtype])


def identity(name: str, dtype: DType) -> Values:
    """Where a reduction by ADD, MUL, MAX, MIN or MULACC starts."""
    if dtype is DType.BOOL:
        return np.asarray(name in ("MUL", "MIN"))
    if name in ("ADD", "MULACC"):
        return from_pattern(dtype, 0)
    if name == "MUL":
        return cast(DType.INT8, dtype, np.asarray(1, np.int8))
    if dtype.is_float:
        sign = 1 << 8 * dtype.size - 1
        return from_pattern(dtype, INFINITY[dtype] | (sign if name == "MAX" else 0))
    limits = np.iinfo(STORAGE[dtype])
    return np.asarray(limits.min if name == "MAX" else limits.max, STORAGE[dtype])
