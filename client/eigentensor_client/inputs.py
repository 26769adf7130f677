"""What the user hands over as words and files, read strictly: without their tensors, so that NumPy is not needed."""

import re
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import TypeVar

from eigentensor.errors import BindingError, BlobNotFound
from eigentensor.program.fitting import Header, header_of
from eigentensor.store.headers import read_header

Tensor = TypeVar("Tensor")

#: Elements of a .npy file: their dtypes and bytes by how `numpy.save` writes their type.
_ELEMENTS = {
    b"|b1": ("bool", 1), b"|i1": ("int8", 1), b"<i2": ("int16", 2), b"<i4": ("int32", 4), b"<i8": ("int64", 8),
    b"|u1": ("uint8", 1), b"<u2": ("uint16", 2), b"<u4": ("uint32", 4), b"<u8": ("uint64", 8),
    b"<f2": ("float16", 2), b"<f4": ("float32", 4), b"<f8": ("float64", 8),
}  # fmt: skip
_NPY = re.compile(
    rb"\x93NUMPY\x01\0(..)"
    rb"(\{'descr': '(...)', 'fortran_order': (?:False|True), 'shape': \((\d+,|\d+(?:, \d+)+|)\), \} *\n)",
    re.DOTALL,
)
_NPY_BYTES = 1024  # that such a beginning has at most


def existing(path: Path) -> Path:
    """The path of a file that can be read. Raises BlobNotFound."""
    try:
        path.open("rb").close()
    except OSError as error:
        raise BlobNotFound(f"cannot read {path}: {error.strerror}", fix="Check the path.") from None
    return path


def read_variables(words: list[str] | None) -> dict[str, int]:
    """`name=number` as a bound variable each."""
    variables = {}
    for word in words or ():
        name, _, number = word.partition("=")
        try:
            variables[name] = int(number)
        except ValueError:
            raise BindingError(f"cannot read variable {word!r}", fix="Write name=number.") from None
    return variables


def places(words: list[str] | None) -> Iterator[tuple[str, Path]]:
    """The name and the file of each input: `name=@file`, or `@file`, whose name is empty. Raises BindingError."""
    for word in words or ():
        name, at, place = ("", "@", word[1:]) if word.startswith("@") else word.partition("=@")
        if not at or not place:
            raise BindingError(f"cannot read input {word!r}", fix="Write name=@file.npy or name=@file.safetensors.")
        if not name and place.endswith(".npy"):
            raise BindingError(f"{place} has no name of its own", fix=f"Write name=@{place}.")
        yield name, Path(place)


def picked(name: str, path: Path, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The tensor of that name in a file, or all of them where it is empty. Raises BindingError if there is none."""
    if name and name not in tensors:
        there = ", ".join(sorted(tensors)) or "nothing"
        raise BindingError(f"{path} has no tensor {name!r}: it holds {there}", fix="Name one of them.")
    return {name: tensors[name]} if name else tensors


def headers_of(inputs: list[str] | None, *files: Path | None) -> dict[str, Header] | None:
    """The headers of all tensors in inputs, as `places` reads their words, and in safetensors files; None where only
    NumPy can say what is in a file. Raises BlobNotFound, BindingError, TensorFileError."""
    headers: dict[str, Header] = {}
    for name, path in places(inputs):
        if path.suffix != ".npy":
            headers |= picked(name, path, _safetensors(path))
        elif (header := _npy(existing(path))) is not None:
            headers[name] = header
        else:
            return None
    for file in files:
        headers |= _safetensors(file) if file else {}
    return headers


def _safetensors(path: Path) -> dict[str, Header]:
    return {name: header_of(entry.dtype, entry.shape) for name, entry in read_header(existing(path)).items()}


def _npy(path: Path) -> Header | None:
    """The header of a file as `numpy.save` writes an array of numbers, all of whose elements are there."""
    with path.open("rb") as file:
        match = _NPY.match(file.read(_NPY_BYTES))
    if match is None or match[3] not in _ELEMENTS or int.from_bytes(match[1], "little") != len(match[2]):
        return None
    shape, (dtype, size) = tuple(map(int, re.findall(rb"\d+", match[4]))), _ELEMENTS[match[3]]
    elements = prod(shape) * size
    return Header(dtype, shape) if 0 < elements <= path.stat().st_size - match.end() else None
