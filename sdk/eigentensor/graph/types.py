"""Which types meet in which, what a literal is as a tensor, and where the user wrote what is refused."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.errors import CaptureError
from eigentensor.graph.node import Node, constant, data
from eigentensor.lowering.constants import float_pattern
from eigentensor.lowering.graph_program import CONSTANT_BYTES
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE

_HERE = str(Path(__file__).parent)
_OF_NUMPY = {dtype: name for name, dtype in STORAGE.items() if name not in (DType.BFLOAT16, DType.INDEX)}
#: Integer types that hold all values of an unsigned and a signed one, by the width of the wider.
_WIDER = {1: DType.INT16, 2: DType.INT32, 4: DType.INT64}


def refused(reason: str, fix: str) -> CaptureError:
    """The error for a mistake of whoever calls this package, with the line."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return CaptureError(reason, fix=fix, line=f"{frame.f_code.co_filename}:{frame.f_lineno}")


def dtype_of(kind: Any) -> DType:
    """The type by its name ("float32"), NumPy's type, or itself."""
    if isinstance(kind, DType) and kind is not DType.INDEX:
        return kind
    if isinstance(kind, str) and kind.upper() in DType.__members__ and kind.lower() != "index":
        return DType[kind.upper()]
    try:
        return _OF_NUMPY[np.dtype(kind)]
    except (TypeError, KeyError):
        raise refused(f"{kind!r} is no type that a program has", "Use one of sdk/README.md, float32 say.") from None


def promoted(a: DType, b: DType) -> DType:
    """The type in which two tensors meet: bool, then integers, then floats; the wider of a kind."""
    low, high = sorted((a, b), key=lambda dtype: (dtype.is_float, dtype is not DType.BOOL, dtype.size))
    if a is b or low is DType.BOOL or (high.is_float and not low.is_float):
        return high
    if high.is_float:
        return DType.FLOAT32 if low.size == high.size else high
    if low.is_signed == high.is_signed or (high.is_signed and low.size < high.size):
        return high
    if high.size not in _WIDER:
        raise refused(f"no type holds all of {name(a)} and {name(b)}", "Cast one of them with astype.")
    return _WIDER[high.size]


def name(dtype: DType) -> str:
    """The type's name as users write it, float32 say."""
    return dtype.name.lower()


def scalar_type(value: float, beside: DType) -> DType:
    """The type of a Python number beside a tensor: the tensor's, unless it is of a lesser kind."""
    if isinstance(value, bool) or beside.is_float:
        return beside
    if isinstance(value, int):
        return DType.INT32 if beside is DType.BOOL else beside
    return DType.FLOAT32


def number(value: float, dtype: DType, shape: tuple[int, ...] = ()) -> Node:
    """A tensor of one number everywhere, rounded to the type if it is a float."""
    if dtype.is_float:
        return constant(dtype, float_pattern(dtype, value), shape)
    limits = (0, 1) if dtype is DType.BOOL else (np.iinfo(STORAGE[dtype]).min, np.iinfo(STORAGE[dtype]).max)
    if not limits[0] <= value <= limits[1] or value != int(value):
        raise refused(f"{value} is no {name(dtype)}", "Cast the tensor with astype first.")
    return constant(dtype, int(value), shape)


def literal(value: Any) -> Node:
    """An array, or nested lists of numbers, that stands in the program itself; lists hold float32 or int32."""
    array = np.asarray(value)
    if not isinstance(value, np.ndarray) and array.dtype in (np.float64, np.int64):
        array = array.astype(np.float32 if array.dtype == np.float64 else np.int32)
    if not array.shape:
        return number(array.item(), dtype_of(array.dtype))
    if array.nbytes > CONSTANT_BYTES:
        raise refused(f"an array of {array.nbytes} bytes has no name", "Name it: GraphBuilder.weight(name, array).")
    return data(dtype_of(array.dtype), array.shape, stored(array).tobytes())


def stored(array: NDArray[Any]) -> NDArray[Any]:
    """The array as the format holds it: contiguous and little-endian."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)
