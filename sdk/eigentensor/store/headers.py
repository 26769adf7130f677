"""Headers of safetensors files: which tensors are in a file, and where. Read without NumPy."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, deserialize, safe_open

from eigentensor.errors import TensorFileError
from eigentensor.numerics.dtypes import DType

TAGS = {
    "BOOL": DType.BOOL,
    "I8": DType.INT8, "I16": DType.INT16, "I32": DType.INT32, "I64": DType.INT64,
    "U8": DType.UINT8, "U16": DType.UINT16, "U32": DType.UINT32, "U64": DType.UINT64,
    "F16": DType.FLOAT16, "BF16": DType.BFLOAT16, "F32": DType.FLOAT32,
}  # fmt: skip
LIMIT = 16 << 20  #: bytes of a header
_WHOLE = 1 << 20  # bytes of a file that is read whole
_NAME_BYTES = 255  # that a name has in a bindings root


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
        if size < 8 or length > min(LIMIT, size - 8):
            raise TensorFileError(f"{path.name} is not a safetensors file")
        text = file.read(length)
    try:
        # The library's parser bounds how deep a header nests; Python's only as far as the recursion limit does.
        if size <= _WHOLE:
            deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
        else:
            with safe_open(path, framework="np"):  # which imports NumPy
                pass
    except SafetensorError as error:
        raise TensorFileError(f"{path.name} is not a safetensors file: {error}") from None
    return entries_of(path.name, text, size)


def entries_of(what: str, text: bytes, size: int) -> dict[str, Entry]:
    """The tensors that a header, which the library takes, names in a file of `size` bytes. Raises TensorFileError."""
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
