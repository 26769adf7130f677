"""safetensors files in and out, bit for bit. bfloat16 is carried as np.uint16 patterns under the tag BF16."""

import json
import math
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize, safe_open

from eigentensor import merkle
from eigentensor.errors import TensorFileError
from eigentensor.numerics.dtypes import STORAGE, DType

TAGS = {
    "BOOL": DType.BOOL,
    "I8": DType.INT8, "I16": DType.INT16, "I32": DType.INT32, "I64": DType.INT64,
    "U8": DType.UINT8, "U16": DType.UINT16, "U32": DType.UINT32, "U64": DType.UINT64,
    "F16": DType.FLOAT16, "BF16": DType.BFLOAT16, "F32": DType.FLOAT32,
}  # fmt: skip
_TAG_OF = {dtype: tag for tag, dtype in TAGS.items()}
_DTYPES = {storage: dtype for dtype, storage in STORAGE.items() if dtype not in (DType.BFLOAT16, DType.INDEX)}
_HEADER_LIMIT = 16 << 20
_NAME_BYTES = 255  # that a name has in a bindings root
_KNOWN_BYTES = 4096  # of a header that is remembered


@dataclass(frozen=True, slots=True)
class Entry:
    """Where one tensor lies in a file: bytes start…stop from the beginning of the file."""

    dtype: DType
    shape: tuple[int, ...]
    start: int
    stop: int


def read_header(path: Path) -> dict[str, Entry]:
    """The tensors of a file by name, in the order of their bytes.

    Raises TensorFileError unless the header is well-formed, the tensors fill the file without gap or overlap, and every
    dtype is one that programs have.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(_HEADER_LIMIT, size - 8):
            raise TensorFileError(f"{path.name} is not a safetensors file")
        text = file.read(length)
    try:
        # The library's parser bounds how deep a header nests; Python's only as far as the recursion limit does.
        with safe_open(path, framework="np"):
            pass
    except SafetensorError as error:
        raise TensorFileError(f"{path.name} is not a safetensors file: {error}") from None
    return _entries(path.name, text, size)


def _entries(what: str, text: bytes, size: int) -> dict[str, Entry]:
    """The tensors that a header, which the library takes, names in `size` bytes."""
    try:
        header = json.loads(text, object_pairs_hook=_unique)
        if not isinstance(header, dict):
            raise ValueError("its header is not an object")
        header.pop("__metadata__", None)
        entries = {name: _entry(name, fields, 8 + len(text)) for name, fields in header.items()}
    except ValueError as error:
        raise TensorFileError(f"{what} is not a safetensors file: {error}") from None
    end = 8 + len(text)
    ordered = sorted(entries.items(), key=lambda item: (item[1].start, item[1].stop))
    for name, entry in ordered:
        if entry.start != end or entry.stop - entry.start != math.prod(entry.shape) * entry.dtype.size:
            raise TensorFileError(f"{what}: tensor {name!r} does not fit its place in the file")
        end = entry.stop
    if end != size:
        raise TensorFileError(f"{what}: {size - end:+} bytes that belong to no tensor")
    return dict(ordered)


def load_safetensors(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The tensors of a file by name, shaped, read-only, mapped into memory instead of read where alignment allows."""
    entries, content = read_header(path), _map(path)
    return {name: _flat(entry, content).reshape(entry.shape) for name, entry in entries.items()}


def load_flat(path: Path) -> dict[str, tuple[DType, np.ndarray[Any, Any]]]:
    """The dtypes and the elements of a file's tensors by name, as `load_safetensors` gives them, without shapes."""
    entries, content = read_header(path), _map(path)
    return {name: (entry.dtype, _flat(entry, content)) for name, entry in entries.items()}


def parse_flat(data: bytes, what: str = "the body") -> dict[str, tuple[DType, np.ndarray[Any, Any]]]:
    """As `load_flat`, of a file's bytes, which are called `what`. Raises TensorFileError as `read_header` does."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(_HEADER_LIMIT, len(data) - 8):
        raise TensorFileError(f"{what} is not a safetensors file")
    text, content = data[8 : 8 + length], memoryview(data)
    if length <= _KNOWN_BYTES:
        entries = _known(what, text, len(data))
    else:
        entries = _taken(what, data, text)
    return {name: (entry.dtype, _flat(entry, content)) for name, entry in entries.items()}


@lru_cache(256)
def _known(what: str, text: bytes, size: int) -> Mapping[str, Entry]:
    """As `_taken`: only header and size decide, and whoever calls a program again sends the same ones."""
    return _taken(what, len(text).to_bytes(8, "little") + text.ljust(size - 8, b"\0"), text)


def _taken(what: str, data: bytes, text: bytes) -> Mapping[str, Entry]:
    """The tensors in a file's bytes, whose header is `text`."""
    try:
        deserialize(data)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise TensorFileError(f"{what} is not a safetensors file: {error}") from None
    return _entries(what, text, len(data))


