"""The devices that execute programs, by tinygrad's names, what each does, and which one does where none is named."""

import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, Protocol

from numpy.typing import NDArray

from eigentensor import clang
from eigentensor.cache import Cache
from eigentensor.errors import ExecutionError
from eigentensor.program.model import Program, Result
from eigentensor.runtime.build.compilers import Build
from eigentensor.runtime.build.kernels import Compiler, Kernels, prepare
from eigentensor.runtime.cpu.table import Table
from eigentensor.runtime.gpu.gridded import Gridded, Launches
from eigentensor.runtime.interpreted import Interpreted
from eigentensor.runtime.memory.plan import parts
from eigentensor.runtime.watch import UNWATCHED, Watch
from eigentensor.system import LINUX
from eigentensor.talk import say

#: What gives the toolchain of each device, as module:function; it is imported when the device is asked for.
MAKERS = {
    "CPU": "eigentensor.runtime.cpu.toolchain:local",
    "CPU:LLVM": "eigentensor.runtime.cpu.llvm:toolchain",
    "CL": "eigentensor.runtime.gpu.opencl:toolchain",
    "CUDA": "eigentensor.runtime.gpu.cuda:toolchain",
}
#: The device for which nothing is compiled: tinygrad's name for an interpreter, here the reference.
REFERENCE = "PYTHON"
PROBE = 120  #: seconds that OpenCL may take to compile and pass the probe


@cache
def default(*, confined: bool = False) -> str:
    """The device where none is named: CPU, if there is clang; else CL, if it gives the reference's bits and, where
    programs are to be confined, can be; else PYTHON, the reference itself. Says once which one stands in for CPU."""
    if LINUX and clang.path() is not None:
        return "CPU"
    device = "CL" if _passes("CL") and (not confined or _can_be_confined("CL")) else REFERENCE
    _announce(device)
    return device


@cache
def _announce(device: str) -> None:
    how = {"CL": "OpenCL executes programs", REFERENCE: "the reference computes small programs, slowly,"}[device]
    why = "clang is not installed" if LINUX else f"the device CPU runs on Linux, not on {platform.system()}"
    say(f"{why}: {how} in its place, with the same bits")


def _passes(device: str) -> bool:
    """Whether a device computes float32 as the reference does, asked in a process of its own: drivers may end it."""
    command = [sys.executable, "-m", "eigentensor.runtime.probe", device]
    try:
        return subprocess.run(command, capture_output=True, timeout=PROBE, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def has_own_memory(device: str) -> bool:
    """Whether a device, by tinygrad's name, computes in memory that is not the host's, driven by a library."""
    return device.partition(":")[0] not in ("CPU", REFERENCE)


def _can_be_confined(device: str) -> bool:
    build = of(device)
    return isinstance(build, Gridded) and bool(build.command)


def of(device: str) -> Build[Any]:
    """What compiles for a device, by tinygrad's name.

    Raises ExecutionError if there is no such device, or if it cannot be used.
    """
    maker = MAKERS.get(device)
    if maker is None:
        raise ExecutionError(f"there is no device {device!r}", fix=f"Use one of {', '.join(MAKERS)}.")
    module, function = maker.split(":")
    made: Build[Any] = getattr(import_module(module), function)()
    return made


class Loaded(Protocol):
    """A program on a device: its kernels, the memory of its results, the tensors that stay bound."""

    compiled: int

    def bind(self, arrays: Mapping[int, NDArray[Any]]) -> None:
        """These flat arrays, by number of buffer, are read in every run. Called once."""

    def run(
        self, arrays: Mapping[int, NDArray[Any]], values: Iterable[tuple[int, ...]], watch: Watch = UNWATCHED
    ) -> None:
        """All calls in order on the bound arrays and these, once for each tuple of the variables' values.

        Between two iterations the new states become the states; without arrays for the states, those that the last run
        left are. The arrays are not written. `watch` observes calls.
        """

    def run_in(
        self,
        arrays: Mapping[int, NDArray[Any]],
        states: Mapping[int, NDArray[Any]],
        values: Iterable[tuple[int, ...]],
    ) -> None:
        """As `run`, from states in these flat arrays, which hold the new ones afterwards; nothing is left to go on
        from."""

    def read(self, result: Result) -> NDArray[Any]:
        """What the last run wrote, shaped. A later run writes over it only if that goes on from the states it left, or
        into memory that it was loaded with."""


def devices() -> dict[str, str]:
    """The devices by name; empty where programs can be executed, else the reason why they cannot."""
    return {device: _reason(device) for device in MAKERS}


def load(
    program: Program,
    device: str,
    cache: Cache,
    toolchain: Compiler | None = None,
    threads: int | None = None,
    into: Mapping[int, NDArray[Any]] = MappingProxyType({}),
) -> Loaded:
    """A valid program on a device. A processor writes results into the memory that there is for them in `into`, by
    number of buffer, again in each run; all others are new. Raises ExecutionError if it cannot be compiled or the
    device cannot be used."""
    if device == REFERENCE:
        return Interpreted(program)
    compiler = toolchain or of(device)
    kernels = compiled(program, device, cache, compiler)
    if isinstance(compiler, Gridded):
        return Launches(program, kernels, compiler)
    return Table(program, kernels, threads, into)


def compiled(program: Program, device: str, cache: Cache, toolchain: Compiler | None = None) -> Kernels:
    """The kernels of a valid program for a device, which are in the cache from now on. Raises as `load`."""
    return prepare((*program.bodies, *parts(program)), cache, toolchain or of(device))


def _reason(device: str) -> str:
    try:
        of(device)
    except ExecutionError as error:
        return f"{error} {error.fix}".strip()
    return ""
