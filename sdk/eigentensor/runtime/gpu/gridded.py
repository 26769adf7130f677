"""What compiles for devices with work items, and how these run a program: launches of kernels on its own memory."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from eigentensor.errors import ExecutionError
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.model import Body, Program, Result, Role
from eigentensor.runtime.bodies.quads import with_quads
from eigentensor.runtime.bodies.rewriting import join, simple_joins
from eigentensor.runtime.build.compilers import SEMANTICS, Build, with_headers
from eigentensor.runtime.build.kernels import Kernels
from eigentensor.runtime.gpu.grid import Grid, Many, candidate_grids, choose_grid, grid_features, groups
from eigentensor.runtime.gpu.simt import write
from eigentensor.runtime.memory.plan import memories, next_turn, plan
from eigentensor.runtime.reach import NOTHING, Reach
from eigentensor.runtime.watch import UNWATCHED, Watch

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Gridded(Build[Grid]):
    """A compiler for a device with work items, and the device; `header` says what its language calls things.

    `build` compiles a text; without it this names and finds what is compiled. `command` is a process that does the same
    from standard input to output, and sees what `compiling` says: where there is one, strangers' programs can be
    confined. What drives the device sees its `reach`; `reach` and `compiling` decide no code.
    """

    target: Many
    header: str
    build: Callable[[str], bytes] | None
    queue: Callable[[], "Queue"]
    command: tuple[str, ...] = ()
    compiling: Reach = NOTHING
    reach: Reach = NOTHING

    def decides(self) -> tuple[object, ...]:
        return *super().decides(), self.header

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
        return with_headers(write(simple(body), self.schedule(body)), (HERE / self.header, SEMANTICS, HERE / "fours.h"))

    def compile(self, text: str) -> bytes:
        if self.build is None:
            raise ExecutionError(f"nothing is compiled for {self.device} here")
        return self.build(text)

    def to_json(self) -> str:
        """A description for the child process, which `from_json` reads."""
        return json.dumps({"identity": self.identity, "target": asdict(self.target), "schedules": self.schedules})

    def from_json(self, text: str) -> "Gridded":
        """What finds the code of the one that `to_json` describes, and compiles nothing."""
        fields = json.loads(text)
        return replace(self, **fields | {"target": Many(**fields["target"]), "build": None})


@lru_cache(maxsize=4096)
def simple(body: Body) -> Body:
    """The body with one axis for those that are one in memory: grids are over its axes. Sums of four products of bytes
    are one instruction."""
    with suppress(ValueError):
        body = join(body, simple_joins(body))
    return with_quads(body)


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

    def allocate(self, size: int) -> Any:
        """So many bytes of device memory, zeros. Raises LimitError if there are no more. They are zeros again before
        they are given back, so that nothing of a program is left where another may read."""

    def part(self, buffer: Any, start: int, size: int) -> Any:
        """Some bytes of a buffer, as a buffer."""

    def write(self, buffer: Any, array: NDArray[Any]) -> None:
        """Copies to the device. The array is not used after the next `read` or `wait`."""

    def read(self, buffer: Any, array: NDArray[Any]) -> None:
        """Copies to the host, when all before is done."""

    def copy(self, target: Any, source: Any, size: int) -> None:
        """Copies bytes from one buffer to another, both on the device."""

    def kernel(self, code: bytes) -> Any:
        """The kernel of object code that was built for this device, ready to be launched."""

    def launcher(self, launches: Sequence[Launch]) -> Callable[[], None]:
        """What launches all of them, in order."""

    def wait(self) -> None:
        """Returns when everything before is done."""


class Launches:
    """A program on a device with work items: buffers for all tensors, and a list of launches for each turn."""

    def __init__(self, program: Program, kernels: Kernels, toolchain: Gridded) -> None:
        self.program, self.queue = program, toolchain.queue()
        queue, first = self.queue, len(program.buffers)
        self.compiled = kernels.compiled
        self.plan = plan(program, max(queue.alignment, 64))
        self.arena = queue.allocate(self.plan.size)
        own = {r.buffer for r in program.results}
        self.buffers = {number: queue.allocate(self._bytes(number)) for number in (*range(first), *own)}
        for j, (start, result) in enumerate(zip(self.plan.offsets, self.plan.own, strict=True)):
            if result is None:
                self.buffers[first + j] = queue.part(self.arena, start, self._bytes(first + j))
        self.states = [i for i, b in enumerate(program.buffers) if b.role is Role.STATE]
        for number in self.states:  # what was given there is not read any more when a second memory is needed
            new = program.new_states[program.buffers[number].name].buffer
            self.buffers[first + len(program.calls) + new] = self.buffers[number]
        self.memories = [memories(program, self.plan, turn) for turn in range(3)]
        self.turn = self.last = 0  #: of the next iteration, and of the one before
        self.variables = [v for call in program.calls for v in call.variables]
        self.values = queue.allocate(8 * len(self.variables))
        self.codes = {body: None if code is None else queue.kernel(code) for body, code in kernels.bodies.items()}
        self.toolchain = toolchain
        self.launchers: dict[tuple[int, int, int], Callable[[], None]] = {}
        self._launcher(0, 0, len(program.calls))  # that of every run that nobody observes

    def bind(self, arrays: Mapping[int, NDArray[Any]]) -> None:
        """Copies these arrays, by number of buffer, to the device: every run reads them there."""
        self._write(arrays)
        self.queue.wait()

    def run(
        self, arrays: Mapping[int, NDArray[Any]], values: Iterable[tuple[int, ...]], watch: Watch = UNWATCHED
    ) -> None:
        """All calls on these arrays, once for each tuple of the variables' values; then new states are the states.

        Without arrays for the states, they are those that the last run left.
        """
        if not self.states or self.states[0] in arrays:
            self.turn = 0
        self._write(arrays)
        for iteration, of in enumerate(values):
            if self.variables:
                self.queue.write(self.values, np.array([of[v] for v in self.variables], np.int64))
            self.last, begun = self.turn, 0
            for call, number in watch.pauses(iteration):
                self._launcher(self.turn, begun, call + 1)()
                begun = call + 1
                watch.observe(number, self._read(len(self.program.buffers) + call))
            self._launcher(self.turn, begun, len(self.program.calls))()
            self.turn = next_turn(self.plan, self.turn)
        self.queue.wait()

    def run_in(
        self,
        arrays: Mapping[int, NDArray[Any]],
        states: Mapping[int, NDArray[Any]],
        values: Iterable[tuple[int, ...]],
    ) -> None:
        """As `run`, from states in these arrays, into which the new ones are copied."""
        self.run({**arrays, **states}, values)
        for number, array in states.items():
            array[:] = self._read(self.program.new_states[self.program.buffers[number].name].buffer)

    def read(self, result: Result) -> NDArray[Any]:
        """What the last run wrote, as a new array."""
        return self._read(result.buffer).reshape(result.shape)

    @cached_property
    def launches(self) -> list[list[Launch | None]]:
        """Those of all calls, in each turn; None where nothing is to be computed."""
        return [[self._launch(turn, j) for j in range(len(self.program.calls))] for turn in range(len(self.memories))]

    def _launch(self, turn: int, number: int) -> Launch | None:
        call, body = self.program.calls[number], self.plan.body(self.program, number, turn)
        code = self.codes[body]
        if code is None:
            return None
        where = self.memories[turn]
        of = (len(self.program.buffers) + number, *call.arguments)
        buffers, numbers = [self.buffers[where[b]] for b in of], list[int]()
        if call.variables:
            buffers.append(self.values)
            numbers.append(self.first_values[number])
        grid = self.toolchain.schedule(body)
        count = int(np.prod(groups(simple(body), grid), dtype=object))
        return Launch(code, tuple(buffers), tuple(numbers), count, grid.items)

    @cached_property
    def first_values(self) -> list[int]:
        """Where the values of each call's variables begin."""
        return [0, *accumulate(len(call.variables) for call in self.program.calls)]

    def _launcher(self, turn: int, start: int, stop: int) -> Callable[[], None]:
        """What launches the calls from one to another."""
        if (launcher := self.launchers.get((turn, start, stop))) is None:
            launcher = self.queue.launcher([launch for launch in self.launches[turn][start:stop] if launch])
            self.launchers[turn, start, stop] = launcher
        return launcher

    def _write(self, arrays: Mapping[int, NDArray[Any]]) -> None:
        for number, array in arrays.items():
            if array.size:
                self.queue.write(self.buffers[number], array)

    def _read(self, number: int) -> NDArray[Any]:
        dtype, elements = self.program.parameter(number)
        array = np.empty(elements, STORAGE[dtype])
        if array.size:
            self.queue.read(self.buffers[self.memories[self.last][number]], array)
        return array

    def _bytes(self, number: int) -> int:
        dtype, elements = self.program.parameter(number)
        return max(1, dtype.size * elements)
