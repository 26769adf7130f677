"""What goes wrong around a daemon: its disk, its clock, its memory, the names of its network, its life."""

import errno
import mmap
import resource
import socket
import struct
import subprocess
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from random import Random

import psutil

from eigentensor import clang
from eigentensor_local.processes import Running

_WORDS = struct.Struct("qii")  # of system.c
_HOUR = 3600
_SPARE = 1 << 22  # bytes that may still be asked for where memory has run out


class Fault(StrEnum):
    """What happens to a daemon for a while."""

    KILLED = "killed"
    """`kill -9`, with all its children; nobody starts it meanwhile."""
    FULL = "full"
    """Its disk is full."""
    READ_ONLY = "read-only"
    """Its disk lets nothing be changed."""
    CLOCK = "clock"
    """Its clock is wrong by hours; in the end it jumps back."""
    MEMORY = "memory"
    """It is given no more memory."""
    NAMES = "names"
    """It finds no host by its name."""


class System:
    """The system of one daemon, which is started with its `environment`, once or several times."""

    def __init__(self, path: Path, library: Path) -> None:
        """`path` is a new file on the disk of the daemon, `library` what `compiled` has made."""
        path.write_bytes(bytes(_WORDS.size))
        with path.open("r+b") as file:
            self._words = mmap.mmap(file.fileno(), _WORDS.size)
        self.environment: Mapping[str, str] = {"FAULTS": str(path), "LD_PRELOAD": str(library)}
        self._limited: int | None = None

    def begin(self, fault: Fault, running: Running, random: Random) -> None:
        """Nothing else is wrong from here on until `end`. How much of it follows from the random numbers."""
        match fault:
            case Fault.KILLED:
                running.kill()
            case Fault.FULL:
                self._say(disk=errno.ENOSPC)
            case Fault.READ_ONLY:
                self._say(disk=errno.EROFS)
            case Fault.CLOCK:
                self._say(clock=random.choice((-1, 1)) * random.randint(_HOUR, 12 * _HOUR))
            case Fault.MEMORY:
                self._limit(running.pid)
            case Fault.NAMES:
                self._say(names=socket.EAI_AGAIN)

    def end(self) -> None:
        """All is well again."""
        self._say()
        if self._limited is not None and psutil.pid_exists(self._limited):
            resource.prlimit(self._limited, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self._limited = None

    def _say(self, clock: int = 0, disk: int = 0, names: int = 0) -> None:
        self._words[:] = _WORDS.pack(clock, disk, names)

    def _limit(self, pid: int) -> None:
        if psutil.pid_exists(pid):
            most = psutil.Process(pid).memory_info().vms + _SPARE
            resource.prlimit(pid, resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
            self._limited = pid


def compiled(folder: Path) -> Path:
    """system.c as a library, in this folder."""
    compiler, library = clang.path(), folder / "system.so"
    assert compiler is not None, clang.FIX
    source = Path(__file__).with_suffix(".c")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    return library
