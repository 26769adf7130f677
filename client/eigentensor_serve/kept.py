"""What callers leave on the disk, and for how long: results for a day, blobs until newer ones need the room."""

import math
import shutil
import threading
import time
from collections import OrderedDict, deque
from pathlib import Path

import platformdirs

from eigentensor.errors import BlobNotFound, StoreFull
from eigentensor.numerics.dtypes import DType
from eigentensor.store import LocalStore, Names, load_safetensors, save_safetensors
from eigentensor.store.database import Database
from eigentensor_client.files import Tensors, write_whole

KEPT = 24 * 3600  #: seconds for which results and what is known of them stay
_FORGOTTEN = 64  # results that are removed after one is written, at most
_NEWEST, _SMALL = 64, 64 << 10  # results that are in memory, too, and the bytes that each has at most
_UPLOADS = (
    """CREATE TABLE IF NOT EXISTS given (
    number INTEGER PRIMARY KEY, blob TEXT NOT NULL, caller TEXT NOT NULL, bytes INTEGER NOT NULL, computed TEXT,
    UNIQUE (blob, caller))""",
    # of earlier versions: a blob had one caller, the last one
    "CREATE TABLE IF NOT EXISTS blobs (number INTEGER, blob TEXT, caller TEXT, bytes INTEGER)",
    "INSERT OR IGNORE INTO given SELECT number, blob, caller, bytes, NULL FROM blobs",
    "DROP TABLE blobs",
)


def serve_folder() -> Path:
    """What `eigentensor serve` of this user keeps, unless it is told another place."""
    return platformdirs.user_data_path("eigentensor") / "serve"


class Room:
    """Whether `least` bytes are free where folders are, or will be. Requests look together, once a second."""

    def __init__(self, folders: tuple[Path, ...], least: int) -> None:
        self._folders, self._least = folders, least
        self._looked = -math.inf

    def check(self, *, now: bool = False) -> None:
        """Raises StoreFull; `now`: as it is at this moment."""
        if not now and time.monotonic() < self._looked + 1:
            return
        for folder in self._folders:
            there = next(path for path in (folder, *folder.parents) if path.exists())
            if (free := shutil.disk_usage(there).free) < self._least:
                what = f"{free:,} bytes are free in {folder}, {self._least:,} must stay so"
                raise StoreFull(what, fix="Free space there.")
        self._looked = time.monotonic()


class Uploads:
    """Blobs that callers gave, and states that their tasks left, in this machine's store: of each caller's at most
    `limit` bytes, beyond which the oldest go. What was there before is nobody's, and stays."""

    def __init__(self, store: LocalStore, database: Database, limit: int) -> None:
        self._store, self._database, self._limit = store, database, limit
        self._lock = threading.Lock()
        for statement in _UPLOADS:
            database.rows(statement)

    def adopt(self, path: Path, names: Names, caller: str) -> None:
        """Moves a complete file to its place; given once more it is the newest of this caller's. It stays as long as
        anybody's who gave it does."""
        with self._lock:
            is_uploaded = self._database.rows("SELECT 1 FROM given WHERE blob = ?", names.blob)
            if names.blob in self._store and not is_uploaded:
                return
            self._store.adopt(path, names)
            self._database.rows(
                "REPLACE INTO given VALUES ((SELECT coalesce(max(number), 0) + 1 FROM given), ?, ?, ?, ?)",
                *(names.blob, caller, names.size, names.computed),
            )
            for blob, computed in self._surplus(caller):
                self._database.rows("DELETE FROM given WHERE blob = ? AND caller = ?", blob, caller)
                if not self._database.rows("SELECT 1 FROM given WHERE blob = ?", blob):
                    self._discard(blob, computed)

    def _discard(self, blob: str, computed: str | None) -> None:
        """Another one that computes the same is found by that from now on."""
        self._store.discard(blob)
        for row in self._database.rows("SELECT blob FROM given WHERE computed = ?", computed):
            if row["blob"] in self._store:
                self._store.name(row["blob"])
                return

    def _surplus(self, caller: str) -> list[tuple[str, str | None]]:
        """The oldest, but never the newest one, each with what it computes."""
        rows = self._database.rows(
            "SELECT blob, computed FROM (SELECT blob, computed, sum(bytes) OVER newer AS total, "
            "count(*) OVER newer AS place FROM given "
            "WHERE caller = ? WINDOW newer AS (ORDER BY number DESC)) WHERE total > ? AND place > 1",
            *(caller, self._limit),
        )
        return [(row["blob"], row["computed"]) for row in rows]


class ResultFiles:
    """Outputs in files, by task: for a day, together at most `limit` bytes, beyond which the oldest go."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder, self._limit = folder, limit
        folder.mkdir(parents=True, exist_ok=True)
        files = sorted((path.stat().st_mtime, path.stat().st_size, path) for path in folder.iterdir())
        self._files = deque(files)
        self._bytes = sum(size for _, size, _ in files)
        self._newest: OrderedDict[str, Tensors] = OrderedDict()
        self._lock = threading.Lock()
        self._forget(len(files))

    def path(self, task: str) -> Path:
        """Where the outputs of a task are, or would be."""
        return self._folder / f"{task}.safetensors"

    def write(self, task: str, outputs: Tensors, dtypes: dict[str, DType]) -> None:
        """Raises ConfigError where nothing can be written."""
        path = write_whole(self.path(task), lambda file: save_safetensors(file, outputs, dtypes))
        size = path.stat().st_size
        with self._lock:
            self._files.append((time.time(), size, path))
            self._bytes += size
            if size <= _SMALL:
                self._newest[task] = outputs
            while len(self._newest) > _NEWEST:
                self._newest.popitem(last=False)
        self._forget(_FORGOTTEN)

    def read(self, task: str) -> Tensors:
        """Flat or shaped, as they were written or not. Raises BlobNotFound for what is not kept any more."""
        path = self.path(task)
        if not path.exists():
            raise BlobNotFound(f"the result of task {task} is not kept any more", fix="Execute it again.")
        outputs = self._newest.get(task)
        return load_safetensors(path) if outputs is None else outputs

    def _forget(self, most: int) -> None:
        """Removes what is too old, or too much, the oldest first; the newest stays in any case."""
        with self._lock:
            for _ in range(min(most, len(self._files))):
                is_old = self._files[0][0] < time.time() - KEPT
                if not is_old and (self._bytes <= self._limit or len(self._files) == 1):
                    break
                _, size, path = self._files.popleft()
                path.unlink(missing_ok=True)
                self._newest.pop(path.stem, None)
                self._bytes -= size
