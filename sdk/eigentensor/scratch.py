"""Folders for a while: gone when their block ends; and of a process that was killed when the next one begins."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from eigentensor import system

_LOCK = ".lock"


@contextmanager
def scratch(within: Path | None = None) -> Iterator[Path]:
    """An empty folder of this user alone: in $TMPDIR, or within a folder that is there, on the same disk."""
    if not _home(os.getpid(), within).exists():  # somebody tidied up
        _home.cache_clear()
    with tempfile.TemporaryDirectory(dir=_home(os.getpid(), within)) as name:
        yield Path(name)


@cache
def _home(process: int, within: Path | None) -> Path:
    """Of a process. Its lock says that the process lives: whatever ends it lets the lock go."""
    root = within or _temporary()
    _sweep(root)
    while True:
        home = Path(tempfile.mkdtemp(prefix="scratch-", dir=root))
        # A process that sweeps just now may take it for one that was left behind: then another one.
        with suppress(OSError):
            lock = os.open(home / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            system.lock(lock)
            if os.path.samestat(os.fstat(lock), (home / _LOCK).stat()):
                atexit.register(_remove, process, home, None if within else root)
                return home


def _temporary() -> Path:
    """This user's part of $TMPDIR, to which everybody may write."""
    everybodys = Path(tempfile.gettempdir())
    root = everybodys / f"eigentensor-{system.user()}"
    root.mkdir(mode=0o700, exist_ok=True)
    status = root.lstat()
    return root if system.is_own(status, 0o077) else everybodys  # somebody else's


def _sweep(root: Path) -> None:
    """Removes what killed processes left."""
    for lock in root.glob(f"scratch-*/{_LOCK}"):
        with suppress(OSError), lock.open("rb") as file:
            system.lock(file.fileno())
            shutil.rmtree(lock.parent, ignore_errors=True)


def _remove(process: int, home: Path, root: Path | None) -> None:
    if os.getpid() == process:  # not a child that it forked
        shutil.rmtree(home, ignore_errors=True)
        with suppress(OSError):  # others use it
            if root is not None:
                root.rmdir()
