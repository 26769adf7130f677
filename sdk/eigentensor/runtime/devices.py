"""The devices that execute programs, by tinygrad's names, and what each does."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from eigentensor.cache import Cache
from eigentensor.errors import ExecutionError
from eigentensor.program.model import Program, Result
from eigentensor.runtime import toolchain as toolchains
from eigentensor.runtime.gridded import Gridded, Launches
from eigentensor.runtime.kernels import Compiler, prepare
from eigentensor.runtime.memory import parts
from eigentensor.runtime.table import Table
from eigentensor.runtime.watch import UNWATCHED, Watch


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

    def read(self, result: Result) -> NDArray[Any]:
        """What the last run wrote, shaped. A later run writes over it only if that goes on from the states it left."""


def devices() -> dict[str, str]:
    """The devices by name; empty where programs can be executed, else the reason why they cannot."""
    return {device: _reason(device) for device in toolchains.MAKERS}


def load(
    program: Program, device: str, cache: Cache, toolchain: Compiler | None = None, threads: int | None = None
) -> Loaded:
    """A valid program on a device. Raises ExecutionError if it cannot be compiled or the device cannot be used."""
    compiler = toolchain or toolchains.of(device)
    kernels = prepare((*program.bodies, *parts(program)), cache, compiler)
    if isinstance(compiler, Gridded):
        return Launches(program, kernels, compiler)
    return Table(program, kernels, threads)


def _reason(device: str) -> str:
    try:
        toolchains.of(device)
    except ExecutionError as error:
        return f"{error} {error.fix}".strip()
    return ""
