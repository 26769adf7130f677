"""New tensors: of data, of one number, of counting, and random ones, which a seed decides on every device alike."""

import os
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.errors import CaptureError
from eigentensor.gt.connection import recorder
from eigentensor.gt.tensors import Tensor, placed, type_named, whole_numbers
from eigentensor.numerics.dtypes import DType
from eigentensor.stream.operations import encoded, user_line
from eigentensor.stream.recorder import Recorder, Value


def tensor(data: Any, dtype: Any = "float32", requires_grad: bool = False) -> Tensor:
    """Numbers, nested lists of them or an array as a tensor of this type."""
    values = data.numpy() if isinstance(data, Tensor) else data
    return _wanting(placed(values, type_named(dtype)), requires_grad)


def from_numpy(array: NDArray[Any], requires_grad: bool = False) -> Tensor:
    """A copy of an array in its own type. Raises CaptureError for float64: cast it first."""
    return _wanting(placed(array, type_named(array.dtype)), requires_grad)


def full(
    *shape: int | tuple[int, ...] | list[int], value: float, dtype: Any = "float32", requires_grad: bool = False
) -> Tensor:
    """A tensor of one number everywhere."""
    arg = (_shape(shape), type_named(dtype), encoded(value))
    return _wanting(Tensor(recorder().emit("full", arg)), requires_grad)


def zeros(*shape: int | tuple[int, ...] | list[int], dtype: Any = "float32", requires_grad: bool = False) -> Tensor:
    """A tensor of 0 everywhere."""
    return full(*shape, value=0, dtype=dtype, requires_grad=requires_grad)


def ones(*shape: int | tuple[int, ...] | list[int], dtype: Any = "float32", requires_grad: bool = False) -> Tensor:
    """A tensor of 1 everywhere."""
    return full(*shape, value=1, dtype=dtype, requires_grad=requires_grad)


def arange(start: int, stop: int | None = None, step: int = 1, dtype: Any = "int32") -> Tensor:
    """Integers from start, by default 0, up to and without stop."""
    counted = recorder().emit("arange", (start, stop, step))
    kind = type_named(dtype)
    return Tensor(counted if kind is DType.INT32 else recorder().emit("cast", kind, counted))


def randn(*shape: int | tuple[int, ...] | list[int], dtype: Any = "float32", requires_grad: bool = False) -> Tensor:
    """Random numbers of the standard normal distribution."""
    return _drawn("normal", shape, dtype, requires_grad)


def rand(*shape: int | tuple[int, ...] | list[int], dtype: Any = "float32", requires_grad: bool = False) -> Tensor:
    """Random numbers from 0 up to, and without, 1, all equally likely."""
    return _drawn("uniform", shape, dtype, requires_grad)


def manual_seed(seed: int) -> None:
    """Decides all random numbers from here on, by the low 64 bits of the seed."""
    _generator.sow(recorder(), seed)


class _Generator:
    """The seed, and how often was drawn: tensors of the session, so that a draw is an instruction like any other."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._of: Recorder | None = None
        self._seed: Value
        self._drawn: Value

    def sow(self, own: Recorder, seed: int) -> None:
        """Begins anew with a seed."""
        halves = np.array([seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF], np.uint32)
        with self._lock:
            self._of = own
            self._seed = own.put(halves, DType.UINT32)
            self._drawn = own.put(np.zeros((), np.uint32), DType.UINT32)

    def draw(self, own: Recorder, op: str, shape: tuple[int, ...]) -> Value:
        """What is drawn next; without a seed in this session, the system decides one."""
        with self._lock:
            if self._of is not own:
                self.sow(own, int.from_bytes(os.urandom(8), "little"))
            value = own.emit(op, shape, self._seed, self._drawn)
            self._drawn = own.emit("add", (1, 1), self._drawn)
        return value


_generator = _Generator()


def _drawn(op: str, shape: tuple[Any, ...], dtype: Any, requires_grad: bool) -> Tensor:
    kind = type_named(dtype)
    if not kind.is_float:
        raise CaptureError(f"random numbers of {dtype}", fix="Draw float32 and use astype.", line=user_line())
    own = recorder()
    value = _generator.draw(own, op, _shape(shape))
    return _wanting(Tensor(value if kind is DType.FLOAT32 else own.emit("cast", kind, value)), requires_grad)


def _shape(shape: tuple[Any, ...]) -> tuple[int, ...]:
    extents = whole_numbers(shape) if shape else ()
    if not all(extent >= 0 for extent in extents):
        raise CaptureError(f"{extents} is no shape", fix="Give whole numbers that are not negative.", line=user_line())
    return extents


def _wanting(made: Tensor, requires_grad: bool) -> Tensor:
    return made.requires_grad_() if requires_grad else made
