"""What this machine lacks to execute programs: each device held to the reference, and what it is used with."""

import ctypes
import os
import platform
import re
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Annotated

import psutil

from eigentensor import hashing
from eigentensor.cache import default_folder
from eigentensor.errors import ExecutionError
from eigentensor.numerics.floats import deviations
from eigentensor.program.signatures import STORED
from eigentensor.runtime import selftest
from eigentensor.runtime.build import compilers
from eigentensor.runtime.compiled import execute
from eigentensor.runtime.cpu import llvm, toolchain
from eigentensor.runtime.devices import MAKERS, has_own_memory, of
from eigentensor.runtime.gpu import nvrtc
from eigentensor.runtime.gpu.gridded import Gridded
from eigentensor.runtime.sandbox import bubblewrap
from eigentensor.runtime.sandbox.execution import NODELESS, NODELESS_FIX
from eigentensor.wire import Object, word

GIB = 1 << 30
CACHE = "Set XDG_CACHE_HOME to a folder of yours."
#: Code of x86 that stores the control register, sets DAZ and FTZ, and loads it: libraries have it from -ffast-math.
FLUSHING = re.compile(rb"(?s)\x0f\xae[\x18-\x1f\x58-\x5f\x98-\x9f].{1,24}?\x40\x80\x00\x00.{0,24}?\x0f\xae")


class State(StrEnum):
    OK = "ok"
    REFUSED = "refused"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Finding(Object):
    """Something that was looked at."""

    what: str
    """Its kind: device, program, …"""
    name: str
    """Which one."""
    state: Annotated[State, word("ok", "refused", "absent")]
    """Whether it can be used."""
    says: str
    """What was found, in words."""
    fix: str = ""
    """What to do; empty where there is nothing to do."""


def examine(devices: Collection[str] = (), elsewhere: Collection[Callable[[], Finding]] = ()) -> Iterator[Finding]:
    """One finding after the other, at the end these devices, and those `elsewhere`, or all of this machine: each
    executes the self-test's program.

    Raises ExecutionError at once if there is no device of a name.
    """
    for device in devices:
        if device not in MAKERS:
            of(device)
    return _examine(devices or (() if elsewhere else tuple(MAKERS)), elsewhere)


def _examine(devices: Collection[str], elsewhere: Collection[Callable[[], Finding]]) -> Iterator[Finding]:
    yield arithmetic()
    yield _asked("version", "Python", platform.python_version)
    yield _asked("version", "NumPy", lambda: metadata.version("numpy"))
    yield _tinygrad()
    yield _asked("version", "clang", lambda: toolchain.local().identity.splitlines()[0])
    yield _asked("version", "LLVM", llvm.library)
    yield _asked("version", "NVRTC", nvrtc.release)
    yield _asked("version", "NVIDIA driver", _driver)
    yield _sandbox()
    yield _hashing()
    yield _cache()
    memory = psutil.virtual_memory()
    yield Finding("memory", "", State.OK, f"{memory.available / GIB:.1f} GiB free of {memory.total / GIB:.1f}")
    if deviations():
        with _default_arithmetic():
            selftest.answers(STORED)
    for device in devices:
        found = _device(device)
        yield found
        if found.state is State.OK and has_own_memory(device):
            yield _confinement(device)
    for look in elsewhere:
        yield look()


def may_serve(findings: list[Finding]) -> bool:
    """Whether programs can be executed here, and their results rechecked."""
    devices = [f for f in findings if f.what == "device" and f.state is State.OK]
    return bool(devices) and all(f.state is State.OK for f in findings if f.what == "arithmetic")


def arithmetic() -> Finding:
    """Whether NumPy, and with it the reference, computes in this thread as IEEE 754 says by default."""
    faults = deviations()
    if not faults:
        return Finding("arithmetic", "process", State.OK, "rounds to nearest even, keeps subnormal numbers")
    libraries = ", ".join(flushing_libraries())
    may = f"; code that sets this is in {libraries}" if libraries else ""
    return Finding(
        "arithmetic",
        "process",
        State.REFUSED,
        f"this process {' and '.join(faults)}, so that results cannot be rechecked in it; devices are asked below{may}",
        "Do without the library that was built with -ffast-math, or rebuild it without: loading it is enough.",
    )


