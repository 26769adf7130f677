"""NumPy in a function that is captured: how it shows, and what to write instead. Programs are made of Tensors alone."""

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from eigentensor.errors import CaptureError

INSTEAD = (
    "compute with tinygrad in the function: x.sin() for np.sin(x), x @ w for np.dot(x, w), a.where(x, 0) for "
    "np.where(a, x, 0); an array w becomes Tensor(w); return Tensors"
)


def no_tensor(what: str, value: Any, fix: str) -> CaptureError:
    """Why what a function returns is none of a program's results; `fix` is for what is no array either."""
    if not isinstance(value, np.ndarray | np.generic):
        return CaptureError(f"{what} a {type(value).__name__}, not a Tensor", fix=fix)
    if value.dtype == object:
        return CaptureError(f"{what} an array of NumPy, which took Tensors for mere objects", fix=INSTEAD)
    return CaptureError(
        f"{what} an array of NumPy, whose values do not depend on the inputs",
        fix="return Tensor(array); what depends on the inputs is computed with methods of Tensor",
    )


def uses_numpy(function: Callable[..., Any]) -> bool:
    """Whether a function refers to NumPy, or to an array, by name."""
    plain = inspect.unwrap(function)
    if not inspect.isfunction(plain):
        return False
    refers = inspect.getclosurevars(plain)
    values = (*refers.globals.values(), *refers.nonlocals.values())
    return any(value is np or isinstance(value, np.ndarray | np.ufunc) or _is_numpys(value) for value in values)


def _is_numpys(value: Any) -> bool:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return str(name).partition(".")[0] == "numpy"
