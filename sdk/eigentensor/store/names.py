"""What a blob is called: its own root, and the root of what it computes."""

import string
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from eigentensor.errors import BlobCorrupt, BlobNotFound, ProgramError, TensorFileError
from eigentensor.merkle import outputs_root, program_root, variables_root
from eigentensor.program import decode
from eigentensor.program.limits import PROGRAM_BYTES
from eigentensor.store.parts import RESULTS, VARIABLES, decode_results, decode_variables
from eigentensor.store.pieces import Pieces
from eigentensor.store.tensors import bindings_root

_PROGRAM_MAGIC = b"EIGT"
_PARTS_LIMIT = 64 << 10


class Kind(StrEnum):
    """What the bytes of a blob are."""

    PROGRAM = "program"
    TENSORS = "tensors"
    VARIABLES = "variables"
    RESULTS = "results"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a blob of `size` bytes. `computed` is the root of a program, bindings, …, None for other bytes."""

    blob: str
    size: int
    kind: Kind
    computed: str | None

    def __contains__(self, name: str) -> bool:
        return name in (self.blob, self.computed)

    def to_json(self) -> dict[str, Any]:
        """The names as a JSON object, which `from_json` reads."""
        return {"blob": self.blob, "size": self.size, "kind": self.kind.value, "computed": self.computed}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Reads names that `to_json` wrote; raises BlobCorrupt for anything else."""
        try:
            computed = value["computed"] and parse_name(value["computed"])
            return cls(parse_name(value["blob"]), int(value["size"]), Kind(value["kind"]), computed)
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError, BlobNotFound) as error:
            raise BlobCorrupt(f"the names of a blob are malformed: {error}") from None


def parse_name(name: str | bytes) -> str:
    """The 64 lowercase hex digits of a 32-byte name. Raises BlobNotFound for what cannot be one."""
    text = name.hex() if isinstance(name, bytes) else name.strip().lower().removeprefix("0x")
    if len(text) != 64 or not set(text) <= set(string.hexdigits):
        raise BlobNotFound(f"{name!r} is not the uuid of a blob", fix="A uuid has 64 hex digits.")
    return text


def describe(path: Path, pieces: Pieces | None = None) -> tuple[Names, Pieces]:
    """Names and pieces of a file's bytes, computed from all of them.

    A valid program has a program root, a safetensors file with the dtypes of programs a bindings root, bound variables
    and the roots of a result those of `parts`; whatever is none of these is stored under its blob root alone.
    """
    if pieces is None:
        pieces = Pieces.of(path)
    kind, computed = _computed(path, pieces.size)
    return Names(pieces.blob.hex(), pieces.size, kind, computed.hex() if computed else None), pieces


def _computed(path: Path, size: int) -> tuple[Kind, bytes | None]:
    with path.open("rb") as file:
        magic = file.read(4)
        limit = PROGRAM_BYTES if magic == _PROGRAM_MAGIC else _PARTS_LIMIT
        data = magic + file.read() if size <= limit else b""
    try:
        if data and magic == _PROGRAM_MAGIC:
            decode(data)
            return Kind.PROGRAM, program_root(data)
        if data and magic == VARIABLES:
            return Kind.VARIABLES, variables_root(decode_variables(data))
        if data and magic == RESULTS:
            return Kind.RESULTS, outputs_root(*decode_results(data))
        return Kind.TENSORS, bindings_root(path)
    except (ProgramError, BlobCorrupt, TensorFileError):
        return Kind.OTHER, None
