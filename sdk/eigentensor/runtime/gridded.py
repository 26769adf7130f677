"""What compiles for devices with work items, and how these run a program: launches of kernels on its own memory."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from eigentensor.errors import ExecutionError
from eigentensor.numerics.dtypes import STORAGE
from eigentensor.program.model import Body, Program, Result, Role
from eigentensor.runtime.grid import Grid, Many, candidate_grids, choose_grid, groups
from eigentensor.runtime.joining import join, simple_joins
from eigentensor.runtime.kernels import Kernels
from eigentensor.runtime.memory import plan
from eigentensor.runtime.simt import write
from eigentensor.runtime.toolchain import Build, with_headers
from eigentensor.runtime.tuning.grids import grid_features
from eigentensor.runtime.watch import UNWATCHED, Watch


@dataclass(frozen=True)
class Gridded(Build[Grid]):
    """A compiler for a device with work items, and the device; `header` says what its language calls things.

    `build` compiles a text; without it this names and finds what is compiled. `command` is a process that does the same
    from standard input to output: where there is one, strangers' programs can be confined; they see what files the
    driver `needs`.
    """

    target: Many
    header: str
    build: Callable[[str], bytes] | None
    queue: Callable[[], "Queue"]
    command: tuple[str, ...] = ()
    needs: tuple[Path, ...] = ()

    @property
    def can_compile(self) -> bool:
        return self.build is not None

    @property
    def driver(self) -> str:
        return ""

    def heuristic(self, body: Body) -> Grid:
        return choose_grid(simple(body), self.target)

    def candidates(self, body: Body) -> list[Grid]:
        return candidate_grids(simple(body), self.target)

    def parse(self, text: str) -> Grid:
        return Grid.parse(text)

    def features(self, body: Body, schedules: Sequence[Grid]) -> NDArray[np.float64]:
        return grid_features(simple(body), schedules)

    def source(self, body: Body) -> str:
        return with_headers(write(simple(body), self.schedule(body)), (self.header, "semantics.h"))

    def compile(self, text: str) -> bytes:
        if self.build is None:
            raise ExecutionError(f"nothing is compiled for {self.device} here")
        return self.build(text)

    def to_json(self) -> str:
        return json.dumps({"identity": self.identity, "target": asdict(self.target), "schedules": self.schedules})

    def found(self, text: str) -> "Gridded":
        """What finds the code of the one that `to_json` describes, and compiles nothing."""
        fields = json.loads(text)
        return replace(self, **fields | {"target": Many(**fields["target"]), "build": None})


@lru_cache(maxsize=4096)
def simple(body: Body) -> Body:
    """The body with one axis for those that are one in memory: grids are over its axes."""
    try:
        return join(body, simple_joins(body))
    except ValueError:
        return body


class Launch(NamedTuple):
    """A kernel on its buffers, with so many groups of so many items."""

    kernel: Any
    buffers: tuple[Any, ...]
    numbers: tuple[int, ...]
    groups: int
    items: int


class Queue(Protocol):
    """What is done on a device, in this order: tinygrad's device, allocator and program behind one face.

    Buffers are whatever the device calls so; they are given back when nothing refers to them any more.
    """

    @property
    def alignment(self) -> int:
        """Where parts of a buffer may begin, in bytes."""

    def allocate(self, size: int) -> Any: ...

    def part(self, buffer: Any, start: int, size: int) -> Any:
        """Some bytes of a buffer, as a buffer."""

    def write(self, buffer: Any, array: NDArray[Any]) -> None:
        """Copies to the device. The array is not used after the next `read` or `wait`."""

    def read(self, buffer: Any, array: NDArray[Any]) -> None:
        """Copies to the host, when all before is done."""

    def copy(self, target: Any, source: Any, size: int) -> None: ...

    def kernel(self, code: bytes) -> Any: ...

    def launcher(self, launches: Sequence[Launch]) -> Callable[[], None]:
        """What launches all of them, in order."""

    def wait(self) -> None: ...


class Launches:
    """A program on a device with work items: buffers for all tensors, and one list of launches."""

    def __init__(self, program: Program, kernels: Kernels, toolchain: Gridded) -> None:
        self.program, self.queue = program, toolchain.queue()
        queue = self.queue
        self.compiled = kernels.compiled
        self.plan = plan(program, max(queue.alignment, 64))
        self.arena = queue.allocate(self.plan.size)
        first = len(program.buffers)
        self.buffers = [queue.allocate(self._bytes(number)) for number in range(first)]
        self.buffers += [
            queue.part(self.arena, start, self._bytes(first + j)) for j, start in enumerate(self.plan.offsets)
        ]
        self.variables = [v for call in program.calls for v in call.variables]
        self.values = queue.allocate(8 * len(self.variables))
        codes = [None if code is None else queue.kernel(code) for code in kernels.bodies]
        grids = [toolchain.schedule(body) for body in program.bodies]
        self.launches: list[Launch | None] = []
        at = 0
        for j, call in enumerate(program.calls):
            buffers = tuple(self.buffers[b] for b in (first + j, *call.arguments))
            numbers: tuple[int, ...] = ()
            if call.variables:
                buffers, numbers, at = (*buffers, self.values), (at,), at + len(call.variables)
            launch: Launch | None = None
            if codes[call.body] is not None:
                body, grid = program.bodies[call.body], grids[call.body]
                count = int(np.prod(groups(simple(body), grid), dtype=object))
                launch = Launch(codes[call.body], buffers, numbers, count, grid.items)
            self.launches.append(launch)
        self.launchers: dict[tuple[int, int], Callable[[], None]] = {}
        self._launcher(0, len(self.launches))  # that of every run that nobody observes

    def bind(self, arrays: Mapping[int, NDArray[Any]]) -> None:
        """Copies these arrays, by number of buffer, to the device: every run reads them there."""
        for number, array in arrays.items():
            if array.size:
                self.queue.write(self.buffers[number], array)
        self.queue.wait()

    def run(
        self, arrays: Mapping[int, NDArray[Any]], values: Iterable[tuple[int, ...]], watch: Watch = UNWATCHED
    ) -> None:
        """All calls on these arrays, once for each tuple of the variables' values; then new states are the states."""
        for number, array in arrays.items():
            if array.size:
                self.queue.write(self.buffers[number], array)
        for iteration, of in enumerate(values):
            if iteration:
                self._feed_back()
            if self.variables:
                self.queue.write(self.values, np.array([of[v] for v in self.variables], np.int64))
            begun = 0
            for call, number in watch.pauses(iteration):
                self._launcher(begun, call + 1)()
                begun = call + 1
                watch.observe(number, self._read(len(self.program.buffers) + call))
            self._launcher(begun, len(self.launches))()
        self.queue.wait()

    def read(self, result: Result) -> NDArray[Any]:
        """What the last run wrote, as a new array."""
        return self._read(result.buffer).reshape(result.shape)

    def _launcher(self, start: int, stop: int) -> Callable[[], None]:
        """What launches the calls from one to another."""
        if (found := self.launchers.get((start, stop))) is None:
            found = self.queue.launcher([launch for launch in self.launches[start:stop] if launch])
            self.launchers[start, stop] = found
        return found

    def _read(self, number: int) -> NDArray[Any]:
        dtype, elements = self.program.parameter(number)
        array = np.empty(elements, STORAGE[dtype])
        if array.size:
            self.queue.read(self.buffers[number], array)
        return array

    def _feed_back(self) -> None:
        for number, buffer in enumerate(self.program.buffers):
            if buffer.role is Role.STATE and buffer.elements:
                new = self.buffers[self.program.new_states[buffer.name].buffer]
                self.queue.copy(self.buffers[number], new, self._bytes(number))

    def _bytes(self, number: int) -> int:
        dtype, elements = self.program.parameter(number)
        return max(1, dtype.size * elements)
