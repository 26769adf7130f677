"""What a blob is called: its own root, and the root of what it computes."""

import string
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from eigentensor.errors import BlobCorrupt, BlobNotFound, ProgramError, TensorFileError
from eigentensor.merkle import program_root
from eigentensor.program import decode
from eigentensor.store.pieces import Pieces
from eigentensor.store.tensors import bindings_root

_PROGRAM_MAGIC = b"EIGT"
_PROGRAM_LIMIT = 64 << 20


class Kind(StrEnum):
    PROGRAM = "program"
    TENSORS = "tensors"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Names:
    """What is known of a blob. `computed` is the program or bindings root, None for other bytes."""

    blob: str
    size: int
    kind: Kind
    computed: str | None

    def __contains__(self, name: str) -> bool:
        return name in (self.blob, self.computed)

    def to_json(self) -> dict[str, Any]:
        return {"blob": self.blob, "size": self.size, "kind": self.kind.value, "computed": self.computed}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Reads names that `to_json` wrote; raises BlobCorrupt for anything else."""
        try:
            computed = value["computed"] and parse_name(value["computed"])
            return cls(parse_name(value["blob"]), int(value["size"]), Kind(value["kind"]), computed)
        except (KeyError, TypeError, ValueError, AttributeError, BlobNotFound) as error:
            raise BlobCorrupt(f"the names of a blob are malformed: {error}") from None


def parse_name(name: str | bytes) -> str:
    """The 64 lowercase hex digits of a 32-byte name. Raises BlobNotFound for what cannot be one."""
    text = name.hex() if isinstance(name, bytes) else name.strip().lower().removeprefix("0x")
    if len(text) != 64 or not set(text) <= set(string.hexdigits):
        raise BlobNotFound(f"{name!r} is not the uuid of a blob", fix="A uuid has 64 hex digits.")
    return text


def describe(path: Path, pieces: Pieces | None = None) -> tuple[Names, Pieces]:
    """Names and pieces of a file's bytes, computed from all of them.

    A valid program has a program root, a safetensors file with the dtypes of programs a bindings root; whatever is
    neither is stored under its blob root alone.
    """
    if pieces is None:
        pieces = Pieces.of(path)
    kind, computed = _computed(path, pieces.size)
    return Names(pieces.blob.hex(), pieces.size, kind, computed.hex() if computed else None), pieces


def _computed(path: Path, size: int) -> tuple[Kind, bytes | None]:
    with path.open("rb") as file:
        if file.read(4) == _PROGRAM_MAGIC and size <= _PROGRAM_LIMIT:
            data = _PROGRAM_MAGIC + file.read()
            try:
                decode(data)
            except ProgramError:
                return Kind.OTHER, None
            return Kind.PROGRAM, program_root(data)
    try:
        return Kind.TENSORS, bindings_root(path)
    except TensorFileError:
        return Kind.OTHER, None
