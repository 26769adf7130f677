"""What a blob is called: its own root, and the root of what it computes. `describing` computes them."""

import string
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from eigentensor.errors import BlobCorrupt, BlobNotFound


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
