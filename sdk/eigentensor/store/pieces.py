"""A blob as pieces of 1 MiB that are verified one by one and fold to the blob's root."""

import mmap
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from eigentensor.errors import BlobCorrupt, BlobTooLarge
from eigentensor.leaves import PIECE
from eigentensor.merkle import blob_root_of, piece_root, piece_roots


@dataclass(frozen=True, slots=True)
class Pieces:
    """The size of a blob and the tree roots of its pieces, in order."""

    size: int
    roots: tuple[bytes, ...]

    @classmethod
    def of(cls, data: bytes | memoryview | Path) -> Self:
        """The pieces of bytes, or of a file that is not loaded into memory."""
        if not isinstance(data, Path):
            return cls(len(data), tuple(piece_roots(data)))
        size = data.stat().st_size
        if size == 0:
            return cls(0, ())
        with (
            data.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as content,
        ):
            return cls(size, tuple(piece_roots(content)))

    @property
    def blob(self) -> bytes:
        """The blob root that the pieces fold to."""
        return blob_root_of(self.size, self.roots)

    def length(self, index: int) -> int:
        """Bytes of piece `index`."""
        return min(PIECE, self.size - index * PIECE)

    def check(self, index: int, data: bytes | memoryview) -> None:
        """Raises BlobCorrupt unless `data` is piece `index`."""
        if len(data) != self.length(index) or piece_root(data, self.size) != self.roots[index]:
            raise BlobCorrupt(f"piece {index} of blob {self.blob.hex()} is wrong")

    def to_json(self) -> dict[str, Any]:
        """The pieces as a JSON object, which `from_json` reads."""
        return {"blob": self.blob.hex(), "size": self.size, "pieces": [root.hex() for root in self.roots]}

    @classmethod
    def from_json(cls, value: Any, limit: int) -> Self:
        """The pieces of an object from anybody, trusting nothing. Raises BlobCorrupt unless all of it fits, and
        BlobTooLarge only for a blob that has more than `limit` bytes indeed."""
        try:
            size, blob = int(value["size"]), bytes.fromhex(value["blob"])
            roots = tuple(bytes.fromhex(root) for root in value["pieces"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise BlobCorrupt(f"the list of pieces is malformed: {error}") from None
        if size < 0 or len(roots) != -(-size // PIECE) or any(len(root) != 32 for root in roots):
            raise BlobCorrupt(f"the list of pieces does not fit a blob of {size} bytes")
        pieces = cls(size, roots)
        if pieces.blob != blob:
            raise BlobCorrupt(f"the pieces fold to {pieces.blob.hex()}, not to {blob.hex()}")
        if size > limit:
            raise BlobTooLarge(f"a blob of {size} bytes is larger than {limit}")
        return pieces
