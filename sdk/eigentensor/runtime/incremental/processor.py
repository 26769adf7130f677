"""A program's calls on a processor, on arrays that stay where they are: whole ones, and parts of one at a time."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigentensor.cache import Cache
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.model import Body, Program
from eigentensor.program.restriction import Restricted
from eigentensor.runtime.build.compilers import Build
from eigentensor.runtime.build.kernels import prepare
from eigentensor.runtime.cpu.device import STEP, Code, Driver, address, driver, empty, load, units
from eigentensor.runtime.cpu.table import SHARED_CALL, SHARED_RUN, evaluations

Values = NDArray[Any]

#: Parts that are held ready.
PARTS = 4096


class Processor:
    """Computes calls of a program on its flat buffers, those of the records and then the results of calls.

    What is computed alone is timed.
    """

    def __init__(
        self, program: Program, buffers: Sequence[Values], compiler: Build[Any], cache: Cache, threads: int
    ) -> None:
        self.program, self.compiler, self.threads = program, compiler, threads
        self.cache = _Unpruned(cache.folder)
        #: What one thread does is not longer because others work beside it.
        self.clock = time.thread_time if threads == 1 else time.perf_counter
        self.codes: dict[Body, _Code] = {}
        self.least: dict[Body, float] = {}
        self.ready: dict[tuple[Body, tuple[int, ...]], _Table] = {}
        self.room = empty(np.uint8, 0)
        self._compile(program.bodies, cache)
        first, run = len(program.buffers), list[_Call]()
        self.rows: list[int | None] = []  #: of each call in the table; None if it writes no element
        for number, (body, arguments, variables) in enumerate(program.calls):
            code = self.codes.get(program.bodies[body])
            self.rows.append(None if code is None else len(run))
            if code is not None:
                run.append(_Call(code, tuple(buffers[b] for b in (first + number, *arguments)), variables))
        self.table = _Table(run, self.driver, threads)

    def seconds(self, body: Body) -> float | None:
        """The least time that a call of a body took alone; None if none was timed."""
        return self.least.get(body)

    def calls(self, numbers: Sequence[int], values: Sequence[int]) -> None:
        """Runs calls by number, in order, with the values of all of the program's variables."""
        rows = [row for number in numbers if (row := self.rows[number]) is not None]
        self.table.run(values, rows, SHARED_RUN)

    def alone(self, numbers: Iterable[int], values: Sequence[int]) -> None:
        """The same one by one: so that they are timed."""
        for number in numbers:
            call = self.program.calls[number]
            self._time(self.program.bodies[call.body], partial(self.calls, [number], values))

    def part(self, restricted: Restricted, inputs: Sequence[Values], values: tuple[int, ...]) -> Values:
        """The result of a restricted body on these inputs, timed; the next part or copy overwrites the array."""
        (body,), (result,) = restricted.program.bodies, restricted.program.results
        key = body, tuple(map(id, inputs))
        if (part := self.ready.get(key)) is None:
            if len(self.ready) >= PARTS:
                self.ready.clear()
            if body not in self.codes:
                self._compile([body], self.cache)
            output = self._room(STORAGE[body.parameters[0].dtype], result.shape)
            call = _Call(self.codes[body], (output, *inputs), tuple(range(len(values))))
            part = self.ready[key] = _Table([call], self.driver, self.threads)
        self._time(body, partial(part.run, values, [0], SHARED_CALL))
        return part.calls[0].arrays[0]

    def copy(self, array: Values) -> Values:
        """An array in memory that the next part or copy overwrites."""
        copy = self._room(array.dtype, array.shape)
        copy[...] = array
        return copy

    def _room(self, dtype: Any, shape: tuple[int, ...]) -> Values:
        """Always the same memory, as long as it is enough: what is new has to be mapped page by page."""
        size = prod(shape) * np.dtype(dtype).itemsize
        if self.room.size < size:
            self.room = empty(np.uint8, size)
        room: Values = self.room[:size].view(dtype).reshape(shape)
        return room

    def _time(self, body: Body, run: Callable[[], None]) -> None:
        start = self.clock()
        run()
        self.least[body] = min(self.clock() - start, self.least.get(body, inf))

    def _compile(self, bodies: Iterable[Body], cache: Cache) -> None:
        kernels = prepare(bodies, cache, self.compiler)
        self.driver = driver(kernels.driver)
        for body, code in kernels.bodies.items():
            if code is not None:
                kernel = load(code)
                self.codes[body] = _Code(kernel, units(kernel), evaluations(body))


class _Unpruned(Cache):
    """A cache that does not look through its folder each time that a kernel is new."""

    def prune(self, most: int = 0) -> None:
        pass


class _Code(NamedTuple):
    """The code of a body, how many units a call of it has, and how many evaluations of instructions."""

    kernel: Code
    units: int
    evaluations: int


class _Call(NamedTuple):
    """A call on arrays, the first of which it writes, with these of the values of variables."""

    code: _Code
    arrays: tuple[Values, ...]
    variables: tuple[int, ...]


class _Table:
    """A table for the driver."""

    def __init__(self, calls: Sequence[_Call], driver: Driver, threads: int) -> None:
        self.calls, self.driver, self.threads = calls, driver, threads
        self.pointers = np.array([address(array) for call in calls for array in call.arrays], np.uint64)
        self.variables = [v for call in calls for v in call.variables]
        self.values, self.table = np.zeros(len(self.variables), np.int64), np.zeros(len(calls), STEP)
        pointer, value = address(self.pointers), address(self.values)
        for row, (code, arrays, variables) in zip(self.table, calls, strict=True):
            row["kernel"], row["buffers"], row["variables"] = code.kernel.address, pointer, value
            row["units"] = code.units
            row["grain"] = max(1, code.units // (4 * threads)) if code.evaluations > SHARED_CALL else code.units
            pointer += 8 * len(arrays)
            value += 8 * len(variables)

    def run(self, values: Sequence[int], rows: Sequence[int], shared: int) -> None:
        """Some of the calls, in order; with helpers if they evaluate more instructions than `shared`."""
        self.values[:] = [values[v] for v in self.variables]
        work = sum(self.calls[row].code.evaluations for row in rows)
        self.driver.run(self.table[rows], self.threads if work > shared else 1)
