"""GGUF files: metadata and where tensors lie, read as data from strangers. Version 2 and 3, little-endian."""

import mmap
import struct
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eigentensor.errors import TensorFileError
from eigentensor_models.quantised import KINDS as BLOCKS
from eigentensor_models.quantised import Kind

MAGIC, VERSIONS = b"GGUF", (2, 3)
HEAD = 256 << 20  #: bytes before the tensors, at most
COUNT = 1 << 20  #: tensors and members of metadata, at most
ITEMS = 1 << 24  #: elements of all lists of metadata together, at most
_NAME, _AXES = 1024, 4
_FIX = "Fetch the file again."
_FIXED = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 10: "Q", 11: "q", 12: "d"}
_BOOL, _STRING, _LIST = 7, 8, 9


#: How tensors' elements are kept, by the numbers of the format.
KINDS = {
    0: Kind("F32", 1, np.dtype("<f4")), 1: Kind("F16", 1, np.dtype("<f2")), 30: Kind("BF16", 1, np.dtype("<u2")),
    2: BLOCKS["Q4_0"], 8: BLOCKS["Q8_0"], 12: BLOCKS["Q4_K"], 13: BLOCKS["Q5_K"], 14: BLOCKS["Q6_K"],
}  # fmt: skip
#: Kinds that there are, and that are not known here, by their names.
OTHERS = {
    3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 15: "Q8_K",
    16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS",
    24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a file: its shape, outermost axis first, and its bytes, mapped."""

    kind: Kind
    shape: tuple[int, ...]
    data: npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class File:
    """What is in a file."""

    metadata: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)


def read(path: Path) -> File:
    """Raises TensorFileError for a file that is cut off, lies about what it has, or has a quantisation that is not
    known here. Takes time and memory as long as its head is, which has at most 256 MiB."""
    try:
        with path.open("rb") as file:
            if not (size := path.stat().st_size):
                raise TensorFileError(f"{path.name} is empty", fix=_FIX)
            content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise TensorFileError(f"cannot read {path}: {error.strerror}", fix="Check the path.") from None
    return _Reader(path.name, content[: min(size, HEAD)], content).file()


class _Reader:
    """Reads the head from its beginning on."""

    def __init__(self, what: str, head: memoryview, content: memoryview) -> None:
        self._what, self._head, self._content = what, head, content
        self._place = self._items = 0

    def file(self) -> File:
        """All of it."""
        if bytes(self._take(4)) != MAGIC:
            raise self._wrong("it does not begin as a GGUF file does")
        if (version := self._number("I")) not in VERSIONS:
            raise self._wrong(f"its version {version} is not known: 2 and 3 are")
        tensors, members = self._count("tensors"), self._count("members")
        metadata: dict[str, Any] = {}
        for _ in range(members):
            name = self._text(_NAME)
            if name in metadata:
                raise self._wrong(f"{name[:80]!r} is said twice")
            metadata[name] = self._value(self._number("I"))
        alignment = metadata.get("general.alignment", 32)
        if type(alignment) is not int or not 8 <= alignment <= 1 << 20 or alignment & (alignment - 1):
            raise self._wrong(f"its alignment is {alignment!r}")
        described = [self._described() for _ in range(tensors)]
        begin = -(-self._place // alignment) * alignment
        return File(metadata, self._tensors(described, begin, alignment))

    def _tensors(
        self, described: list[tuple[str, Kind, tuple[int, ...], int]], begin: int, alignment: int
    ) -> dict[str, Tensor]:
        named: dict[str, Tensor] = {}
        end = 0
        for name, kind, shape, offset in sorted(described, key=lambda one: one[3]):
            length = prod(shape[:-1]) * (shape[-1] // kind.elements) * kind.bytes
            if name in named or offset % alignment or offset < end or begin + offset + length > len(self._content):
                raise self._wrong(f"the tensor {name[:80]!r} has no place in the file, or that of another one")
            end = offset + length
            data = np.frombuffer(self._content[begin + offset : begin + end], np.uint8)
            named[name] = Tensor(kind, shape, data)
        return named

    def _described(self) -> tuple[str, Kind, tuple[int, ...], int]:
        name, axes = self._text(_NAME), self._number("I")
        if not 1 <= axes <= _AXES:
            raise self._wrong(f"the tensor {name[:80]!r} has {axes} axes")
        shape = tuple(reversed([self._number("Q") for _ in range(axes)]))
        number, offset = self._number("I"), self._number("Q")
        if number not in KINDS:
            kind = OTHERS.get(number, f"number {number}")
            raise TensorFileError(
                f"{self._what}: the tensor {name[:80]!r} is quantised as {kind}, which is not known here",
                fix=f"Take the model as one of {', '.join(kind.name for kind in KINDS.values())}.",
            )
        kind_ = KINDS[number]
        if any(not 0 < extent < 1 << 40 for extent in shape) or shape[-1] % kind_.elements:
            raise self._wrong(f"the tensor {name[:80]!r} cannot have the shape {shape}")
        return name, kind_, shape, offset

    def _value(self, kind: int) -> Any:
        if kind in _FIXED:
            return self._number(_FIXED[kind])
        if kind == _BOOL:
            return bool(self._number("B"))
        if kind == _STRING:
            return self._text(HEAD)
        if kind != _LIST:
            raise self._wrong(f"a member of its metadata is of the kind {kind}")
        inner, count = self._number("I"), self._number("Q")
        self._items += count
        if self._items > ITEMS or inner == _LIST:
            raise self._wrong("a list of its metadata is too long, or one of lists")
        if inner in _FIXED:
            size = struct.calcsize(f"<{_FIXED[inner]}")
            return np.frombuffer(self._take(count * size), f"<{_FIXED[inner]}").tolist()
        return [self._value(inner) for _ in range(count)]

    def _count(self, of: str) -> int:
        count: int = self._number("Q")
        if count > COUNT:
            raise self._wrong(f"it says that it has {count} {of}")
        return count

    def _number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self._take(struct.calcsize(f"<{form}")))[0]

    def _text(self, most: int) -> str:
        length = self._number("Q")
        if length > most:
            raise self._wrong(f"a text in it has {length} bytes")
        try:
            return str(self._take(length), "utf-8")
        except UnicodeDecodeError:
            raise self._wrong("a text in it is not UTF-8") from None

    def _take(self, length: int) -> memoryview:
        part = self._head[self._place : self._place + length]
        if len(part) < length:
            raise self._wrong("it is cut off, or says that it is longer than it is")
        self._place += length
        return part

    def _wrong(self, why: str) -> TensorFileError:
        return TensorFileError(f"{self._what} cannot be read: {why}", fix=_FIX)
