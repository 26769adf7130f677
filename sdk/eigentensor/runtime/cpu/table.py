"""How a CPU runs a program: tables of calls, which the driver goes through on some threads."""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.numerics.storage import STORAGE
from eigentensor.program.model import Body, Program, Result, Role
from eigentensor.runtime.bodies.analysis import Analysis
from eigentensor.runtime.build.kernels import Kernels
from eigentensor.runtime.cpu.device import STEP, address, driver, empty, load, memory, units
from eigentensor.runtime.memory.plan import memories, next_turn, plan
from eigentensor.runtime.watch import UNWATCHED, Watch
from eigentensor.system import processors

#: Evaluations of instructions below which a call is not shared by threads. A run is left to one thread if those of the
#: calls that threads could share are below the other: a helper that slept comes after 50 µs, and is worth waking for
#: work of three times as long by the quickest kernels, whose thread evaluates 330 a nanosecond.
SHARED_CALL, SHARED_RUN = 5_000_000, 50_000_000
Arrays = Mapping[int, NDArray[Any]]


class Table:
    """A program in the driver's tables, with the memory of what calls write. Tensors are read where they lie.

    There is a table for each turn of `memory.memories`: the kernels differ, or the memory of states.
    """

    def __init__(
        self,
        program: Program,
        kernels: Kernels,
        threads: int | None = None,
        into: Arrays = MappingProxyType({}),
    ) -> None:
        """`into` is memory for results, by number of buffer: of others it is new in each run, or nobody holds it."""
        self.program, self.into = program, into
        self.compiled = kernels.compiled
        self.threads = threads or processors()
        self.plan = plan(program, over=True)
        self.memory = memory(self.plan.size)
        self.codes = {body: None if code is None else load(code) for body, code in kernels.bodies.items()}
        self.driver = driver(kernels.driver)
        self.shared = Counter(result.buffer for result in program.results)
        self.states = [i for i, b in enumerate(program.buffers) if b.role is Role.STATE]
        turns = 3 if self.plan.swapped else 2 if self.plan.carried else 1
        self.memories = [memories(program, self.plan, turn) for turn in range(turns)]
        self.no_states = self.shared.keys() - self.plan.carried - self.plan.swapped
        self.turn = self.last = 0  #: of the next iteration, and of the one before
        self.results: dict[int, NDArray[Any]] = {}  #: memory of the program's results, by number
        self.made: dict[int, NDArray[Any]] = {}  #: of that what was made here
        self._lay_out()

    def bind(self, arrays: Arrays) -> None:
        """Let the calls read these arrays, by number of buffer, in every run."""
        self.bound = self._point(arrays)

    def run(self, arrays: Arrays, values: Iterable[tuple[int, ...]], watch: Watch = UNWATCHED) -> None:
        """All calls on these arrays, once for each tuple of the variables' values; then new states are the states.

        Without arrays for the states, they are those that the last run left.
        """
        if not self.states or self.states[0] in arrays:
            self.turn, self.results = 0, {}
        self.results |= self._empty(self.no_states if self.turn else self.shared)
        held = self._point(arrays)
        for iteration, of in enumerate(values):
            if self.turn == 1:
                self.results |= self._empty(self.second.keys() - self.results.keys())
            table = self.tables[self.turn]
            threads = self.threads if self.shareable[self.turn] > SHARED_RUN else 1
            if self.bound_variables:
                self.values[:] = [of[v] for v in self.bound_variables]
            self.last, begun = self.turn, 0
            for call, number in watch.pauses(iteration):
                self.driver.run(table[begun : self.steps[call]], threads)
                begun = self.steps[call]
                watch.observe(number, self._written(len(self.program.buffers) + call))
            self.driver.run(table[begun:], threads)
            self.turn = next_turn(self.plan, self.turn)
        del held  # held until here

    def run_in(self, arrays: Arrays, states: Arrays, values: Iterable[tuple[int, ...]]) -> None:
        """As `run`, from states in these arrays, which hold the new ones afterwards: in place, as between two
        iterations."""
        new = {n: self.program.new_states[self.program.buffers[n].name].buffer for n in states}
        if len(set(new.values())) == len(states):
            self.turn = next_turn(self.plan, 0)
            self.results = self._point({new[n]: array for n, array in states.items()})
            self.run(arrays, values)
        else:  # of two that become one, both lie nowhere
            self.run({**arrays, **states}, values)
        for number, array in states.items():
            written = self.results[self.memories[self.last][new[number]]]
            if written is not array:
                array[:] = written

    def read(self, result: Result) -> NDArray[Any]:
        """What the last run wrote."""
        array = self.results[self.memories[self.last][result.buffer]].reshape(result.shape)
        return array.copy() if self.shared[result.buffer] > 1 else array

    def written(self) -> dict[int, NDArray[Any]]:
        """What the last run wrote of each result of the program, flat, by number of buffer."""
        return {buffer: self.results[self.memories[self.last][buffer]] for buffer in self.shared}

    @property
    def table(self) -> NDArray[Any]:
        """That of a first iteration."""
        first: NDArray[Any] = self.tables[0]
        return first

    @cached_property
    def second(self) -> dict[int, int]:
        """The second memories of results, by number, and whose they are."""
        count = len(self.program.buffers) + len(self.program.calls)
        return {count + r: r for r in self.plan.swapped}

    def _empty(self, numbers: Iterable[int]) -> Arrays:
        """Memory for results of the program, where the calls write them."""
        wanted = list(numbers)
        for number in wanted:
            self.results.pop(number, None)
        made = {number: self._room(number) for number in wanted if number not in self.into}
        self.made |= made
        return self._point({**made, **{number: self.into[number] for number in wanted if number in self.into}})

    def _room(self, number: int) -> NDArray[Any]:
        """New memory; or that of the run before, if nobody holds its results any more: a system clears what is new."""
        before = self.made.pop(number, None)
        return before if before is not None and holders(before) == alone() else empty(*self.types[number])

    @cached_property
    def types(self) -> dict[int, tuple[Any, int]]:
        """Storage dtype and elements of each memory of a result, by number."""
        of = {number: self.program.parameter(b) for number, b in {**{b: b for b in self.shared}, **self.second}.items()}
        return {number: (STORAGE[dtype], elements) for number, (dtype, elements) in of.items()}

    def _lay_out(self) -> None:
        program, first = self.program, len(self.program.buffers)
        runs = [self.codes[program.bodies[call.body]] is not None for call in program.calls]
        calls = [(j, call) for j, call in enumerate(program.calls) if runs[j]]
        arguments = [[first + j, *call.arguments] for j, call in calls]
        #: How many steps of a table there are up to each call, it included.
        self.steps = list(accumulate(runs))
        self.values = np.zeros(sum(len(call.variables) for _, call in calls), np.int64)
        self.bound_variables = [v for _, call in calls for v in call.variables]
        buffers = np.array([b for of in arguments for b in of], np.int64)
        self.pointers = np.zeros((len(self.memories), len(buffers)), np.uint64)
        placed = np.array([False] * first + [r is None for r in self.plan.own])[buffers]
        offsets = np.array([0] * first + list(self.plan.offsets), np.uint64)[buffers]
        self.pointers[:, placed] = np.uint64(address(self.memory)) + offsets[placed]
        numbers = np.array(self.memories, np.int64)[:, buffers].reshape(-1)
        order = np.argsort(numbers, kind="stable")
        pointed = [*range(first), *self.shared, *self.second]
        begin, end = (np.searchsorted(numbers[order], pointed, side) for side in ("left", "right"))
        self.places = {number: order[i:j].tolist() for number, i, j in zip(pointed, begin, end, strict=True)}
        self.tables = np.zeros((len(self.memories), len(calls)), STEP)
        #: Evaluations of calls that threads can share, by turn.
        self.shareable = [0] * len(self.memories)
        for turn, table in enumerate(self.tables):
            pointer, value = address(self.pointers[turn]), address(self.values)
            for step, (j, call), own in zip(table, calls, arguments, strict=True):
                body = self.plan.body(program, j, turn)
                code, work = self.codes[body], evaluations(body)
                assert code is not None  # the others are not in the table
                count = units(code)
                step["kernel"], step["buffers"], step["variables"], step["units"] = code.address, pointer, value, count
                step["grain"] = grain(count, work, self.threads)
                pointer += 8 * len(own)
                value += 8 * len(call.variables)
                self.shareable[turn] += work if step["grain"] < count else 0

    def _point(self, arrays: Arrays) -> dict[int, NDArray[Any]]:
        """Let the calls read and write these arrays, by number of memory, which must be held as long as they do."""
        aligned = {number: a if a.flags.aligned else a.copy() for number, a in arrays.items()}
        pointers = self.pointers.reshape(-1)
        for number, array in aligned.items():
            at = address(array)
            for place in self.places[number]:
                pointers[place] = at
        return aligned

    def _written(self, buffer: int) -> NDArray[Any]:
        """Where the last result of a call lies, flat."""
        dtype, elements = self.program.parameter(buffer)
        number = self.memories[self.last][buffer]
        if number in self.results:
            return self.results[number].view(STORAGE[dtype])
        start = self.plan.offsets[buffer - len(self.program.buffers)]
        return self.memory[start : start + elements * dtype.size].view(STORAGE[dtype])


def holders(array: NDArray[Any]) -> tuple[int, int]:
    """How many references there are to an array, and to its memory: views of it have that alone."""
    return sys.getrefcount(array), sys.getrefcount(array.base)


@cache
def alone() -> tuple[int, int]:
    """The `holders` of an array that one local variable holds."""
    array = empty(np.uint8, 1)
    return holders(array)


def grain(units: int, evaluations: int, threads: int) -> int:
    """How many units of a call a thread takes at a time: all of them, where it is not worth sharing."""
    return max(1, units // (4 * threads)) if evaluations > SHARED_CALL else units


@lru_cache(maxsize=4096)
def evaluations(body: Body) -> int:
    """Evaluations of instructions by a call of a body."""
    return prod(body.output_ranges) * sum(Analysis(body).steps)
