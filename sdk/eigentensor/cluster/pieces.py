"""Tensors on the wire: in pieces, put together again where they come."""

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.cluster.frames import PIECE, Parcel, Put, Value
from eigentensor.errors import BindingError, FrameRefused
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE

#: A dtype of each storage type.
_DTYPES = {storage: dtype for dtype, storage in STORAGE.items() if dtype is not DType.INDEX}


def stored(value: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """The array as it is held: contiguous, in the storage type of its dtype. Raises BindingError for another type."""
    if dtype is DType.INDEX or value.dtype != STORAGE[dtype]:
        raise BindingError(f"an array of {value.dtype} holds no {dtype.name.lower()}")
    return np.asarray(value, order="C")


def stored_as(box: NDArray[Any]) -> DType:
    """A dtype whose storage type is that of a box."""
    return _DTYPES[box.dtype]


def puts(handle: int, value: NDArray[Any], dtype: DType) -> Iterator[Put]:
    """The frames that bring a tensor. Raises BindingError if the array is not of the dtype's storage type."""
    array = stored(value, dtype)
    for offset, data in _pieces(array, dtype):
        yield Put(handle, dtype, array.shape, offset, data)


def values(asked: int, value: NDArray[Any], dtype: DType) -> Iterator[Value]:
    """The frames that answer frame `asked` with a tensor that is held."""
    for offset, data in _pieces(value, dtype):
        yield Value(asked, dtype, value.shape, offset, data)


def parcels(run: int, sender: int, receiver: int, number: int, box: NDArray[Any]) -> Iterator[Parcel]:
    """The frames that bring the elements of a box from a slot to another."""
    dtype = stored_as(box)
    for offset, data in _pieces(box, dtype):
        yield Parcel(run, sender, receiver, number, dtype, (box.size,), offset, data)


def _pieces(array: NDArray[Any], dtype: DType) -> Iterator[tuple[int, bytes]]:
    flat = np.ascontiguousarray(array.astype(STORAGE[dtype].newbyteorder("<"), copy=False)).reshape(-1)
    data = flat.view(np.uint8).data
    for offset in range(0, max(1, len(data)), PIECE):
        yield offset, bytes(data[offset : offset + PIECE])


class Gathered:
    """A tensor whose pieces come. Its memory is there from the first one on."""

    def __init__(self, first: Put | Value) -> None:
        self.number, self.dtype, self.shape = first[:3]
        self._data = np.empty(prod(self.shape) * self.dtype.size, np.uint8)
        self._at = 0

    @property
    def is_whole(self) -> bool:
        """Whether the last piece came."""
        return self._at == len(self._data)

    def add(self, sequence: int, piece: Put | Value) -> None:
        """The next piece, which frame `sequence` brought. Raises FrameRefused for one of something else."""
        if piece[:3] != (self.number, self.dtype, self.shape) or piece.offset != self._at:
            raise FrameRefused(sequence, f"the piece at {self._at:,} of tensor {self.number} should come here")
        self._data[self._at : self._at + len(piece.data)] = np.frombuffer(piece.data, np.uint8)
        self._at += len(piece.data)

    def array(self) -> NDArray[Any]:
        """The tensor when it is whole. Raises BindingError for bools that are neither 0 nor 1."""
        if self.dtype is DType.BOOL and (self._data > 1).any():
            raise BindingError(f"tensor {self.number} is of bools and holds other bytes")
        storage = STORAGE[self.dtype]
        return self._data.view(storage.newbyteorder("<")).astype(storage, copy=False).reshape(self.shape)
