"""Object code by key, in a folder: written whole or not at all, and checked when it is read."""

import hashlib
import os
import tempfile
from pathlib import Path

DIGEST = 32


def default_folder() -> Path:
    """$XDG_CACHE_HOME/eigentensor/kernels."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eigentensor" / "kernels"


class Cache:
    """A folder of object code. Bytes that are not what was written are taken for absent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.o"

    def get(self, key: str) -> bytes | None:
        try:
            stored = self.path(key).read_bytes()
        except OSError:
            return None
        code = stored[DIGEST:]
        return code if stored[:DIGEST] == _digest(key, code) else None

    def put(self, key: str, code: bytes) -> None:
        path = self.path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_digest(key, code) + code)
        os.chmod(name, 0o644)
        os.replace(name, path)


def _digest(key: str, code: bytes) -> bytes:
    return hashlib.sha256(key.encode() + code).digest()