def save_safetensors(
    path: Path, tensors: Mapping[str, np.ndarray[Any, Any]], dtypes: Mapping[str, DType] | None = None
) -> None:
    """Writes a file. `dtypes` names what the arrays cannot tell: bfloat16 carried as uint16.

    The same tensors make the same bytes. Not atomic: write to a temporary name what others may see.
    """
    parts = _parts(tensors, dtypes or {})
    header = next(parts)  # which what does not fit has none of
    with path.open("wb") as file:
        file.write(header)
        for part in parts:
            file.write(part)


def dump_safetensors(tensors: Mapping[str, np.ndarray[Any, Any]], dtypes: Mapping[str, DType] | None = None) -> bytes:
    """The bytes of the file that `save_safetensors` writes."""
    return b"".join(_parts(tensors, dtypes or {}))


def _parts(tensors: Mapping[str, np.ndarray[Any, Any]], dtypes: Mapping[str, DType]) -> Iterator[bytes | memoryview]:
    """A file's bytes: its header, then tensor by tensor."""
    chosen = {name: dtypes.get(name) or _DTYPES.get(np.asarray(array).dtype) for name, array in tensors.items()}
    header: dict[str, Any] = {}
    offset = 0
    # Wide elements come first: then every tensor is aligned to its elements.
    names = sorted(tensors, key=lambda name: (-np.asarray(tensors[name]).itemsize, name))
    for name in names:
        array, dtype = np.asarray(tensors[name]), chosen[name]
        if dtype is None or STORAGE[dtype] != array.dtype:
            raise TensorFileError(
                f"tensor {name!r} has dtype {array.dtype}, which programs do not have",
                fix="Convert it; bfloat16 is given as uint16 patterns and named in `dtypes`.",
            )
        place = [offset, offset + array.nbytes]
        header[name] = {"dtype": _TAG_OF[dtype], "shape": list(array.shape), "data_offsets": place}
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in names:
        yield np.ascontiguousarray(tensors[name]).reshape(-1).view(np.uint8).data


def bindings_root(path: Path) -> bytes:
    """The root over names and tensors of a file, as orders name inputs, weights, states and outputs."""
    entries, content = read_header(path), _map(path)
    return merkle.bindings_root(
        {name: merkle.tensor_root(e.dtype, content[e.start : e.stop]) for name, e in entries.items()}
    )


def _map(path: Path) -> memoryview:
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _flat(entry: Entry, content: memoryview) -> np.ndarray[Any, Any]:
    storage = STORAGE[entry.dtype]
    if entry.start % storage.itemsize:
        array = np.frombuffer(bytearray(content[entry.start : entry.stop]), storage)
        array.flags.writeable = False
    else:
        array = np.frombuffer(content[entry.start : entry.stop], storage)
    return array


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a name occurs twice")
    return values


def _entry(name: str, fields: Any, offset: int) -> Entry:
    if len(name.encode()) > _NAME_BYTES:
        raise ValueError(f"a name has more than {_NAME_BYTES} bytes")
    if not isinstance(fields, dict) or set(fields) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"tensor {name!r} is not described by dtype, shape and data_offsets")
    if not isinstance(fields["dtype"], str) or fields["dtype"] not in TAGS:
        raise TensorFileError(f"tensor {name!r} has dtype {fields['dtype']}, which programs do not have")
    shape, offsets = fields["shape"], fields["data_offsets"]
    for numbers in (shape, offsets):
        if not isinstance(numbers, list) or any(type(n) is not int or n < 0 for n in numbers):
            raise ValueError(f"tensor {name!r} has a malformed shape or place")
    if len(offsets) != 2 or len(shape) > 64 or math.prod(filter(None, shape)) >= 1 << 48:
        raise ValueError(f"tensor {name!r} has a malformed shape or place")
    return Entry(TAGS[fields["dtype"]], tuple(shape), offset + offsets[0], offset + offsets[1])
