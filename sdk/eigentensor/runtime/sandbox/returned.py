"""What a child hands back: bytes of a number that is known before the program runs, whatever the program is.

They hold the results of the executed calls that are kept, in order, then the tensor roots of all executed calls, then
the program's results. Executed calls are numbered iteration · calls + call.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigentensor import merkle
from eigentensor.errors import SandboxError
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.binding import Results
from eigentensor.program.model import Kind, Parameter, Program

ROOT = 32


class Observed(NamedTuple):
    """Results, the flat results of executed calls that were kept, and the tensor roots of all if they were asked for.

    Sizes, and that bools are bools, are as they must be; whether anything is true cannot be seen.
    """

    results: Results
    kept: Mapping[int, NDArray[Any]]
    roots: tuple[bytes, ...]


@dataclass(frozen=True)
class Wanted:
    """What is wanted of an execution: `keep` are numbers of executed calls, ascending."""

    program: Program
    repeat: int
    keep: tuple[int, ...] = ()
    roots: bool = False

    @property
    def size(self) -> int:
        """Bytes of the file."""
        kept = (self._written(number) for number in self.keep)
        results = (self.program.parameter(r.buffer) for r in self.program.results)
        return sum(elements * dtype.size for dtype, elements in (*kept, *results)) + ROOT * self._roots

    def writer(self, file: BinaryIO) -> "Writer":
        """What fills the file while the program runs."""
        return Writer(self, file)

    def read(self, file: BinaryIO) -> Observed:
        """What a child wrote, who may be anybody. Raises SandboxError."""
        if (size := os.fstat(file.fileno()).st_size) != self.size:
            raise SandboxError(f"the program left {size:,} bytes of results instead of {self.size:,}")
        return self._taken(lambda count: np.fromfile(file, np.uint8, count))

    def unpack(self, data: bytearray) -> Observed:
        """The same of as many bytes as `size` says: the arrays are views of them. Raises SandboxError."""
        array, at = np.frombuffer(data, np.uint8), 0

        def take(count: int) -> NDArray[Any]:
            nonlocal at
            at += count
            return array[at - count : at]

        return self._taken(take)

    def _taken(self, take: Callable[[int], NDArray[Any]]) -> Observed:
        """The parts in their order; `take` has the next bytes."""
        kept = {number: tensor(take, self._written(number), f"call {number}") for number in self.keep}
        roots = take(ROOT * self._roots).tobytes()
        kinds: dict[Kind, dict[str, NDArray[Any]]] = {Kind.OUTPUT: {}, Kind.STATE: {}}
        for r in self.program.results:
            kinds[r.kind][r.name] = tensor(take, self.program.parameter(r.buffer), f"{r.name!r}").reshape(r.shape)
        each = tuple(roots[i : i + ROOT] for i in range(0, len(roots), ROOT))
        return Observed(Results(kinds[Kind.OUTPUT], kinds[Kind.STATE]), kept, each)

    @property
    def _roots(self) -> int:
        return len(self.program.calls) * self.repeat if self.roots else 0

    def _written(self, number: int) -> Parameter:
        return self.program.parameter(len(self.program.buffers) + number % len(self.program.calls))


class Writer:
    """Writes the file while the program runs: no result of a call is held until the next one is there."""

    def __init__(self, wanted: Wanted, file: BinaryIO) -> None:
        self.wanted = wanted
        self.file = file
        self.keep = frozenset(wanted.keep)
        self.roots = bytearray()

    @property
    def only(self) -> frozenset[int] | None:
        """The executed calls to observe; None: all."""
        return None if self.wanted.roots else self.keep

    def observe(self, number: int, result: NDArray[Any]) -> None:
        """Takes the result of an executed call: its root if roots are wanted, its bytes if it is kept."""
        if self.wanted.roots:
            self.roots += merkle.array_root(self.wanted._written(number).dtype, result)
        if number in self.keep:
            self._write(result)

    def finish(self, results: Results) -> None:
        """The rest of the file: all roots, then the results of the program."""
        self._write(np.frombuffer(self.roots, np.uint8))
        for r in self.wanted.program.results:
            self._write((results.outputs if r.kind is Kind.OUTPUT else results.states)[r.name])

    def _write(self, array: NDArray[Any]) -> None:
        data, written = array.reshape(-1).view("u1").data, 0
        while written < len(data):
            written += self.file.write(data[written:])


def tensor(take: Callable[[int], NDArray[Any]], parameter: Parameter, what: str) -> NDArray[Any]:
    """The next tensor, flat, of the bytes that `take` gives. Raises SandboxError for bytes that its dtype has not."""
    dtype, elements = parameter
    data = take(elements * dtype.size)
    if dtype is DType.BOOL and data.size and data.max() > 1:
        raise SandboxError(f"the result {what} is of bools and holds other bytes")
    array = data.view(STORAGE[dtype])
    return array if array.flags.aligned else array.copy()
