"""How weights are kept: elements, or blocks of small integers with scales, as they lie in a GGUF file and in a program.

A block is some hundred bytes at most; its fields are named in the order of the file. What is split here keeps every
byte, but for scales of six bits, which get eight.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eigentensor.numerics.dtypes import DType

Array = npt.NDArray[Any]
_DTYPES = {np.dtype(np.int8): DType.INT8, np.dtype(np.uint8): DType.UINT8, np.dtype(np.float16): DType.FLOAT16}


def _fields(**fields: tuple[str, int]) -> np.dtype[Any]:
    return np.dtype([(name, kind, (count,)) if count > 1 else (name, kind) for name, (kind, count) in fields.items()])


def _six_bits(blocks: dict[str, Array]) -> dict[str, Array]:
    """Twelve bytes as eight factors and eight offsets of six bits: high bits of the last four stand above others."""
    packed = blocks.pop("packed")
    first, second, third = packed[..., :4], packed[..., 4:8], packed[..., 8:]
    factors = np.concatenate([first & 63, third & 15 | first >> 6 << 4], -1)
    offsets = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], -1)
    return blocks | {"factors": factors, "offsets": offsets}


@dataclass(frozen=True, slots=True)
class Weight:
    """A tensor of a file, mapped: elements as programs store them, bfloat16 as uint16 patterns."""

    dtype: DType
    array: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the tensor."""
        return self.array.shape

    def parts(self, name: str) -> dict[str, "Weight"]:
        """The tensors of a program that it is, by their names."""
        return {name: self}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of blocks: how many elements along a row one has, and its fields in the file."""

    name: str
    elements: int
    fields: np.dtype[Any]
    unpacked: Callable[[dict[str, Array]], dict[str, Array]] = lambda blocks: blocks

    @property
    def bytes(self) -> int:
        """Of a block."""
        return self.fields.itemsize

    def split(self, data: npt.NDArray[np.uint8], shape: tuple[int, ...]) -> "Quantised":
        """The bytes of the blocks of a matrix (…, rows, columns) as tensors, (…, rows, blocks, …) each."""
        blocks = data.view(self.fields).reshape(*shape[:-1], -1)
        arrays = self.unpacked({name: np.ascontiguousarray(blocks[name]) for name in self.fields.names or ()})
        return Quantised(self.name, shape, arrays)


#: `scale` multiplies a whole block, `offset` is subtracted of it; `scales`, `factors` and `offsets` are for its parts.
KINDS = {
    kind.name: kind
    for kind in (
        Kind("Q8_0", 32, _fields(scale=("<f2", 1), values=("i1", 32))),
        Kind("Q4_0", 32, _fields(scale=("<f2", 1), values=("u1", 16))),
        Kind("Q4_K", 256, _fields(scale=("<f2", 1), offset=("<f2", 1), packed=("u1", 12),
                                  values=("u1", 128)), _six_bits),
        Kind("Q5_K", 256, _fields(scale=("<f2", 1), offset=("<f2", 1), packed=("u1", 12), high=("u1", 32),
                                  values=("u1", 128)), _six_bits),
        Kind("Q6_K", 256, _fields(values=("u1", 128), high=("u1", 64), factors=("i1", 16), scale=("<f2", 1))),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Quantised:
    """A matrix in blocks of a kind, (…, rows, columns): tensors by their names in it, (…, rows, blocks, …) each."""

    kind: str
    shape: tuple[int, ...]
    arrays: Mapping[str, Array]

    def parts(self, name: str) -> dict[str, Weight]:
        """The tensors of a program that it is, by their names."""
        return {f"{name}.{part}": Weight(_DTYPES[array.dtype], array) for part, array in self.arrays.items()}

    def of_rows(self, changed: Callable[[Array], Array]) -> "Quantised":
        """The same with its rows in the order that `changed` gives an array's first axis."""
        return Quantised(self.kind, self.shape, {name: changed(array) for name, array in self.arrays.items()})


Kept = Weight | Quantised
