"""The client as it is on Windows: `python -m support.foreign ARGUMENTS` is the command without all that only Linux has.

What Python lacks there is taken away once the libraries are imported: they know other systems by themselves.
"""

import os
import platform
import select
import signal
import socket
import struct
import sys
from importlib import import_module
from types import ModuleType

#: What Python has on Linux and not there, as far as anything here could ask for it.
MODULES = ("fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "sha3")
NAMES = {
    os: (
        "fork", "register_at_fork", "sched_getaffinity", "sched_setaffinity", "sysconf", "getuid", "geteuid", "getgid",
        "memfd_create", "killpg", "setsid", "getpgid", "O_CLOEXEC", "O_NOFOLLOW", "O_DIRECTORY", "mkfifo",
        "fchown",
    ),
    signal: ("SIGALRM", "SIGKILL", "SIGHUP", "SIGPIPE", "SIGUSR1", "setitimer", "ITIMER_REAL", "alarm"),
    socket: ("AF_UNIX", "TCP_USER_TIMEOUT"),
    select: ("poll", "epoll"),
}  # fmt: skip
#: What is imported before that.
LIBRARIES = (
    "asyncio", "concurrent.futures", "ctypes", "getpass", "httpx", "multiprocessing", "numpy", "platformdirs",
    "prometheus_client", "psutil", "pydantic", "rich.console", "sqlite3", "ssl", "structlog", "subprocess", "tempfile",
    "tinygrad", "tinygrad.runtime.ops_cpu", "tinygrad.runtime.ops_python", "typer", "uvicorn",
)  # fmt: skip


def main() -> None:
    leave_linux()
    from eigentensor_client.cli import main

    main()


def leave_linux() -> None:
    """From now on this process has what Python has on Windows, and none of its own modules is imported yet."""
    assert not any(name.startswith("eigentensor") for name in sys.modules)
    for name in LIBRARIES:
        import_module(name)
    sys.modules["msvcrt"] = _msvcrt()
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for module, names in NAMES.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    os.environ.pop("ETH_HASH_BACKEND", None)  # of the command, where it ran on Linux
    os.environ.setdefault("USERNAME", "somebody")
    platform.system = lambda: "Windows"
    here, sys.platform = sys.platform, "win32"
    import_module("eigentensor.system")
    sys.platform = here  # libraries that are imported later do without what is missing


def _msvcrt() -> ModuleType:
    """Windows' locks of bytes of a file, by those of Linux."""
    import fcntl

    module = ModuleType("msvcrt")
    module.LK_NBLCK, module.LK_UNLCK = 2, 0  # type: ignore[attr-defined]

    def locking(file: int, mode: int, count: int) -> None:
        kind = fcntl.F_WRLCK if mode else fcntl.F_UNLCK
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_CUR, 0, count, 0))

    module.locking = locking  # type: ignore[attr-defined]
    return module


if __name__ == "__main__":
    main()
