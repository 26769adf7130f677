"""What a process does to itself before it runs a stranger's program: limits, then a list of allowed system calls.

Linux only. Nothing can be undone: what is allowed afterwards is to compute, to use open files and threads, and to end.
"""

import ctypes
import errno
import os
import platform
import select
import signal
import struct
from dataclasses import dataclass

from eigentensor.errors import NoSandbox

#: Numbers of allowed calls where Linux numbers them as on any newer processor.
GENERIC = {
    "getcwd": 17, "faccessat": 48, "openat": 56, "close": 57, "getdents64": 61, "lseek": 62, "read": 63, "write": 64,
    "readv": 65, "writev": 66, "pread64": 67, "pwrite64": 68, "readlinkat": 78, "newfstatat": 79, "fstat": 80,
    "exit": 93, "exit_group": 94, "futex": 98, "clock_gettime": 113, "clock_nanosleep": 115, "sched_getaffinity": 123,
    "sched_yield": 124, "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "getpid": 172,
    "geteuid": 175, "gettid": 178, "brk": 214, "munmap": 215, "mremap": 216, "mmap": 222, "mprotect": 226,
    "madvise": 233, "getrandom": 278, "statx": 291, "rseq": 293,
}  # fmt: skip
#: Numbers of the allowed calls and the name of the architecture for the kernel.
CALLS = {
    "x86_64": (0xC000003E, {
        "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "lseek": 8, "mmap": 9,
        "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15,
        "pread64": 17, "pwrite64": 18, "readv": 19, "writev": 20, "access": 21, "sched_yield": 24, "mremap": 25,
        "madvise": 28, "getpid": 39, "exit": 60, "getcwd": 79, "readlink": 89, "geteuid": 107, "gettid": 186,
        "futex": 202, "sched_getaffinity": 204, "getdents64": 217, "clock_gettime": 228, "clock_nanosleep": 230,
        "exit_group": 231, "openat": 257, "newfstatat": 262, "getrandom": 318, "statx": 332, "rseq": 334,
    }),
    "aarch64": (0xC00000B7, GENERIC),
    "riscv64": (0xC00000F3, GENERIC | {"riscv_flush_icache": 259}),  # new code is seen by asking the kernel
}  # fmt: skip
SECCOMP = {"x86_64": 317, "aarch64": 277, "riscv64": 277}  #: the number of the call that installs a filter
F_SETSIG = 10  #: of fcntl(2), which Python has no name for
FILES = 64  #: open at a time
INTERPRETER = 1 << 30  #: bytes of addresses that Python and its libraries take, and a thread besides
THREAD = 16 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may use: bytes of memory, seconds by the clock with compiling, processor seconds, threads."""

    memory: int = 8 << 30
    seconds: float = 300.0
    cpu_seconds: int = 600
    threads: int = 2


def tie() -> None:
    """Ends this process, killed, as soon as whoever holds the other end of its standard input, a pipe, has ended.

    What is to die with bubblewrap's parent survives if that is killed before bubblewrap has said so to the kernel.
    """
    import fcntl  # only Linux has all of this, and others import this module

    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(0, F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(0, 0)
    if poll.poll(0):  # it had ended before
        os._exit(1)


def limit(limits: Limits, file_bytes: int) -> None:
    """Bound this process for ever, and let it die with its parent; `file_bytes` is the largest file it may write."""
    import resource

    _prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    for what, most in (
        (resource.RLIMIT_AS, limits.memory + INTERPRETER + limits.threads * THREAD),
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_NOFILE, FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (value, value))


def seal() -> None:
    """From now on no thread of this process starts a process or thread, opens a socket, signals anybody: that fails.

    Raises NoSandbox where the kernel or the processor is not known to allow it.
    """
    machine = platform.machine()
    if machine not in CALLS:
        raise NoSandbox(f"no list of system calls for {machine}")
    architecture, calls = CALLS[machine]
    program = _filter(architecture, sorted(calls.values()))
    code = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: length in instructions, then a pointer
    description = struct.pack("H6xQ", len(program) // 8, ctypes.addressof(code))
    _prctl(38, 1)  # PR_SET_NO_NEW_PRIVS
    libc = ctypes.CDLL(None, use_errno=True)
    # SECCOMP_SET_MODE_FILTER for all threads (SECCOMP_FILTER_FLAG_TSYNC): those that run kernels are there already
    if libc.syscall(SECCOMP[machine], 1, 1, description):
        raise NoSandbox(f"this process cannot be sealed: {errno.errorcode.get(ctypes.get_errno(), 'a thread is not')}")


def _prctl(option: int, first: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, first, 0, 0, 0):
        raise NoSandbox(f"this process cannot be confined: {errno.errorcode[ctypes.get_errno()]}")


def _filter(architecture: int, allowed: list[int]) -> bytes:
    """A classic BPF program: the numbers are allowed, everything else fails with EPERM, another architecture kills."""
    load, equal, result = 0x20, 0x15, 0x06
    count = len(allowed)
    instructions = [
        (load, 0, 0, 4),
        (equal, 0, count + 2, architecture),
        (load, 0, 0, 0),
        *((equal, count - i, 0, number) for i, number in enumerate(allowed)),
        (result, 0, 0, 0x00050000 | errno.EPERM),
        (result, 0, 0, 0x7FFF0000),
    ]
    # another architecture jumps behind the list, to the refusal
    return b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
