"""The gateway's blobs: uploads collected piece by piece in a folder here, complete blobs in a folder anywhere."""

import json
import os
import shutil
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import fsspec
from fsspec.implementations.local import LocalFileSystem

from eigentensor.errors import BlobNotFound, BlobTooLarge, ConfigError, StoreFull
from eigentensor.merkle import PIECE
from eigentensor.store import Names, Pieces, describe
from eigentensor.store.local import writing
from eigentensor_aggregator.blob_index import BlobIndex

#: Seconds after which an upload that does not go on makes room for others.
STALE = 24 * 3600


@dataclass(frozen=True, slots=True)
class Received:
    """How many bytes of a blob are here, and whether that is all of it."""

    received: int
    complete: bool


@dataclass(frozen=True, slots=True)
class Limits:
    blob: int
    stored: int
    uploads: int


class Blobs:
    """Takes nothing that was not verified: a piece under the roots that fold to the blob's name, a name from the bytes.

    Safe for several threads of one process.
    """

    def __init__(self, url: str, staging: Path, index: BlobIndex, limits: Limits) -> None:
        """`url` is a folder or an fsspec URL. Finds blobs that are there and not in the database."""
        self._index = index
        self._limits = limits
        self._staging = staging
        self._uploads: dict[str, Pieces] = {}
        self._own: set[str] = set()  # of which this process has verified and written every piece
        self._locks = [threading.Lock() for _ in range(64)]
        self._stored = 0  # bytes of all blobs: a sum over the index takes longer the more there are
        self._adding = threading.Lock()
        staging.mkdir(parents=True, exist_ok=True)
        try:
            self._files, root = fsspec.core.url_to_fs(url)
            self._root = root.rstrip("/")
            self._files.makedirs(self._root, exist_ok=True)
        except (ImportError, ValueError, OSError) as error:
            raise ConfigError(
                f"blobs cannot lie in {url}: {error}", fix="Name a folder, or a URL whose fsspec package is installed."
            ) from None
        self._find_unknown()

    def find(self, name: str) -> tuple[Names, Pieces]:
        """The names and pieces of a blob by any of its names. Raises BlobNotFound."""
        found = self._index.find(name)
        if found is None:
            raise BlobNotFound(f"no blob {name} here", fix="Upload it, or ask another gateway.")
        return found

    def read(self, blob: str, start: int, stop: int) -> Iterator[bytes]:
        """The bytes start…stop of a blob, a piece at a time. Raises BlobNotFound before the first of them."""
        try:
            opened = self._files.open(self._path(blob), "rb")
        except FileNotFoundError:
            raise BlobNotFound(f"blob {blob} is gone from this gateway's folder", fix="Upload it again.") from None
        return _slices(opened, start, stop)

    def declare(self, pieces: Pieces) -> Received:
        """Begins or resumes an upload of more than one piece. Raises BlobTooLarge, StoreFull."""
        blob = pieces.blob.hex()
        with self._lock(blob):
            if self._index.find(blob) is not None:
                return Received(pieces.size, complete=True)
            declared = self._declared(blob)
            if not declared.exists():
                self._make_room(pieces.size)
                with writing(declared):
                    temporary = declared.with_suffix(f".{uuid.uuid4().hex}")
                    temporary.write_text(json.dumps(pieces.to_json()))
                    temporary.replace(declared)
            return Received(self._have(blob), complete=False)

    def receive(self, blob: str, data: bytes, place: tuple[int, int] | None = None) -> Received:
        """Takes one piece: the whole blob, or the bytes from `place[0]` on of `place[1]` that were declared.

        Pieces come in order; one that is here already, or would leave a gap, changes nothing: the answer tells where to
        go on. Raises BlobCorrupt if the bytes are not what the name says, BlobNotFound if nothing was declared.
        """
        with self._lock(blob):
            if blob not in self._uploads and (known := self._index.find(blob)) is not None:
                return Received(known[0].size, complete=True)
            if place is None or place == (0, len(data)):
                return self._receive_whole(blob, data)
            pieces, part = self._pieces_of(blob), self._part(blob)
            index, remainder = divmod(place[0], PIECE)
            if place[1] != pieces.size or remainder or index >= len(pieces.roots):
                raise BlobNotFound(f"no upload of blob {blob} with {place[1]} bytes has a piece at {place[0]}")
            pieces.check(index, data)
            have = self._have(blob)
            if have == 0:
                self._own.add(blob)
            if place[0] == have:
                with writing(part), part.open("ab") as file:
                    file.write(data)
                have += len(data)
            if have < pieces.size:
                return Received(have, complete=False)
            self._finish(blob, part, pieces)
            return Received(pieces.size, complete=True)

    def _receive_whole(self, blob: str, data: bytes) -> Received:
        pieces = Pieces.of(data)
        if pieces.blob.hex() != blob:
            # Says which piece is wrong, in the same words as for larger blobs.
            Pieces(len(data), (bytes.fromhex(blob),)).check(0, data)
        self._make_room(len(data))
        part = self._part(f"{blob}-{uuid.uuid4().hex}")
        try:
            with writing(part):
                part.write_bytes(data)
            self._finish(blob, part, pieces)
        finally:
            part.unlink(missing_ok=True)
        return Received(len(data), complete=True)

    def _finish(self, blob: str, part: Path, pieces: Pieces) -> None:
        try:
            # What another process wrote is read again: a crash may have left something else than was verified.
            names, computed = describe(part, pieces if blob in self._own else None)
            if computed != pieces:
                raise StoreFull(f"blob {blob} was not written as it came", fix="Upload it again.")
            self._place(part, names.blob)
            self._add(names, pieces)
        finally:
            part.unlink(missing_ok=True)
            self._declared(blob).unlink(missing_ok=True)
            self._uploads.pop(blob, None)
            self._own.discard(blob)

    def _add(self, names: Names, pieces: Pieces) -> None:
        with self._adding:
            self._index.add(names, pieces)
            self._stored += names.size

    def _place(self, part: Path, blob: str) -> None:
        final = self._path(blob)
        self._files.makedirs(final.rpartition("/")[0], exist_ok=True)
        if not isinstance(self._files, LocalFileSystem):
            self._files.put_file(str(part), final)
            return
        temporary = f"{final}.{uuid.uuid4().hex}"
        with writing(Path(final)):
            try:
                shutil.move(part, temporary)
                with open(temporary, "rb") as file:
                    os.fsync(file.fileno())
                os.replace(temporary, final)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temporary)

    def _make_room(self, size: int) -> None:
        if size > self._limits.blob:
            raise BlobTooLarge(f"a blob of {size} bytes is larger than {self._limits.blob}")
        uploads = [path for path in self._staging.iterdir() if path.suffix == ".pieces"]
        for stale in [path for path in uploads if path.stat().st_mtime < time.time() - STALE]:
            self._part(stale.stem).unlink(missing_ok=True)
            stale.unlink(missing_ok=True)
            self._uploads.pop(stale.stem, None)
            self._own.discard(stale.stem)
            uploads.remove(stale)
        promised = sum(Pieces.from_json(json.loads(path.read_text()), self._limits.blob).size for path in uploads)
        if len(uploads) >= self._limits.uploads:
            raise StoreFull(f"{len(uploads)} uploads are in progress", fix="Try again later.")
        if self._stored + promised + size > self._limits.stored:
            raise StoreFull(f"this gateway stores at most {self._limits.stored} bytes", fix="Use another gateway.")

    def _have(self, blob: str) -> int:
        """Whole pieces that are here; a torn last one is cut off."""
        part = self._part(blob)
        size = part.stat().st_size if part.exists() else 0
        if size % PIECE:
            size -= size % PIECE
            os.truncate(part, size)
        return size

    def _pieces_of(self, blob: str) -> Pieces:
        try:
            declared = self._declared(blob)
            os.utime(declared)
            if blob not in self._uploads:
                self._uploads[blob] = Pieces.from_json(json.loads(declared.read_text()), self._limits.blob)
            return self._uploads[blob]
        except FileNotFoundError:
            raise BlobNotFound(
                f"no upload of blob {blob} was begun", fix=f"PUT its pieces to /v1/blobs/{blob}/pieces first."
            ) from None

    def _find_unknown(self) -> None:
        known = self._index.sizes()
        self._stored = sum(known.values())
        for path in self._files.find(self._root):
            blob = str(path).rpartition("/")[2]
            if len(blob) != 64 or blob in known:
                continue
            part = self._part(f"{blob}-{uuid.uuid4().hex}")
            try:
                self._files.get_file(path, str(part))
                names, pieces = describe(part)
                if names.blob == blob:
                    self._add(names, pieces)
            finally:
                part.unlink(missing_ok=True)

    def _lock(self, blob: str) -> threading.Lock:
        return self._locks[int(blob[:2], 16) % len(self._locks)]

    def _path(self, blob: str) -> str:
        return f"{self._root}/{blob[:2]}/{blob}"

    def _declared(self, blob: str) -> Path:
        return self._staging / f"{blob}.pieces"

    def _part(self, blob: str) -> Path:
        return self._staging / f"{blob}.part"


def _slices(opened: IO[bytes], start: int, stop: int) -> Iterator[bytes]:
    with opened as file:
        file.seek(start)
        while start < stop and (data := file.read(min(PIECE, stop - start))):
            start += len(data)
            yield data
