"""Object code by key, in a folder: written whole or not at all, checked when it is read, the least used dropped."""

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from eigentensor.system import is_own

DIGEST = 32
BYTES = 4 << 30  #: that a folder holds at most after `prune`


def default_folder() -> Path:
    """$XDG_CACHE_HOME/eigentensor/kernels."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eigentensor" / "kernels"


class Cache:
    """A folder of object code. Taken for absent is what is not as it was written, or what somebody else could write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: str) -> Path:
        """Where the code of a key lies; 256 folders, so that none gets long."""
        return self.folder / key[:2] / f"{key}.o"

    def get(self, key: str) -> bytes | None:
        """Object code by key; None if there is none, or if somebody else could have written it, or its digest is
        wrong."""
        try:
            with self.path(key).open("rb") as file:
                status = os.fstat(file.fileno())
                if not is_own(status):
                    return None
                stored = file.read()
        except OSError:
            return None
        with suppress(OSError):  # where the folder is read-only
            os.utime(self.path(key))
        code = stored[DIGEST:]
        return code if stored[:DIGEST] == _digest(key, code) else None

    def put(self, key: str, code: bytes) -> None:
        """Raises OSError where nothing can be written."""
        path = self.path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_digest(key, code) + code)
        os.chmod(name, 0o644)
        os.replace(name, path)

    def prune(self, most: int = BYTES) -> None:
        """Drop what was not read for longest, until a quarter of the bytes is free again if there were more."""
        files = []
        for path in self.folder.glob("*/*.o"):
            with suppress(OSError):  # another process may prune, too
                status = path.stat()
                files.append((status.st_mtime_ns, status.st_size, path))
        excess = sum(size for _, size, _ in files) - most
        if excess <= 0:
            return
        excess += most // 4
        for _, size, path in sorted(files):
            if excess <= 0:
                break
            path.unlink(missing_ok=True)
            excess -= size


def _digest(key: str, code: bytes) -> bytes:
    return hashlib.sha256(key.encode() + code).digest()
