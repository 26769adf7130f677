"""Elements of tensors as JSON has them, and as people read them. Pure."""

from typing import Any

import numpy as np

from eigentensor.numerics.dtypes import DType

Values = np.ndarray[Any, Any]
#: What JSON has no numbers for, as Protocol Buffers write it.
WORDS = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}
SHOWN = 6  #: elements that people are shown, and programs that asked for no file


def as_json(array: Values) -> Any:
    """Nested lists of what the elements are, exactly; a float that is not finite is one of WORDS, bfloat16 is bits."""
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return array.tolist()
    values = array.astype(object)
    for word, number in WORDS.items():
        values[np.isnan(array) if np.isnan(number) else array == number] = word
    return values.tolist()


def first(array: Values) -> Values:
    """The first elements in row-major order."""
    return np.asarray(array).reshape(-1)[:SHOWN]


def shown(array: Values, dtype: DType) -> str:
    """How a tensor begins, for people."""
    some = first(array)
    if dtype is DType.BFLOAT16:
        some = (some.astype(np.uint32) << 16).view(np.float32)
    words = [f"{x:.6g}" if isinstance(x, float) else str(x).lower() for x in some.tolist()]
    return " ".join([*words, *(["…"] if array.size > len(words) else [])])
