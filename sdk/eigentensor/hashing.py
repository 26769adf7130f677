"""sha256 over the leaves and nodes of trees: hashlib, or many at a time by a helper in C where clang can compile it."""

import ctypes
import os
import platform
import subprocess
from contextlib import suppress
from enum import IntEnum
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from eigentensor import clang
from eigentensor.cache import Cache, default_folder
from eigentensor.errors import ExecutionError
from eigentensor.scratch import scratch
from eigentensor.system import processors
from eigentensor.threads import pool, start

SOURCE = Path(__file__).with_suffix(".c")
FLAGS = ("-O2", "-fPIC", "-nostdlib", "-fno-strict-aliasing")
#: Flags besides, for the processors that hashing.c is written for. It asks itself whether there are such instructions.
OF_MACHINE: dict[str, tuple[str, ...]] = {"x86_64": (), "aarch64": ("-march=armv8-a+sha2",)}
SECONDS = 60  #: for compiling the helper
SMALL = 1 << 15  #: bytes below which nobody waits for it
FEW = 4  #: hashes for which a call of it costs more than it saves
SHARE = 1 << 20  #: bytes for which another thread is worth waking

Bytes = bytes | bytearray | memoryview


class Kind(IntEnum):
    """Ways to compute, as in hashing.c, the best last."""

    PORTABLE = 0
    AVX2 = 1
    SHA = 2  # the processor's own instructions


def digests(tag: int, size: int, data: Bytes) -> bytes:
    """The sha256 of the tag byte followed by `size` bytes, for all of data, one hash after the other.

    `size` is a multiple of 64 and divides the length of data.
    """
    if len(data) < FEW * size:
        return by_hashlib(tag, size, data)
    helper = chosen().helper if len(data) >= SMALL or chosen.cache_info().currsize else None
    return by_hashlib(tag, size, data) if helper is None else helper(tag, size, data)


def by_hashlib(tag: int, size: int, data: Bytes) -> bytes:
    """`digests` without the helper."""
    head = bytes((tag,))
    return b"".join([sha256(head + data[i : i + size]).digest() for i in range(0, len(data), size)])


class Helper:
    """`digests` by the helper, in some way and on some threads."""

    def __init__(self, library: ctypes.CDLL, kind: Kind, threads: int) -> None:
        self.kind = kind
        self.threads = threads
        self.function = library.hash
        number, address = ctypes.c_size_t, ctypes.c_void_p
        self.function.argtypes = (ctypes.c_int, ctypes.c_int, number, address, number, address)
        self.function.restype = None

    def __call__(self, tag: int, size: int, data: Bytes) -> bytes:
        count = len(data) // size
        hashes = ctypes.create_string_buffer(32 * count)
        threads = max(1, min(self.threads, len(data) // SHARE))
        if threads == 1 and isinstance(data, bytes):
            self.function(self.kind, tag, size, data, count, hashes)
            return hashes.raw
        import numpy as np  # finds where bytes lie; who hashes little does not wait for it

        source, written = np.frombuffer(data, np.uint8).ctypes.data, ctypes.addressof(hashes)
        borders = [count * i // threads for i in range(threads + 1)]
        parts = [(self.kind, tag, size, source + size * a, b - a, written + 32 * a) for a, b in pairwise(borders)]
        others = [(pool(threads - 1).submit(self.function, *part), part) for part in parts[1:]]
        self.function(*parts[0])
        for other, part in others:
            if other.cancel():  # nobody has begun with it
                self.function(*part)
            else:
                other.result()
        return hashes.raw


class Chosen(NamedTuple):
    """The helper, or None and the reason why hashlib does it all."""

    helper: Helper | None
    reason: str


_override: tuple[Path, int] | None = None


@cache
def chosen() -> Chosen:
    """What this process hashes with: what was given, or the helper from the cache of kernels, compiled if need be."""
    try:
        if _override is None:
            library, threads = load(Cache(default_folder())), processors()
        else:
            library, threads = ctypes.CDLL(str(_override[0])), _override[1]
        kind = max(kind for kind in Kind if library.supports(kind))
        helper = Helper(library, kind, threads)
        sample = bytes(range(256)) * 256
        if any(helper(tag, size, sample) != by_hashlib(tag, size, sample) for tag, size in ((0, 1024), (1, 64))):
            raise ExecutionError("the helper for hashing gives wrong hashes", fix="Try another version of clang.")
    except (ExecutionError, OSError, RuntimeError) as error:  # RuntimeError: there is no home
        return Chosen(None, str(error))
    return Chosen(helper, "")


def give(library: Path, threads: int) -> None:
    """Let this process hash with this helper, compiled, on so many threads: later it opens no file and starts none."""
    global _override
    import numpy  # noqa: F401  # by which the helper finds bytes: now, since later no file is opened

    _override = library, threads
    start(threads)
    chosen()


def object_code(folder: Cache) -> bytes:
    """hashing.c compiled, from the folder or put there. Raises ExecutionError or OSError."""
    command = clang.path()
    if command is None or platform.system() != "Linux" or platform.machine() not in OF_MACHINE:
        other = f"not written for {platform.system()} {platform.machine()}"
        raise ExecutionError(
            "clang is not installed" if command is None else other, fix="Nothing: hashlib gives the same roots."
        )
    real = Path(command).resolve()
    status, text = real.stat(), SOURCE.read_bytes()
    flags = ("-shared", *FLAGS, *OF_MACHINE[platform.machine()])
    compiler = f"{real} {status.st_size} {status.st_mtime_ns} {flags}"
    key = sha256(compiler.encode() + b"\0" + text).hexdigest()
    code = folder.get(key)
    if code is None:
        code = _compiled([command, *flags], text)
        with suppress(OSError):  # nothing can be kept: then every process compiles it
            folder.put(key, code)
    return code


def load(folder: Cache) -> ctypes.CDLL:
    """hashing.c as a library, from the folder or compiled. Raises ExecutionError or OSError."""
    code = object_code(folder)
    # from memory: what was verified is what is loaded; kept open, since the system knows a library by its path
    descriptor = os.memfd_create("eigentensor-hashing")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(code)
    return ctypes.CDLL(f"/proc/self/fd/{descriptor}")


def _compiled(compiler: list[str], text: bytes) -> bytes:
    with scratch() as folder:
        target = folder / "hashing.so"
        command = [*compiler, "-x", "c", "-", "-o", str(target)]
        try:
            done = subprocess.run(command, input=text, capture_output=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise ExecutionError(f"compiling hashing.c took more than {SECONDS} s") from None
        if done.returncode:
            raise ExecutionError(f"hashing.c: clang says {done.stderr.decode(errors='replace')[-500:]}")
        return target.read_bytes()
