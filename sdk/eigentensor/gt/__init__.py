"""GT's way of working: tensors that look computed at once, on this machine or a cluster, with the same bits everywhere.

`import eigentensor.gt as gt`, then what GT's documents say. What differs is in sdk/README.md.
"""

from typing import TYPE_CHECKING

from eigentensor.lazily import loading

if TYPE_CHECKING:
    from eigentensor.gt.connection import close, gpu_workers
    from eigentensor.gt.creation import arange, from_numpy, full, manual_seed, ones, rand, randn, tensor, zeros
    from eigentensor.gt.tensor import Tensor, cat, maximum, minimum, no_grad, stack, where

float32, float16, int32, int64 = "float32", "float16", "int32", "int64"
bool = "bool"  # noqa: A001 - GT's name

__all__ = [
    "Tensor", "arange", "cat", "close", "float16", "float32", "from_numpy", "full", "gpu_workers", "int32", "int64",
    "manual_seed", "maximum", "minimum", "no_grad", "ones", "rand", "randn", "stack", "tensor", "where", "zeros",
]  # fmt: skip

__getattr__ = loading(
    __name__,
    {
        "connection": "close gpu_workers",
        "creation": "arange from_numpy full manual_seed ones rand randn tensor zeros",
        "tensor": "Tensor cat maximum minimum no_grad stack where",
    },
)
