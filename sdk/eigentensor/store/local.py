"""A folder of blobs: content-addressed, written atomically, safe to delete."""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs

from eigentensor.errors import BlobCorrupt, BlobNotFound, StoreFull
from eigentensor.store.describing import describe
from eigentensor.store.names import Names, parse_name


class LocalStore:
    """Blobs under `root`, found by their blob root or by what they compute.

    blobs/ab/abcd…        the bytes
    names/ab/abcd….json   for each name: the blob's names
    partial/abcd…         a download or upload in progress; never seen under a final name
    """

    def __init__(self, root: Path | None = None) -> None:
        """`root` is the user's cache folder unless given ($EIGENTENSOR_CACHE_DIR, $XDG_CACHE_HOME/eigentensor)."""
        self.root = root or default_root()

    def put(self, source: bytes | Path | Callable[[Path], object]) -> str:
        """Stores bytes, a copy of a file, or what a function writes into one; returns the blob root. Storing the same
        bytes again changes nothing."""
        with writing(self.root / "partial"), self._temporary() as temporary:
            if isinstance(source, Path):
                shutil.copyfile(source, temporary)
            elif isinstance(source, bytes):
                temporary.write_bytes(source)
            else:
                source(temporary)
            names, _ = describe(temporary)
            self.adopt(temporary, names)
        return names.blob

    def take(self, other: "LocalStore", name: str | bytes) -> None:
        """Stores what another folder has under a name, as the same file where the file system allows it: no blob is
        ever written to. Raises BlobNotFound."""
        source, names = other.path(name), other.names(name)
        with writing(self.root / "partial"), self._temporary() as temporary:
            temporary.unlink()
            try:
                os.link(source, temporary)
            except OSError:  # another disk, or one without links
                shutil.copyfile(source, temporary)
            self.adopt(temporary, names)

    def path(self, name: str | bytes) -> Path:
        """The file behind any name of a blob; it is not to be written. Raises BlobNotFound."""
        names = self.names(name)
        path = self._blob(names.blob)
        if not path.exists() or path.stat().st_size != names.size:
            raise BlobNotFound(f"the bytes of blob {names.blob} are gone from {self.root}")
        return path

    def read(self, name: str | bytes) -> bytes:
        """The bytes of a blob, all in memory. Raises BlobNotFound."""
        return self.path(name).read_bytes()

    def names(self, name: str | bytes) -> Names:
        """All names of the blob that has this name. Raises BlobNotFound."""
        name = parse_name(name)
        try:
            return Names.from_json(json.loads(self._record(name).read_text()))
        except (FileNotFoundError, ValueError, BlobCorrupt):
            raise BlobNotFound(f"no blob {name} in {self.root}") from None

    def __contains__(self, name: str | bytes) -> bool:
        with suppress(BlobNotFound):
            return self.path(name).exists()
        return False

    def discard(self, name: str | bytes) -> None:
        """Forgets a blob and its names, so that it is fetched anew; nothing if it is not there."""
        with suppress(BlobNotFound):
            names = self.names(name)
            self._blob(names.blob).unlink(missing_ok=True)
            for known in filter(None, (names.blob, names.computed)):
                with suppress(BlobNotFound):
                    if self.names(known).blob == names.blob:
                        self._record(known).unlink(missing_ok=True)

    def __iter__(self) -> Iterator[Names]:
        """The blobs, in no particular order."""
        for record in self.root.glob("names/*/*.json"):
            with suppress(BlobNotFound):
                names = self.names(record.stem)
                if names.blob == record.stem:
                    yield names

    def partial(self, blob: str | bytes) -> Path:
        """Where a transfer of this blob may collect bytes until they are adopted."""
        path = self.root / "partial" / parse_name(blob)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def adopt(self, path: Path, names: Names) -> Path:
        """Moves a complete file, whose names were computed from its bytes, to its place, atomically. What another blob
        here computes, too, stays that one's name: both are as good."""
        with writing(path):
            with path.open("rb") as file:
                os.fsync(file.fileno())
            path.chmod(0o644)
            final = self._blob(names.blob)
            final.parent.mkdir(parents=True, exist_ok=True)
            path.replace(final)
            self._write_record(names.blob, names)
            self.name(names.blob)
        return final

    def name(self, blob: str) -> None:
        """Lets a blob be found by what it computes, unless another one is. Raises BlobNotFound."""
        names = self.names(blob)
        if names.computed is not None and names.computed not in self:
            self._write_record(names.computed, names)

    def _write_record(self, name: str, names: Names) -> None:
        record = self._record(name)
        record.parent.mkdir(parents=True, exist_ok=True)
        with self._temporary() as temporary:
            temporary.write_text(json.dumps(names.to_json()))
            temporary.replace(record)

    @contextmanager
    def _temporary(self) -> Iterator[Path]:
        folder = self.root / "partial"
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, prefix="put-")
        os.close(handle)
        try:
            yield Path(name)
        finally:
            Path(name).unlink(missing_ok=True)

    def _blob(self, blob: str) -> Path:
        return self.root / "blobs" / blob[:2] / blob

    def _record(self, name: str) -> Path:
        return self.root / "names" / name[:2] / f"{name}.json"


def default_root() -> Path:
    """The folder of this user's blobs: $EIGENTENSOR_CACHE_DIR, or else the user's cache folder."""
    configured = os.environ.get("EIGENTENSOR_CACHE_DIR")
    return Path(configured) if configured else platformdirs.user_cache_path("eigentensor")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns a full disk into StoreFull."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise StoreFull(f"no space left for {path}", fix="Free space, or name another folder.") from error
