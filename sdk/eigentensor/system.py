"""What Linux has and another system may lack, of processors, memory, owners, locks of files and forks.

A client is to work on macOS and Windows, too. What only operators do needs Linux, and is not here.
"""

import errno
import getpass
import os
import sys
import time
from typing import Any, Protocol

LINUX = sys.platform == "linux"
FAR = 1 << 40  #: a byte of a file that nobody reads: where a lock keeps others from what it covers
PAUSE = 0.05  #: seconds between attempts


class Guard(Protocol):
    """A lock of threads."""

    def acquire(self) -> Any:
        """Waits until it is free, and takes it."""

    def release(self) -> None:
        """Others may take it."""


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> int:
    """Bytes of memory that this host has."""
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    import psutil  # has a library of its own, for which nobody else waits

    return int(psutil.virtual_memory().total)


def user() -> str:
    """This user in the name of a file."""
    return str(os.getuid()) if hasattr(os, "getuid") else getpass.getuser()


def is_own(status: os.stat_result, others: int = 0o022) -> bool:
    """Whether a file or folder is this user's, and others have none of these rights to it. Where rights are no bits of
    a file, a user's own folders say who may do what."""
    return not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & others)


def sealed_memory(what: str, size: int) -> int:
    """The descriptor of a file in no folder, in memory, that always has this size; maps of processes call it `what`.
    Linux alone. Raises OSError where it gives none."""
    import fcntl

    file = os.memfd_create(f"eigentensor-{what}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(file, size)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, _seals())
    except BaseException:
        os.close(file)
        raise
    return file


def is_sealed(file: int) -> bool:
    """Whether a descriptor is of such a file: nobody takes away what another reads. Raises OSError for no file in
    memory."""
    import fcntl

    return fcntl.fcntl(file, fcntl.F_GET_SEALS) & _seals() == _seals()


def _seals() -> int:
    import fcntl

    return fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def held_over_forks(guard: Guard) -> None:
    """Nobody else holds it when the process is forked, if it ever is."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=guard.acquire, after_in_parent=guard.release, after_in_child=guard.release)


def lock(file: int, *, wait: bool = False) -> None:
    """Makes this the only process that has locked a file, given by its descriptor, until it is closed or unlocked.

    Raises BlockingIOError if another one has, and it is not to be waited for.
    """
    _lock(file, wait)


def unlock(file: int) -> None:
    """Others may lock it, also while a process that was forked meanwhile has it open."""
    _unlock(file)


if sys.platform == "win32":
    import msvcrt

    def _lock(file: int, wait: bool) -> None:
        while True:
            try:
                return _far(file, msvcrt.LK_NBLCK)
            except OSError:
                if not wait:
                    raise BlockingIOError(errno.EWOULDBLOCK, "another process has locked the file") from None
            time.sleep(PAUSE)

    def _unlock(file: int) -> None:
        _far(file, msvcrt.LK_UNLCK)

    def _far(file: int, mode: int) -> None:
        """Locks or unlocks the byte that stands for the file, and leaves its position as it was."""
        place = os.lseek(file, 0, os.SEEK_CUR)
        os.lseek(file, FAR, os.SEEK_SET)
        try:
            msvcrt.locking(file, mode, 1)
        finally:
            os.lseek(file, place, os.SEEK_SET)
else:
    import fcntl

    def _lock(file: int, wait: bool) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))

    def _unlock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)
