"""safetensors files in and out, bit for bit. bfloat16 is carried as np.uint16 patterns under the tag BF16."""

import json
import mmap
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize

from eigentensor import merkle
from eigentensor.errors import TensorFileError
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.store.headers import LIMIT, TAGS, Entry, entries_of, read_header

_TAG_OF = {dtype: tag for tag, dtype in TAGS.items()}
_DTYPES = {storage: dtype for dtype, storage in STORAGE.items() if dtype not in (DType.BFLOAT16, DType.INDEX)}
_KNOWN_BYTES = 4096  # of a header that is remembered
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


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
    if len(data) < 8 or length > min(LIMIT, len(data) - 8):
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
    return entries_of(what, text, len(data))


def save_safetensors(
    path: Path, tensors: Mapping[str, np.ndarray[Any, Any]], dtypes: Mapping[str, DType] | None = None
) -> None:
    """Writes a file. `dtypes` names what the arrays cannot tell: bfloat16 carried as uint16.

    The same tensors make the same bytes. Not atomic: write to a temporary name what others may see.
    """
    pieces = parts(tensors, dtypes or {})
    header = next(pieces)  # which what does not fit has none of
    with path.open("wb") as file:
        file.write(header)
        for piece in pieces:
            file.write(piece)


def dump_safetensors(tensors: Mapping[str, np.ndarray[Any, Any]], dtypes: Mapping[str, DType] | None = None) -> bytes:
    """The bytes of the file that `save_safetensors` writes."""
    return b"".join(parts(tensors, dtypes or {}))


def parts(tensors: Mapping[str, np.ndarray[Any, Any]], dtypes: Mapping[str, DType]) -> Iterator[bytes | memoryview]:
    """The bytes of the file that `save_safetensors` writes: its header, then tensor by tensor."""
    header: dict[str, Any] = {}
    offset = 0
    # Wide elements come first: then every tensor is aligned to its elements.
    arrays = sorted(
        ((name, np.asarray(array)) for name, array in tensors.items()), key=lambda one: (-one[1].itemsize, one[0])
    )
    for name, array in arrays:
        dtype = dtypes.get(name) or _DTYPES.get(array.dtype)
        if dtype is None or STORAGE[dtype] != array.dtype:
            raise TensorFileError(
                f"tensor {name!r} has dtype {array.dtype}, which programs do not have",
                fix="Convert it; bfloat16 is given as uint16 patterns and named in `dtypes`.",
            )
        place = [offset, offset + array.nbytes]
        header[name] = {"dtype": _TAG_OF[dtype], "shape": list(array.shape), "data_offsets": place}
        offset += array.nbytes
    text = _ENCODER.encode(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for _, array in arrays:
        yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


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
