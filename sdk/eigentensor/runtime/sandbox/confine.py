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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eigentensor.errors import NoSandbox
from eigentensor.runtime.reach import NOTHING, Reach

#: Numbers of allowed calls where Linux numbers them as on any newer processor.
GENERIC = {
    "getcwd": 17, "faccessat": 48, "openat": 56, "close": 57, "getdents64": 61, "lseek": 62, "read": 63, "write": 64,
    "readv": 65, "writev": 66, "pread64": 67, "pwrite64": 68, "readlinkat": 78, "newfstatat": 79, "fstat": 80,
    "exit": 93, "exit_group": 94, "futex": 98, "clock_gettime": 113, "clock_nanosleep": 115, "sched_getaffinity": 123,
    "sched_yield": 124, "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "getpid": 172,
    "geteuid": 175, "gettid": 178, "brk": 214, "munmap": 215, "mremap": 216, "mmap": 222, "mprotect": 226,
    "madvise": 233, "getrandom": 278, "statx": 291, "rseq": 293,
}  # fmt: skip
GENERIC_DRIVING = {
    "mkdirat": 34, "unlinkat": 35, "ftruncate": 46, "ppoll": 73, "fdatasync": 83, "utimensat": 88, "nanosleep": 101,
    "clock_getres": 114, "renameat2": 276,
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
#: Numbers of the calls that drivers of devices need besides, once they have started: of their files in /tmp, of
#: descriptors, of waiting. What they ask their devices is ioctl, by what a reach names.
DRIVING = {
    "x86_64": {
        "poll": 7, "nanosleep": 35, "fdatasync": 75, "ftruncate": 77, "rename": 82, "mkdir": 83, "unlink": 87,
        "clock_getres": 229, "utimensat": 280,
    },
    "aarch64": GENERIC_DRIVING,
    "riscv64": GENERIC_DRIVING,
}  # fmt: skip
#: Numbers of ioctl and fcntl, of which some kinds are allowed.
IOCTL = {"x86_64": 16, "aarch64": 29, "riscv64": 29}
FCNTL = {"x86_64": 72, "aarch64": 25, "riscv64": 25}
#: fcntl's F_GETFD, F_SETFD, F_GETFL and F_DUPFD_CLOEXEC: what kind of descriptor one is, and another of the same file.
DESCRIPTORS = tuple((0xFFFFFFFF, command) for command in (1, 2, 3, 1030))
SECCOMP = {"x86_64": 317, "aarch64": 277, "riscv64": 277}  #: the number of the call that installs a filter
F_SETSIG = 10  #: of fcntl(2), which Python has no name for
FILES, DRIVER_FILES = 64, 1024  #: open at a time
INTERPRETER = 1 << 30  #: bytes of addresses that Python and its libraries take, and a thread besides
DRIVER = 4 << 30  #: bytes that a device's driver writes for itself in the memory of the host
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


def limit(limits: Limits, file_bytes: int, reach: Reach = NOTHING) -> None:
    """Bound this process for ever, and let it die with its parent; `file_bytes` is the largest file it may write.

    What drives a device file takes addresses for all memory of the device and of the host: there what is written is
    bounded, not what has an address.
    """
    import resource

    _prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    own = limits.memory + INTERPRETER + limits.threads * THREAD
    for what, most in (
        (resource.RLIMIT_DATA, own + DRIVER) if reach.nodes else (resource.RLIMIT_AS, own),
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_NOFILE, DRIVER_FILES if reach.nodes else FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (value, value))


def seal(reach: Reach = NOTHING) -> None:
    """From now on no thread of this process starts a process or thread, opens a socket, signals anybody: that fails.
    Of a device's driver nothing is asked but what the reach names.

    Raises NoSandbox where the kernel or the processor is not known to allow it.
    """
    install(filtering(platform.machine(), reach))


def filtering(machine: str, reach: Reach = NOTHING, refusal: int = 0x00050000 | errno.EPERM) -> bytes:
    """The filter of system calls for a processor: allowed ones, and everything else fails with EPERM, or as `refusal`
    says. Raises NoSandbox for a processor whose numbers are not known."""
    if machine not in CALLS:
        raise NoSandbox(f"no list of system calls for {machine}")
    architecture, calls = CALLS[machine]
    by_argument = {FCNTL[machine]: DESCRIPTORS}
    if reach.scratch:
        calls = calls | DRIVING[machine]
    if reach.requests:
        by_argument[IOCTL[machine]] = reach.requests
    return _filter(architecture, sorted(calls.values()), by_argument, refusal)


def install(program: bytes, flags: int = 1) -> int:
    """Lets a filter decide on all system calls from now on; by default of all threads, since those that run kernels are
    there already. Raises NoSandbox where the kernel does not take it."""
    code = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: length in instructions, then a pointer
    description = struct.pack("H6xQ", len(program) // 8, ctypes.addressof(code))
    _prctl(38, 1)  # PR_SET_NO_NEW_PRIVS
    libc = ctypes.CDLL(None, use_errno=True)
    result = int(libc.syscall(SECCOMP[platform.machine()], 1, flags, description))  # SECCOMP_SET_MODE_FILTER
    if result < 0 or (result and flags == 1):  # SECCOMP_FILTER_FLAG_TSYNC gives the thread that could not follow
        raise NoSandbox(f"this process cannot be sealed: {errno.errorcode.get(ctypes.get_errno(), 'a thread is not')}")
    return result


def _prctl(option: int, first: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, first, 0, 0, 0):
        raise NoSandbox(f"this process cannot be confined: {errno.errorcode[ctypes.get_errno()]}")


def _filter(
    architecture: int, allowed: Sequence[int], by_argument: Mapping[int, Sequence[tuple[int, int]]], refusal: int
) -> bytes:
    """A classic BPF program: these numbers are allowed, and those by argument if the second argument, under one of the
    masks, is what stands beside it. All else is refused, calls of another architecture too."""
    load, take, equal, result = 0x20, 0x54, 0x15, 0x06
    refused, passed = (result, 0, 0, refusal), (result, 0, 0, 0x7FFF0000)
    instructions = [(load, 0, 0, 4), (equal, 1, 0, architecture), refused, (load, 0, 0, 0)]
    for number in allowed:
        instructions += [(equal, 0, 1, number), passed]
    for number, pairs in by_argument.items():
        block = []
        for mask in sorted({mask for mask, _ in pairs}):
            block += [(load, 0, 0, 24), (take, 0, 0, mask)]  # the lower half of the second argument
            for value in (value for of, value in pairs if of == mask):
                block += [(equal, 0, 1, value), passed]
        instructions += [(equal, 0, len(block) + 1, number), *block, refused]
    instructions.append(refused)
    return b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
