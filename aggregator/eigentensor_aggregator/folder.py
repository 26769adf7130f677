"""Where complete blobs lie: a folder here, or one at a service that fsspec knows, such as S3."""

import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import fsspec
from fsspec.implementations.local import LocalFileSystem

from eigentensor.errors import BlobNotFound, ConfigError, EigenTensorError
from eigentensor.merkle import PIECE
from eigentensor.store.local import writing
from eigentensor_aggregator.problems import Away

#: Bytes that are asked of a service at once, at most: a range that is asked for begins with one piece.
WINDOW = 16 * PIECE
#: Bytes of a part of a large blob on its way to an S3; some are in memory at once.
PART = 16 * PIECE
_AT_ONCE = 4
_MARK = "eigentensor"  # lies beside the blobs of a service: folders without files are none there
_TEMPORARY = re.compile(r"[0-9a-f]{64}\.[0-9a-f]{32}")  # what a process that was killed left of moving a blob
_WRITTEN = 3600.0  # seconds after which nobody writes to such a file any more


class Folder:
    """Blobs by their roots. Safe for several threads. A folder or service that does not answer is Away."""

    def __init__(self, url: str) -> None:
        """`url` is a folder, which is made, or an fsspec URL. Raises ConfigError where nothing can be written."""
        try:
            self._files, root = fsspec.core.url_to_fs(url)
            self._root = root.rstrip("/")
            self._files.makedirs(self._root, exist_ok=True)
            self._here = isinstance(self._files, LocalFileSystem)
            if not self._here:
                self._files.pipe_file(f"{self._root}/{_MARK}", b"")
        except Exception as error:  # of whichever service
            raise ConfigError(
                f"blobs cannot lie in {url}: {error}",
                fix="Name a folder, or a URL whose package is installed: S3 takes `pip install 'eigentensor[s3]'`.",
            ) from None

    def is_well(self) -> bool:
        """Whether it is there. Raises what the file system does."""
        self._files.invalidate_cache()
        return bool(self._files.exists(self._root if self._here else f"{self._root}/{_MARK}"))

    def size(self, blob: str) -> int | None:
        """Bytes of what lies under a name; None: nothing does."""
        path = self._path(blob)
        with _answering():
            self._files.invalidate_cache(path.rpartition("/")[0])
            with suppress(FileNotFoundError):
                return int(self._files.size(path))
        return None

    def read(self, blob: str, start: int, stop: int) -> Iterator[bytes]:
        """The bytes start…stop of a blob, a piece at a time. Raises BlobNotFound, Away before the first of them."""
        try:
            with _answering():
                if self._here:
                    return _slices(self._files.open(self._path(blob), "rb"), start, stop)
                return self._windows(self._path(blob), start, stop)
        except FileNotFoundError:
            raise BlobNotFound(f"blob {blob} is gone from this gateway's folder", fix="Upload it again.") from None

    def fetch(self, blob: str, path: Path) -> None:
        """Writes a blob to a file here. Raises FileNotFoundError."""
        with _answering():
            self._files.get_file(self._path(blob), str(path))

    def place(self, part: Path, blob: str) -> None:
        """Takes a complete blob from a file here, all of it or nothing. Raises StoreFull. The file may stay."""
        if self._here:
            self._move(part, self._path(blob))
            return
        with _answering():
            parts = {"chunksize": PART, "max_concurrency": _AT_ONCE} if "s3" in self._files.protocol else {}
            self._files.put_file(str(part), self._path(blob), **parts)
        if self.size(blob) != part.stat().st_size:
            raise Away(f"the blobs' service did not keep blob {blob}", fix="Try again in a while.")

    def remove(self, blob: str) -> None:
        """Removes a blob, if it is there."""
        with _answering(), suppress(FileNotFoundError):
            self._files.rm_file(self._path(blob))

    def blobs(self) -> Iterator[str]:
        """The names of all that lies here; removes what a process that was killed left of moving a blob."""
        for path in self._files.find(self._root):
            name = str(path).rpartition("/")[2]
            if len(name) == 64:
                yield name
            elif self._here and _TEMPORARY.fullmatch(name) and os.path.getmtime(path) < time.time() - _WRITTEN:
                os.unlink(path)

    def _windows(self, path: str, start: int, stop: int) -> Iterator[bytes]:
        """Asks for the next bytes while the last ones are given, each time for twice as many. The first are here when
        this returns."""
        others = ThreadPoolExecutor(1)

        def asked(start: int, length: int) -> "Future[bytes]":
            return others.submit(self._files.cat_file, path, start=start, end=min(stop, start + length))

        def given(first: bytes) -> Iterator[bytes]:
            data, at, length = first, start, PIECE
            try:
                while data:
                    at, length = at + len(data), min(2 * length, WINDOW)
                    coming = asked(at, length) if at < stop else None
                    yield from (data[i : i + PIECE] for i in range(0, len(data), PIECE))
                    with _answering():
                        data = b"" if coming is None else coming.result()
            finally:
                others.shutdown(wait=False)

        try:
            return given(asked(start, PIECE).result() if start < stop else b"")
        except BaseException:
            others.shutdown(wait=False)
            raise

    def _move(self, part: Path, final: str) -> None:
        os.makedirs(final.rpartition("/")[0], exist_ok=True)
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

    def _path(self, blob: str) -> str:
        return f"{self._root}/{blob[:2]}/{blob}"


@contextmanager
def _answering() -> Iterator[None]:
    """Whatever a file system fails with is Away, but that there is no such file."""
    try:
        yield
    except (EigenTensorError, FileNotFoundError):
        raise
    except Exception as error:
        raise Away(f"the blobs do not answer: {error}", fix="Try again in a while.") from None


def _slices(opened: IO[bytes], start: int, stop: int) -> Iterator[bytes]:
    with opened as file:
        file.seek(start)
        while start < stop and (data := file.read(min(PIECE, stop - start))):
            start += len(data)
            yield data
