"""Elements of tensors as the format stores them, in NumPy, and back."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tinygrad import Tensor, dtypes

from eigentensor.capture import adapter
from eigentensor.capture.convert import dtype_of
from eigentensor.numerics.storage import STORAGE

Values = dict[str, NDArray[Any]]


def values_of(tensor: Tensor) -> NDArray[Any]:
    """The elements of a tensor, which is computed if it is not yet, as the format stores them."""
    storage = STORAGE[dtype_of(tensor.dtype)]
    return np.frombuffer(adapter.contents(tensor), storage).reshape(tensor.shape)


def tensor_of(values: NDArray[Any], dtype: Any, device: str | None = None, kind: Callable[[Any], Any] = Tensor) -> Any:
    """A tensor with these elements, as the format stores them; `kind` makes it of a UOp."""
    elements = np.array(values).reshape(-1)  # a copy: what comes from a file cannot be written, and tinygrad may
    tensor = Tensor(elements, device=device).reshape(values.shape).realize()
    return kind((tensor.bitcast(dtype) if dtype == dtypes.bfloat16 else tensor).uop)


def assign(tensor: Tensor, values: NDArray[Any]) -> None:
    """Gives a tensor other elements, in the same storage if it has one."""
    new = tensor_of(values, tensor.dtype, tensor.device)
    if tensor.uop.has_buffer_identity() and tensor.dtype != dtypes.bfloat16:  # which not every compiler knows
        tensor.assign(new).realize()
    else:
        tensor.replace(new)


def same_bits(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Whether two arrays of one shape and type have the same bytes."""
    return np.array_equal(a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8))
