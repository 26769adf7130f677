"""A program's calls on a processor, on arrays that stay where they are: whole ones, and parts of one at a time."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.cache import Cache
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.model import Body, Program
from eigentensor.program.restriction import Restricted
from eigentensor.runtime.build.compilers import Build
from eigentensor.runtime.cpu.calls import BoundCall, CallTable, Codes
from eigentensor.runtime.cpu.device import empty
from eigentensor.runtime.cpu.table import SHARED_CALL, SHARED_RUN

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
        self.program, self.threads = program, threads
        self.codes = Codes(compiler, cache)
        self.codes.compile(program.bodies, cache)
        #: What one thread does is not longer because others work beside it.
        self.clock = time.thread_time if threads == 1 else time.perf_counter
        self.least: dict[Body, float] = {}
        self.ready: dict[tuple[Body, tuple[int, ...]], CallTable] = {}
        self.room = empty(np.uint8, 0)
        first, run = len(program.buffers), list[BoundCall]()
        self.rows: list[int | None] = []  #: of each call in the table; None if it writes no element
        for number, (body, arguments, variables) in enumerate(program.calls):
            code = self.codes.bodies.get(program.bodies[body])
            self.rows.append(None if code is None else len(run))
            if code is not None:
                run.append(BoundCall(code, tuple(buffers[b] for b in (first + number, *arguments)), variables))
        self.table = CallTable(run, self.codes.driver, threads)

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
            if body not in self.codes.bodies:
                self.codes.compile([body])
            output = self._room(STORAGE[body.parameters[0].dtype], result.shape)
            call = BoundCall(self.codes.bodies[body], (output, *inputs), tuple(range(len(values))))
            part = self.ready[key] = CallTable([call], self.codes.driver, self.threads)
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
