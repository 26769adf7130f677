"""A program → its results, in this process: compiled once, run often."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eigentensor.cache import Cache, default_folder
from eigentensor.errors import ExecutionError, LimitError
from eigentensor.numerics.dtypes import STORAGE
from eigentensor.program.binding import Results, bind, iteration_values
from eigentensor.program.model import Program, Result, Role, Variable
from eigentensor.runtime import toolchain as toolchains
from eigentensor.runtime.analysis import Analysis
from eigentensor.runtime.device import STEP, Driver, address, load, memory, units
from eigentensor.runtime.kernels import prepare
from eigentensor.runtime.memory import needed, plan
from eigentensor.runtime.toolchain import Toolchain

#: Evaluations of instructions below which a call is not shared by threads, and a run is left to one thread.
SHARED_CALL, SHARED_RUN = 5_000_000, 200_000_000


def execute(
    program: Program,
    tensors: Mapping[str, ArrayLike],
    variables: Mapping[str, int] | None = None,
    repeat: int = 1,
    *,
    device: str = "CPU",
) -> Results:
    """Outputs and new states of a valid program, with the bits that the reference gives.

    Raises BindingError if tensors, variables or repeat do not fit, ExecutionError if it cannot be compiled here.
    """
    return Executable(program, device=device).run(tensors, variables, repeat)


class Executable:
    """A program that is compiled and has its memory.

    `weights` (or any other tensors) given here stay bound: they are read where they lie, and must not change. States
    given here are what every run starts from if it is not given others.
    """

    def __init__(
        self,
        program: Program,
        weights: Mapping[str, ArrayLike] | None = None,
        *,
        device: str = "CPU",
        threads: int | None = None,
        memory_limit: int | None = None,
        cache: Cache | None = None,
        toolchain: Toolchain | None = None,
    ) -> None:
        if device != "CPU":
            raise ExecutionError(f"device {device!r}: only CPU executes programs", fix="Use the device CPU.")
        self.program = program
        self.threads = threads or len(os.sched_getaffinity(0))
        if memory_limit is not None and (size := needed(program)) > memory_limit:
            raise LimitError(f"the program needs {size:,} bytes of memory, allowed are {memory_limit:,}")
        self.plan = plan(program)
        kernels = prepare(program.bodies, cache or Cache(default_folder()), toolchain or toolchains.local())
        self.compiled = kernels.compiled
        self.codes = [None if code is None else load(code) for code in kernels.bodies]
        self.driver = Driver(load(kernels.driver))
        self.lock = Lock()
        self._lay_out()
        bound = dict(weights or {})
        self.first_states = {name: bound.pop(name) for name in program.named(Role.STATE) if name in bound}
        closed = [i for i, b in enumerate(program.buffers) if b.role is Role.CONSTANT or b.name in bound]
        self.kept = self._point(closed, bind(self._with_buffers(closed, variables=()), bound))
        self.open_numbers = [i for i in range(len(program.buffers)) if i not in set(closed)]
        self.open = self._with_buffers(self.open_numbers, variables=program.variables)

    def run(
        self, tensors: Mapping[str, ArrayLike], variables: Mapping[str, int] | None = None, repeat: int = 1
    ) -> Results:
        """Results for the tensors that are not bound yet. Raises BindingError if they do not fit the program."""
        given = bind(self.open, {**self.first_states, **tensors}, variables or {}, repeat)
        with self.lock:
            if repeat > 1:
                given = [
                    array.copy() if self.program.buffers[i].role is Role.STATE else array
                    for i, array in zip(self.open_numbers, given, strict=True)
                ]
            held = self._point(self.open_numbers, given)
            threads = self.threads if self.evaluations > SHARED_RUN else 1
            for iteration in range(repeat):
                if iteration:
                    self._feed_back(held)
                values = iteration_values(self.program, variables or {}, iteration)
                self.values[:] = [values[v] for v in self.bound_variables]
                self.driver.run(self.table, threads)
            results = self.program.outputs, self.program.new_states
            return Results(*({name: self._result(r).copy() for name, r in kind.items()} for kind in results))

    def _with_buffers(self, numbers: Sequence[int], variables: tuple[Variable, ...]) -> Program:
        """The program's records of these numbers, for binding them alone."""
        return replace(self.program, buffers=tuple(self.program.buffers[i] for i in numbers), variables=variables)

    def _lay_out(self) -> None:
        """The driver's table, with the memory of all results."""
        program = self.program
        self.memory = memory(self.plan.size)
        calls = [(j, call) for j, call in enumerate(program.calls) if self.codes[call.body] is not None]
        arguments = [[len(program.buffers) + j, *call.arguments] for j, call in calls]
        self.pointers = np.zeros(sum(map(len, arguments)), np.uint64)
        self.values = np.zeros(sum(len(call.variables) for _, call in calls), np.int64)
        self.bound_variables = [v for _, call in calls for v in call.variables]
        buffers = np.array([b for of in arguments for b in of], np.int64)
        order = np.argsort(buffers, kind="stable")
        starts = np.searchsorted(buffers[order], np.arange(len(program.buffers) + 1))
        self.places = [order[starts[i] : starts[i + 1]] for i in range(len(program.buffers))]
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

    def _point(self, numbers: Sequence[int], arrays: Sequence[NDArray[Any]]) -> dict[int, NDArray[Any]]:
        """Let the calls read these arrays as the buffers of these numbers; they must be held as long."""
        aligned = [a if a.flags.aligned else a.copy() for a in arrays]
        for number, array in zip(numbers, aligned, strict=True):
            self.pointers[self.places[number]] = address(array)
        return dict(zip(numbers, aligned, strict=True))

    def _feed_back(self, held: Mapping[int, NDArray[Any]]) -> None:
        """New states become the states of the next iteration."""
        for number, buffer in enumerate(self.program.buffers):
            if buffer.role is Role.STATE:
                held[number][:] = self._result(self.program.new_states[buffer.name]).reshape(-1)

    def _result(self, result: Result) -> NDArray[Any]:
        dtype, elements = self.program.parameter(result.buffer)
        start = self.plan.offsets[result.buffer - len(self.program.buffers)]
        part = self.memory[start : start + elements * dtype.size]
        return part.view(STORAGE[dtype]).reshape(result.shape)
