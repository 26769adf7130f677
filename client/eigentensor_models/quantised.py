"""How weights are kept: elements, or blocks of small integers with scales, as they lie in a GGUF file and in a program.

A block is some hundred bytes at most; its fields are named in the order of the file. What is split here keeps every
byte, but for scales of six bits, which get eight.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from eigentensor.numerics.dtypes import DType

Array = npt.NDArray[Any]
BESIDE = 16  #: rows of a matrix that may lie side by side: as many as the lanes of the widest vectors
FOUR = 4  #: neighbours of a row that stay together
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
        """The matrix (…, rows, columns) whose blocks have these bytes, which are not read yet."""
        return Quantised(self.name, shape, data.view(self.fields).reshape(*shape[:-1], -1))


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


#: Fields of which each byte belongs to elements: one, or some bits to each of several.
_OF_ELEMENTS = ("values", "high")


@dataclass(frozen=True, slots=True)
class Quantised:
    """A matrix in blocks of a kind, (…, rows, columns); with `beside`, its rows lie side by side in a program."""

    kind: str
    shape: tuple[int, ...]
    blocks: Array
    beside: bool = False

    @property
    def arrays(self) -> Mapping[str, Array]:
        """The tensors of a program by their names in the matrix, made anew from the file: (…, rows, blocks, …) each.

        With `beside`, 16 rows at a time: four neighbours of each row, then those of the next, (rows / 16, blocks, …,
        16, 4), bytes that are 128 more than meant if they had a sign; of what is no element (rows / 16, blocks, …, 16).
        Rows that are missing to the last 16 are zeros.
        """
        blocks, kind = self.blocks, KINDS[self.kind]
        if self.beside and (missing := -len(blocks) % BESIDE):
            blocks = np.concatenate([blocks, np.zeros((missing, *blocks.shape[1:]), blocks.dtype)])
        arrays = kind.unpacked({name: np.ascontiguousarray(blocks[name]) for name in kind.fields.names or ()})
        return {name: _beside(name, array) for name, array in arrays.items()} if self.beside else arrays

    def parts(self, name: str) -> dict[str, Weight]:
        """The tensors of a program that it is, by their names."""
        return {f"{name}.{part}": Weight(_DTYPES[array.dtype], array) for part, array in self.arrays.items()}

    def of_rows(self, changed: Callable[[Array], Array]) -> "Quantised":
        """The same with its rows in the order that `changed` gives an array's first axis."""
        return replace(self, blocks=changed(self.blocks))


def _beside(name: str, array: Array) -> Array:
    is_whole = name in _OF_ELEMENTS
    if is_whole:
        unsigned = array.view(np.uint8) ^ np.uint8(128) if array.dtype == np.int8 else array
        array = unsigned.view(np.uint32)
    turned = np.ascontiguousarray(np.moveaxis(array.reshape(-1, BESIDE, *array.shape[1:]), 1, -1))
    return turned.view(np.uint8).reshape(*turned.shape, FOUR) if is_whole else turned


Kept = Weight | Quantised
