"""How a CPU runs a program: one table of calls, which the driver goes through on some threads."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.numerics.dtypes import STORAGE
from eigentensor.program.model import Program, Result, Role
from eigentensor.runtime.analysis import Analysis
from eigentensor.runtime.device import STEP, address, driver, empty, load, memory, units
from eigentensor.runtime.kernels import Kernels
from eigentensor.runtime.memory import plan
from eigentensor.runtime.watch import UNWATCHED, Watch

#: Evaluations of instructions below which a call is not shared by threads, and a run is left to one thread.
SHARED_CALL, SHARED_RUN = 5_000_000, 200_000_000
Arrays = Mapping[int, NDArray[Any]]


class Table:
    """A program in the driver's table, with the memory of what calls write. Tensors are read where they lie."""

    def __init__(self, program: Program, kernels: Kernels, threads: int | None = None) -> None:
        self.program = program
        self.compiled = kernels.compiled
        self.threads = threads or len(os.sched_getaffinity(0))
        self.plan = plan(program, over=True)
        self.memory = memory(self.plan.size)
        self.codes = [None if code is None else load(code) for code in kernels.bodies]
        self.driver = driver(kernels.driver)
        self.shared = Counter(result.buffer for result in program.results)
        self.result_types = {buffer: program.parameter(buffer) for buffer in self.shared}
        self.written: dict[int, NDArray[Any]] = {}
        self._lay_out()

    def bind(self, arrays: Arrays) -> None:
        """Let the calls read these arrays, by number of buffer, in every run."""
        self.bound = self._point(arrays)

    def run(self, arrays: Arrays, values: Iterable[tuple[int, ...]], watch: Watch = UNWATCHED) -> None:
        """All calls on these arrays, once for each tuple of the variables' values; then new states are the states."""
        held = self._point({**arrays, **self._results()})
        threads = self.threads if self.evaluations > SHARED_RUN else 1
        for iteration, of in enumerate(values):
            if iteration:
                held |= self._point(self._fed_back())
            self.values[:] = [of[v] for v in self.bound_variables]
            begun = 0
            for call, number in watch.pauses(iteration):
                self.driver.run(self.table[begun : self.steps[call]], threads)
                begun = self.steps[call]
                watch.observe(number, self._written(call))
            self.driver.run(self.table[begun:], threads)

    def read(self, result: Result) -> NDArray[Any]:
        """What the last run wrote, for the caller to keep."""
        array = self._result(result)
        return array.copy() if self.shared[result.buffer] > 1 else array

    def _results(self) -> Arrays:
        """Memory that the next run writes its results to."""
        self.written = {}
        self.written = {b: empty(STORAGE[dtype], n) for b, (dtype, n) in self.result_types.items()}
        return self.written

    def _lay_out(self) -> None:
        program = self.program
        calls = [(j, call) for j, call in enumerate(program.calls) if self.codes[call.body] is not None]
        arguments = [[len(program.buffers) + j, *call.arguments] for j, call in calls]
        #: How many steps of the table there are up to each call, it included.
        self.steps = list(accumulate(self.codes[call.body] is not None for call in program.calls))
        self.pointers = np.zeros(sum(map(len, arguments)), np.uint64)
        self.values = np.zeros(sum(len(call.variables) for _, call in calls), np.int64)
        self.bound_variables = [v for _, call in calls for v in call.variables]
        buffers = np.array([b for of in arguments for b in of], np.int64)
        order = np.argsort(buffers, kind="stable")
        pointed = [*range(len(program.buffers)), *self.shared]
        first, last = (np.searchsorted(buffers[order], pointed, side) for side in ("left", "right"))
        self.places = {buffer: order[i:j] for buffer, i, j in zip(pointed, first, last, strict=True)}
        written = buffers >= len(program.buffers)
        offsets = np.array(self.plan.offsets, np.uint64)
        self.pointers[written] = np.uint64(address(self.memory)) + offsets[buffers[written] - len(program.buffers)]
        counts = [0 if code is None else units(code) for code in self.codes]
        self.table = np.zeros(len(calls), STEP)
        pointer, value = address(self.pointers), address(self.values)
        for step, (_, call), own in zip(self.table, calls, arguments, strict=True):
            code = self.codes[call.body]
            assert code is not None  # the others are not in the table
            count = counts[call.body]
            shared = self.work[call.body] > SHARED_CALL
            grain = max(1, count // (4 * self.threads)) if shared else count
            step["kernel"], step["buffers"], step["variables"] = code.address, pointer, value
            step["units"], step["grain"] = count, grain
            pointer += 8 * len(own)
            value += 8 * len(call.variables)

    @cached_property
    def work(self) -> list[int]:
        """Evaluations of instructions by a call of each body."""
        return [b.parameters[0].elements * sum(Analysis(b).steps) for b in self.program.bodies]

    @cached_property
    def evaluations(self) -> int:
        return sum(self.work[call.body] for call in self.program.calls)

    def _point(self, arrays: Arrays) -> dict[int, NDArray[Any]]:
        """Let the calls read these arrays, which must be held as long as they do."""
        aligned = {number: a if a.flags.aligned else a.copy() for number, a in arrays.items()}
        for number, array in aligned.items():
            self.pointers[self.places[number]] = address(array)
        return aligned

    @cached_property
    def states(self) -> dict[int, NDArray[Any]]:
        """Memory for states that are fed back: those that are given are not written."""
        buffers = enumerate(self.program.buffers)
        return {i: np.empty(b.elements, STORAGE[b.dtype]) for i, b in buffers if b.role is Role.STATE}

    def _fed_back(self) -> Arrays:
        """The new states, where the next iteration cannot overwrite them."""
        for number, array in self.states.items():
            array[:] = self._result(self.program.new_states[self.program.buffers[number].name]).reshape(-1)
        return self.states

    def _result(self, result: Result) -> NDArray[Any]:
        return self.written[result.buffer].reshape(result.shape)

    def _written(self, call: int) -> NDArray[Any]:
        """Where the result of a call lies, flat."""
        buffer = len(self.program.buffers) + call
        if buffer in self.written:
            return self.written[buffer]
        dtype, elements = self.program.parameter(buffer)
        start = self.plan.offsets[call]
        return self.memory[start : start + elements * dtype.size].view(STORAGE[dtype])
