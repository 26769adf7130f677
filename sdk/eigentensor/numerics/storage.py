"""How NumPy holds elements: apart from their types, since who only reads programs does not wait for NumPy."""

from typing import Any

import numpy as np

from eigentensor.numerics.dtypes import DType

#: The NumPy type that holds elements: bfloat16 travels as its 16-bit pattern, INDEX is computed in int64.
STORAGE: dict[DType, np.dtype[Any]] = {
    DType.BOOL: np.dtype(np.bool_),
    DType.INT8: np.dtype(np.int8), DType.INT16: np.dtype(np.int16),
    DType.INT32: np.dtype(np.int32), DType.INT64: np.dtype(np.int64),
    DType.UINT8: np.dtype(np.uint8), DType.UINT16: np.dtype(np.uint16),
    DType.UINT32: np.dtype(np.uint32), DType.UINT64: np.dtype(np.uint64),
    DType.FLOAT16: np.dtype(np.float16), DType.BFLOAT16: np.dtype(np.uint16), DType.FLOAT32: np.dtype(np.float32),
    DType.INDEX: np.dtype(np.int64),
}  # fmt: skip
