"""The gateway's blobs: uploads collected piece by piece in a folder here, complete blobs in a folder anywhere."""

import json
import os
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from eigentensor.errors import BlobCorrupt, BlobNotFound, BlobTooLarge, StoreFull
from eigentensor.merkle import PIECE
from eigentensor.store import Names, Pieces, describe
from eigentensor.store.local import writing
from eigentensor_aggregator.blob_index import BlobIndex
from eigentensor_aggregator.folder import Folder
from eigentensor_aggregator.problems import Away
from eigentensor_aggregator.uploads import Declared, Places, Upload

_DAY = 24 * 3600.0  # seconds after which who asks for a blob renews it
_RENEWED = 1 << 16  # blobs of which that is remembered


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

    def __init__(self, folder: Folder, staging: Path, index: BlobIndex, limits: Limits) -> None:
        """Finds blobs that are there and not in the database."""
        self._folder = folder
        self._index = index
        self._limits = limits
        self._staging = staging
        self._places = Places(limits.uploads)
        self._in_progress = min(limits.stored, max(limits.stored // 8, 2 * limits.blob))
        self._declared = Declared()
        self._locks = [threading.RLock() for _ in range(64)]
        self._stored = 0  # bytes of all blobs: a sum over the index takes longer the more there are
        self._adding = threading.Lock()
        self._renewed: dict[str, float] = {}
        staging.mkdir(parents=True, exist_ok=True)
        self._find_uploads()
        self._find_unknown()

    def find(self, name: str) -> tuple[Names, Pieces]:
        """The names and pieces of a blob by any of its names, if its bytes are there. Raises BlobNotFound."""
        known = self._index.find(name)
        for names, pieces in known:
            if self._is_there(names):
                self._renew(names.blob)
                return names, pieces
        if known:
            raise BlobNotFound(f"blob {name} is gone from this gateway's folder", fix="Upload it again.")
        raise BlobNotFound(f"no blob {name} here", fix="Upload it, or ask another gateway.")

    def is_well(self) -> bool:
        """Whether blobs can be read and uploads be taken. Raises what the file system does."""
        return self._staging.is_dir() and self._folder.is_well()

    def count(self) -> None:
        """Counts what is kept, also by other processes."""
        with self._adding:
            self._stored = sum(self._index.sizes().values())

    def read(self, blob: str, start: int, stop: int) -> Iterator[bytes]:
        """The bytes start…stop of a blob, a piece at a time. Raises BlobNotFound, Away before the first of them."""
        return self._folder.read(blob, start, stop)

    def collect(self, names: Names, before: float) -> bool:
        """Removes a blob that nobody has given or named since then; whether it did. Raises Away."""
        with self._lock(names.blob):
            if not self._index.drop(names.blob, before):
                return False
            self._folder.remove(names.blob)
        with self._adding:
            self._stored -= names.size
        return True

    def expire(self) -> None:
        """Ends uploads with which nobody goes on."""
        for blob in self._places.stale():
            self._try_end(blob)

    def declare(self, pieces: Pieces, address: str = "") -> Received:
        """What an upload of more than one piece will be; how much of it is here. It reserves nothing: its first
        verified piece takes a place. Raises BlobTooLarge, StoreFull."""
        blob = pieces.blob.hex()
        with self._lock(blob):
            if self._has(blob):
                return Received(pieces.size, complete=True)
            if (upload := self._places.get(blob)) is not None:
                return Received(upload.have, complete=False)
            if pieces.size > self._limits.blob:
                raise BlobTooLarge(f"a blob of {pieces.size} bytes is larger than {self._limits.blob}")
            self._check_room(pieces.size)
            self._declared.add(pieces, address)
            return Received(0, complete=False)

    def receive(self, blob: str, data: bytes, place: tuple[int, int] | None = None, address: str = "") -> Received:
        """Takes one piece: the whole blob, or the bytes from `place[0]` on of `place[1]` that were declared.

        Pieces come in order; one that is here already, or would leave a gap, changes nothing: the answer tells where to
        go on. An upload that finds the disk or the store full is ended. Raises StoreFull, BlobCorrupt if the bytes are
        not what the name says, BlobNotFound if nothing was declared, or another upload took its place.
        """
        with self._lock(blob):
            upload = self._places.get(blob)
            if upload is None and self._has(blob):
                return Received(self._index.find(blob)[0][0].size, complete=True)
            if place is None or place == (0, len(data)):
                return self._receive_whole(blob, data)
            pieces = upload.pieces if upload else self._declared.get(blob)
            if pieces is None:
                raise BlobNotFound(
                    f"no upload of blob {blob} was begun", fix=f"PUT its pieces to /v1/blobs/{blob}/pieces first."
                )
            index, remainder = divmod(place[0], PIECE)
            if place[1] != pieces.size or remainder or index >= len(pieces.roots):
                raise BlobNotFound(f"no upload of blob {blob} with {place[1]} bytes has a piece at {place[0]}")
            pieces.check(index, data)
            have = upload.have if upload else 0
            if place[0] == have:
                try:
                    self._make_room(blob, len(data))
                    if upload is None:
                        self._begin(blob, pieces, address)
                    self._append(blob, data)
                except StoreFull:
                    self._end(blob)
                    raise
                have += len(data)
            if have < pieces.size:
                return Received(have, complete=False)
            try:
                self._finish(blob, self._part(blob), pieces)
            except Away:  # with the last piece it will be complete once more
                self._places.moved_on(blob, -len(data))
                os.truncate(self._part(blob), pieces.size - len(data))
                raise
            return Received(pieces.size, complete=True)

    def _begin(self, blob: str, pieces: Pieces, address: str) -> None:
        """Takes a place, of another upload if need be. Raises StoreFull."""
        self.expire()
        upload = Upload(pieces, address, self._places.clock(), 0, own=True)
        others = iter(self._places.yielding(address))
        while not self._places.take(blob, upload):
            if not any(self._try_end(other) for other in others):
                raise StoreFull(f"{self._limits.uploads} uploads are in progress", fix="Try again in a few minutes.")
        with writing(self._list(blob)):
            temporary = self._list(blob).with_suffix(f".{uuid.uuid4().hex}")
            temporary.write_text(json.dumps(pieces.to_json()))
            temporary.replace(self._list(blob))
        self._declared.drop(blob)

    def _append(self, blob: str, data: bytes) -> None:
        with writing(self._part(blob)), self._part(blob).open("ab") as file:
            file.write(data)
        self._places.moved_on(blob, len(data))

    def _try_end(self, blob: str) -> bool:
        """Ends an upload unless it goes on at this moment; whether it did."""
        lock = self._lock(blob)
        if not lock.acquire(blocking=False):
            return False
        try:
            self._end(blob)
        finally:
            lock.release()
        return True

    def _end(self, blob: str) -> None:
        """Nothing of an upload stays."""
        self._places.give_up(blob)
        for path in (self._part(blob), self._list(blob)):
            path.unlink(missing_ok=True)

    def _receive_whole(self, blob: str, data: bytes) -> Received:
        pieces = Pieces.of(data)
        if pieces.blob.hex() != blob:
            # Says which piece is wrong, in the same words as for larger blobs.
            Pieces(len(data), (bytes.fromhex(blob),)).check(0, data)
        self._make_room(blob, len(data))
        part = self._part(f"{blob}-{uuid.uuid4().hex}")
        try:
            with writing(part):
                part.write_bytes(data)
            self._finish(blob, part, pieces)
        finally:
            part.unlink(missing_ok=True)
        return Received(len(data), complete=True)

    def _finish(self, blob: str, part: Path, pieces: Pieces) -> None:
        upload = self._places.get(blob)
        try:
            # What another process wrote is read again: a crash may have left something else than was verified.
            names, computed = describe(part, pieces if upload and upload.own else None)
            if computed != pieces:
                raise StoreFull(f"blob {blob} was not written as it came", fix="Upload it again.")
            self._folder.place(part, blob)
            self._add(names, pieces)
        except Away:
            raise
        except BaseException:
            self._end(blob)
            raise
        self._end(blob)

    def _add(self, names: Names, pieces: Pieces) -> None:
        with self._adding:
            self._stored += names.size * self._index.add(names, pieces)

    def _renew(self, blob: str) -> None:
        """Who asks for a blob is about to name it: it counts as given today."""
        now = time.time()
        if self._renewed.get(blob, 0.0) >= now - _DAY:
            return
        if len(self._renewed) >= _RENEWED:
            self._renewed.clear()
        self._renewed[blob] = now
        self._index.renew([blob], now)

    def _make_room(self, blob: str, size: int) -> None:
        """Sees to it that so many bytes more of a blob may be kept: uploads that rest yield, and where those in
        progress hold too much, those that began after it. Raises StoreFull."""
        for other in self._places.yielding_bytes(blob):
            if self._places.received + size <= self._in_progress:
                break
            self._try_end(other)
        else:
            if self._places.received + size > self._in_progress:
                raise StoreFull(
                    f"uploads in progress may hold {self._in_progress} bytes", fix="Try again in a few minutes."
                )
        self._check_room(size)

    def _check_room(self, size: int) -> None:
        """Raises StoreFull unless so many bytes more may be kept."""
        if self._stored + self._places.received + size > self._limits.stored:
            raise StoreFull(f"this gateway stores at most {self._limits.stored} bytes", fix="Use another gateway.")

    def _has(self, blob: str) -> bool:
        """Whether a blob is here: known, and its bytes are there."""
        return any(names.blob == blob and self._is_there(names) for names, _ in self._index.find(blob))

    def _is_there(self, names: Names) -> bool:
        return self._folder.size(names.blob) == names.size

    def _find_uploads(self) -> None:
        """Takes up uploads of the process before; nothing else stays of what it had begun."""
        for path in self._staging.glob("*.pieces"):
            part = self._part(path.stem)
            with suppress(ValueError, BlobCorrupt, BlobTooLarge):  # a power cut may have left anything
                pieces = Pieces.from_json(json.loads(path.read_text()), self._limits.blob)
                size = min(part.stat().st_size if part.exists() else 0, (len(pieces.roots) - 1) * PIECE)
                have = size - size % PIECE  # a torn piece is cut off, and a last one ends the upload when it comes
                at = self._places.clock() - max(0.0, time.time() - path.stat().st_mtime)
                if have and self._places.take(path.stem, Upload(pieces, "", at, have, own=False)):
                    os.truncate(part, have)
        for path in self._staging.iterdir():
            if self._places.get(path.stem) is None or path.suffix not in (".part", ".pieces"):
                path.unlink()

    def _find_unknown(self) -> None:
        self.count()
        known = self._index.sizes()
        for blob in self._folder.blobs():
            if blob in known:
                continue
            part = self._part(f"{blob}-{uuid.uuid4().hex}")
            try:
                self._folder.fetch(blob, part)
                names, pieces = describe(part)
                if names.blob == blob:
                    self._add(names, pieces)
            finally:
                part.unlink(missing_ok=True)

    def _lock(self, blob: str) -> threading.RLock:
        return self._locks[int(blob[:2], 16) % len(self._locks)]

    def _list(self, blob: str) -> Path:
        return self._staging / f"{blob}.pieces"

    def _part(self, blob: str) -> Path:
        return self._staging / f"{blob}.part"