def flushing_libraries() -> list[str]:
    """The libraries of this process that hold code which flushes subnormal numbers. Linux on x86 only."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    files = {line.split(maxsplit=5)[5] for line in lines if " r-xp " in line and "/" in line}
    return [file for file in sorted(files) if Path(file).is_file() and FLUSHING.search(Path(file).read_bytes())]


def _asked(what: str, name: str, ask: Callable[[], str]) -> Finding:
    """What is said, or that it is absent, if the answer is an ExecutionError."""
    try:
        return Finding(what, name, State.OK, ask())
    except ExecutionError as error:
        return Finding(what, name, State.ABSENT, str(error), error.fix)


def _device(device: str) -> Finding:
    opened = _asked("device", device, lambda: of(device).identity.splitlines()[0])
    if opened.state is not State.OK:
        return opened
    try:
        selftest.check(partial(execute, device=device))
    except ExecutionError as error:
        return Finding("device", device, State.REFUSED, str(error), error.fix)
    except Exception as error:  # a driver may fail in any way
        return Finding("device", device, State.REFUSED, f"its driver fails: {error!r}", "Use another device.")
    return replace(opened, says=f"admitted, every bit is the reference's: {opened.says}")


def _confinement(device: str) -> Finding:
    """What of this machine a sandbox gives to what drives a device."""
    build = of(device)
    assert isinstance(build, Gridded)
    if not build.command:
        return Finding("sandbox", device, State.REFUSED, NODELESS.format(device=device), NODELESS_FIX)
    reach = build.reach
    shown = [f"device files {_listed(reach.nodes)}"] if reach.nodes else []
    shown += [f"reads {_listed(reach.files)}", *(f"{name}={value}" for name, value in reach.environment)]
    return Finding("sandbox", device, State.OK, f"gives what drives it: {'; '.join(shown)}")


def _listed(paths: Collection[Path]) -> str:
    return ", ".join(map(str, paths)) or "nothing"


def _tinygrad() -> Finding:
    try:
        compilers.check_release()
    except ExecutionError as error:
        return Finding("version", "tinygrad", State.REFUSED, str(error), error.fix)
    return Finding("version", "tinygrad", State.OK, compilers.TINYGRAD)


def _driver() -> str:
    try:
        return Path("/proc/driver/nvidia/version").read_text().splitlines()[0]
    except (OSError, IndexError):
        raise ExecutionError("none", fix="Only a GPU of NVIDIA needs it.") from None


def _sandbox() -> Finding:
    try:
        bubblewrap.available()
    except ExecutionError as error:
        state = State.REFUSED if shutil.which("bwrap") else State.ABSENT
        return Finding("sandbox", "bubblewrap", state, str(error), error.fix)
    return Finding("sandbox", "bubblewrap", State.OK, "confines programs and compilers")


def _hashing() -> Finding:
    helper, reason = hashing.chosen()
    if helper is None:
        return Finding(
            "hashing", "hashlib", State.ABSENT, f"no helper: {reason}", "Nothing must be done: it is only slower."
        )
    return Finding("hashing", helper.kind.name.lower(), State.OK, f"the C helper, on {helper.threads} threads")


def _cache() -> Finding:
    try:
        folder = default_folder()
        there = next(path for path in (folder, *folder.parents) if path.exists())
        free = shutil.disk_usage(there).free / GIB
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
        return Finding("cache", "kernels", State.REFUSED, str(error), CACHE)
    if os.access(there, os.W_OK | os.X_OK):
        return Finding("cache", "kernels", State.OK, f"{folder}: {free:.1f} GiB free")
    return Finding("cache", "kernels", State.REFUSED, f"{folder} cannot be written", CACHE)


@contextmanager
def _default_arithmetic() -> Iterator[None]:
    """IEEE 754 as it is by default, in this thread and for a while, whatever a library has set."""
    libm = ctypes.CDLL("libm.so.6")
    saved, default = ctypes.create_string_buffer(64), ctypes.c_void_p(-1)  # FE_DFL_ENV
    libm.fegetenv(saved)
    libm.fesetenv(default)
    try:
        yield
    finally:
        libm.fesetenv(saved)
