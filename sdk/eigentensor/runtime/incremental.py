"""Running a program again where little of what it is given has changed: only what depends on that is computed.

All results of calls are kept; `program.recomputation` decides which elements of them are computed again.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eigentensor.cache import Cache, default_folder
from eigentensor.errors import ExecutionError, LimitError
from eigentensor.numerics.dtypes import STORAGE
from eigentensor.program.binding import Results, bind, iteration_values
from eigentensor.program.cost import body_cost
from eigentensor.program.model import Body, Kind, Program, Result, Role
from eigentensor.program.recomputation import Recomputation, Work, work_of
from eigentensor.program.restriction import Restricted
from eigentensor.runtime import devices
from eigentensor.runtime import toolchain as toolchains
from eigentensor.runtime.compiled import load_bound
from eigentensor.runtime.device import STEP, Code, Driver, address, driver, empty, load, units
from eigentensor.runtime.kernels import Compiler, prepare
from eigentensor.runtime.memory import HOST, estimate_memory_requirements, installed
from eigentensor.runtime.table import SHARED_CALL

Values = NDArray[Any]

#: Calls on boxes that are held ready.
PARTS = 4096


@dataclass(frozen=True, slots=True)
class Rerun(Results):
    """Results, and what was computed for them, `of` what a full run computes."""

    computed: Work
    of: Work


class Incremental:
    """A program that is compiled for a processor and keeps what it computed, to compute only what changes.

    Bits are those of a full run, whatever changes: the first run is full, and so is one whose change spreads. `weights`
    (or any other tensors), given here as arrays or as a safetensors file, stay bound and must not change; states given
    here are what every run starts from that is not given others. What is held in memory is `memory_of(program)`; more
    than `memory_limit` bytes, by default what the host has, are refused: LimitError. Only for devices that compute in
    the host's memory.
    """

    def __init__(
        self,
        program: Program,
        weights: Mapping[str, ArrayLike] | Path | None = None,
        *,
        device: str = HOST,
        threads: int | None = None,
        memory_limit: int | None = None,
        cache: Cache | None = None,
        toolchain: Compiler | None = None,
    ) -> None:
        if device.partition(":")[0] != HOST:
            raise ExecutionError(
                f"{device} has memory of its own, and what is kept between incremental runs lies in the host's",
                fix="Use CompiledGraph there, or Incremental on CPU.",
            )
        if (need := memory_of(program)) > (most := installed() if memory_limit is None else memory_limit):
            raise LimitError(
                f"incremental runs of the program need {need:,} bytes of memory, there are {most:,}",
                fix="Use CompiledGraph, which keeps no results of calls.",
            )
        self.program, self.shown = program, _all_shown(program)
        self.compiler, self.cache = toolchain or toolchains.of(device), cache or Cache(default_folder())
        self.threads = threads or len(os.sched_getaffinity(0))
        self.loaded = devices.load(self.shown, device, self.cache, self.compiler, threads)
        self.codes: dict[Body, _Code] = {}
        self.parts: dict[tuple[Body, tuple[int, ...]], _Part] = {}
        self.room = empty(np.uint8, 0)
        self.lock = Lock()
        bound = dict(load_bound(weights, program) if isinstance(weights, Path) else weights or {})
        self.first_states = {name: bound.pop(name) for name in program.named(Role.STATE) if name in bound}
        closed = [n for n, b in enumerate(program.buffers) if b.role is Role.CONSTANT or b.name in bound]
        without = replace(program, buffers=tuple(program.buffers[n] for n in closed), variables=())
        arrays = (a if a.flags.aligned else a.copy() for a in bind(without, bound))
        self.closed = dict(zip(closed, arrays, strict=True))
        self.loaded.bind(self.closed)
        self.open_numbers = [n for n in range(len(program.buffers)) if n not in self.closed]
        self.open = replace(program, buffers=tuple(program.buffers[n] for n in self.open_numbers))
        self.all = work_of(program)
        self.kept: _Kept | None = None

    def run(self, tensors: Mapping[str, ArrayLike], variables: Mapping[str, int] | None = None) -> Rerun:
        """One iteration on the tensors that are not bound; as CompiledGraph.run, from any thread.

        Raises BindingError if they do not fit the program. After a run that was interrupted, the next is full.
        """
        given = bind(self.open, {**self.first_states, **tensors}, variables or {})
        values = iteration_values(self.program, variables or {})
        with self.lock:
            kept, self.kept = self.kept, None
            computed = kept and self._again(kept, given, values)
            if kept is None or computed is None:
                kept, computed = None, self.all  # what was kept is given back before there is more
                kept = self._in_full(given, values)
            self.kept = kept._replace(values=values)
            outputs, states = (
                {name: self._copy(kept, result) for name, result in kind.items()}
                for kind in (self.program.outputs, self.program.new_states)
            )
            return Rerun(outputs, states, computed, self.all)

    def _in_full(self, given: Sequence[Values], values: tuple[int, ...]) -> "_Kept":
        self.parts.clear()
        arrays = {number: array.copy() for number, array in zip(self.open_numbers, given, strict=True)}
        self.loaded.run(arrays, [values])
        written = [self.loaded.read(result) for result in self.shown.results]
        everything = self.closed | arrays
        return _Kept([*(everything[n] for n in range(len(everything))), *written], values)

    def _again(self, kept: "_Kept", given: Sequence[Values], values: tuple[int, ...]) -> Work | None:
        moved = tuple((min(pair), max(pair)) for pair in zip(kept.values, values, strict=True))
        inputs = dict(zip(self.open_numbers, given, strict=True))
        return Recomputation(self.program, kept.buffers, values, moved, self.compute).run(inputs)

    def _copy(self, kept: "_Kept", result: Result) -> Values:
        return kept.buffers[result.buffer].reshape(result.shape).copy()

    def compute(self, restricted: Restricted, inputs: Sequence[Values], values: tuple[int, ...]) -> Values:
        """The result of a restricted call on kept arrays, shaped. It stands there until the next is computed."""
        (body,), (result,) = restricted.program.bodies, restricted.program.results
        key = body, tuple(map(id, inputs))
        if (part := self.parts.get(key)) is None:
            if len(self.parts) >= PARTS:
                self.parts.clear()
            dtype, elements = body.parameters[0]
            if self.room.size < elements * dtype.size:
                self.room = empty(np.uint8, elements * dtype.size)
            output = self.room[: elements * dtype.size].view(STORAGE[dtype]).reshape(result.shape)
            part = self.parts[key] = _Part(self._code(body), (output, *inputs), len(values), self.threads)
        part.run(values)
        return part.arrays[0]

    def _code(self, body: Body) -> "_Code":
        if body not in self.codes:
            kernels = prepare([body], self.cache, self.compiler)
            code = kernels.bodies[body]
            assert code is not None  # boxes have elements
            shared = body_cost(body).evaluations > SHARED_CALL
            self.codes[body] = _Code(load(code), driver(kernels.driver), shared)
        return self.codes[body]


class _Code(NamedTuple):
    """The code of a body, what runs it, and whether threads share a call of it."""

    kernel: Code
    driver: Driver
    shared: bool


class _Part:
    """A call of a body on arrays that stay where they are, the first of which it writes: a table of one step."""

    def __init__(self, code: _Code, arrays: tuple[Values, ...], variables: int, threads: int) -> None:
        self.driver, self.arrays = code.driver, arrays
        self.threads = threads if code.shared else 1
        self.pointers = np.array([address(array) for array in arrays], np.uint64)
        self.values, self.table = np.zeros(variables, np.int64), np.zeros(1, STEP)
        step, count = self.table[0], units(code.kernel)
        step["kernel"], step["buffers"], step["variables"] = (
            code.kernel.address,
            address(self.pointers),
            address(self.values),
        )
        step["units"], step["grain"] = count, max(1, count // (4 * threads)) if code.shared else count

    def run(self, values: Sequence[int]) -> None:
        self.values[:] = values
        self.driver.run(self.table, self.threads)


def memory_of(program: Program) -> int:
    """Bytes that `Incremental` holds of a valid program: tensors, results of calls, and what is computed again of one.

    Kernels are not counted, nor some kilobytes for each call.
    """
    first = len(program.buffers)
    results = (program.parameter(first + j) for j in range(len(program.calls)))
    again = max(dtype.size * elements for dtype, elements in results)
    return estimate_memory_requirements(_all_shown(program), HOST, 1)[HOST] + again


def _all_shown(program: Program) -> Program:
    """One iteration of the program, with the results of all its calls as outputs, flat; states are inputs."""
    first = len(program.buffers)
    numbers = range(first, first + len(program.calls))
    shown = (Result(Kind.OUTPUT, f"{n}", n, (program.parameter(n).elements,)) for n in numbers)
    buffers = (b._replace(role=Role.INPUT) if b.role is Role.STATE else b for b in program.buffers)
    return replace(program, buffers=tuple(buffers), results=tuple(shown), max_repeat=1)


class _Kept(NamedTuple):
    """The flat arrays of all buffers as the last run left them, and the values of its variables."""

    buffers: list[Values]
    values: tuple[int, ...]
