"""What a sandboxed child would be refused, from its first call on: `refusals.py OUT MODULE ARGUMENTS`.

Runs a child's module as it is, but for its seal: what that would refuse goes through and is written down, a line each,
as is every file that the child looks for and does not find, before and after it would have been sealed. For a device
whose driver asks for more than a sandbox gives: from one run it is seen what. Needs nothing but the library, since it
lies in the sandbox as a file by itself.
"""

import ctypes
import json
import os
import platform
import re
import runpy
import select
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from fcntl import ioctl
from pathlib import Path
from typing import Any
from unittest.mock import patch

from eigentensor.runtime.reach import Reach
from eigentensor.runtime.sandbox import confine, execution, tenant, warm

NOTIFY, LISTENER = 0x7FC00000, 8  #: SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER
RECEIVE, SEND = 0xC0502100, 0xC0182101  #: of ioctl on a listener
NOTICE, ANSWER = struct.Struct("QIIiIQ6Q"), struct.Struct("QqiI")
GO_ON = 1  #: SECCOMP_USER_NOTIF_FLAG_CONTINUE
#: Calls that name a file, and the number of the argument that does.
NAMING = {
    "open": 0, "stat": 0, "lstat": 0, "access": 0, "readlink": 0, "openat": 1, "newfstatat": 1, "readlinkat": 1,
    "statx": 1,
}  # fmt: skip
HEADERS = ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h")
#: Where else than among libraries drivers look.
PLACES = ("/dev/", "/etc/", "/home/", "/proc/", "/run/", "/sys/", "/usr/local/nvidia/", "/var/")
#: Calls of which it matters what is asked: the number of that argument.
ASKING = {"ioctl": 1, "fcntl": 1, "prctl": 0, "socket": 0, "clone": 0}
HERE = Path("/refusals")


@contextmanager
def watched(folder: Path) -> Iterator[None]:
    """Children that are started meanwhile write what they would be refused into files of a folder."""
    command = execution.command
    count = iter(range(1_000_000))

    def other(*arguments: Any) -> tuple[list[str], list[str]]:
        front, child = command(*arguments)
        tail = front.index("--remount-ro", len(front) - 6)
        more = [
            "--ro-bind",
            str(Path(__file__).resolve()),
            str(HERE / "refusals.py"),
            "--bind",
            str(folder),
            str(HERE / "out"),
        ]
        out = HERE / "out" / f"{next(count)}-{child[2].rpartition('.')[2]}"
        return [*front[:tail], *more, *front[tail:]], [child[0], str(HERE / "refusals.py"), str(out), *child[2:]]

    with ExitStack() as stack:
        for starting in (execution, warm, tenant):
            stack.enter_context(patch.object(starting, "command", other))
        yield


def lines(folder: Path) -> list[str]:
    """What was written there, each thing once."""
    found = [line for file in sorted(folder.iterdir()) for line in file.read_text().splitlines()]
    return list(dict.fromkeys(found))


def main() -> None:
    out, module, *arguments = sys.argv[1:]
    sys.argv = [module, *arguments]
    reach = Reach.from_json(json.loads((Path(arguments[0]) / "job.json").read_text())["reach"])
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        theirs.close()
        _watch(ours, Path(out))
        os._exit(0)
    ours.close()
    machine = platform.machine()
    listener = confine.install(_asking(machine, reach), LISTENER)
    socket.send_fds(theirs, [b"l"], [listener])
    os.close(listener)

    def seal(reach: Reach) -> None:
        theirs.send(b"s")
        theirs.recv(1)

    confine.seal = seal  # type: ignore[assignment]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _asking(machine: str, reach: Reach) -> bytes:
    """The filter of a sealed child, which asks instead of refusing, and where a file is named."""
    architecture, calls = confine.CALLS[machine]
    quiet = {name: number for name, number in calls.items() if name not in NAMING} | {"sendmsg": 46}
    with patch.dict(confine.CALLS, {machine: (architecture, quiet)}):
        return confine.filtering(machine, reach, NOTIFY)


def _watch(ours: socket.socket, out: Path) -> None:
    _, (listener,), _, _ = socket.recv_fds(ours, 1, 1)
    numbers = {number: name for name, number in _named().items()}
    seen, sealed = set[str](), False
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(ours, select.POLLIN)
    with out.open("w", buffering=1) as file:
        while True:
            for ready, events in poll.poll():
                if ready == ours.fileno():
                    if not ours.recv(1):
                        poll.unregister(ours)
                        continue
                    sealed = True
                    ours.send(b"s")
                elif events & select.POLLIN:
                    if line := _told(listener, numbers, sealed):
                        if line not in seen:
                            file.write(line + "\n")
                        seen.add(line)
                else:
                    return


def _told(listener: int, numbers: dict[int, str], sealed: bool) -> str:
    """The line of the next call, which goes on; empty if it would have been no failure."""
    notice = bytearray(NOTICE.size)
    try:
        ioctl(listener, RECEIVE, notice)
    except OSError:  # whoever called is gone
        return ""
    key, process, _, number, _, _, *arguments = NOTICE.unpack(notice)
    name = numbers.get(number, f"call {number}")
    when = "sealed" if sealed else "before"
    line = ""
    if name in NAMING:
        path = _text(process, arguments[NAMING[name]])
        writes = name in ("open", "openat") and arguments[NAMING[name] + 1] & (os.O_WRONLY | os.O_RDWR)
        if path.startswith(PLACES) and not os.access(path, os.W_OK if writes else os.R_OK):
            line = f"{when}: {name} {path}{' to write' if writes else ''}: not there"
    elif sealed:
        asked = hex(arguments[ASKING[name]]) if name in ASKING else ""
        line = f"{when}: {name}({asked}): refused"
    with suppress(OSError):
        ioctl(listener, SEND, ANSWER.pack(key, 0, 0, GO_ON))
    return line


def _text(process: int, at: int) -> str:
    """The text that lies there in another process, as far as it can be read."""
    libc, buffer = ctypes.CDLL(None), ctypes.create_string_buffer(256)
    here = struct.pack("QQ", ctypes.addressof(buffer), 255)
    count = libc.process_vm_readv(process, here, 1, struct.pack("QQ", at, min(255, 4096 - at % 4096)), 1, 0)
    return buffer.value.decode(errors="replace") if count > 0 else ""


def _named() -> dict[str, int]:
    """Numbers of system calls by name: those of the kernel's header where it is installed."""
    machine = platform.machine()
    named = confine.CALLS[machine][1] | confine.DRIVING[machine]
    named |= {"ioctl": confine.IOCTL[machine], "fcntl": confine.FCNTL[machine]}
    for file in map(Path, HEADERS):
        if machine == "x86_64" and file.exists():
            found = re.findall(r"#define __NR_(\w+) (\d+)", file.read_text())
            return {name: int(number) for name, number in found}
    return named


if __name__ == "__main__":
    main()
