"""Runs of a program that compute only what depends on what has changed since the run before."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eigentensor.cache import Cache, default_folder
from eigentensor.errors import ExecutionError, LimitError
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.binding import Results, bind, iteration_values
from eigentensor.program.model import Parameter, Program, Result, Role
from eigentensor.runtime import devices
from eigentensor.runtime.build.compilers import Build
from eigentensor.runtime.compiled import load_bound
from eigentensor.runtime.cpu.device import empty
from eigentensor.runtime.incremental.outline import Outline, Work
from eigentensor.runtime.incremental.processor import Processor
from eigentensor.runtime.incremental.recomputation import Recomputation
from eigentensor.runtime.memory.plan import HOST, installed
from eigentensor.system import processors

Values = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Rerun(Results):
    """Results, and what was computed for them, `of` what a full run computes."""

    computed: Work
    of: Work


class Incremental:
    """A program that is compiled for a processor and keeps what it computed, to compute only what changes.

    Bits are those of a full run, whatever changes; the first run is full. `weights` (or any other tensors), given here
    as arrays or as a safetensors file, stay bound and must not change; states given here are what every run starts from
    that is not given others. What is held in memory is `memory_of(program)`; more than `memory_limit` bytes, by default
    what the host has, are refused: LimitError. Only for devices that compute in the host's memory: ExecutionError.
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
        toolchain: Build[Any] | None = None,
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
        self.program, self.lock = program, Lock()
        bound = dict(load_bound(weights, program) if isinstance(weights, Path) else weights or {})
        self.first_states = {name: bound.pop(name) for name in program.named(Role.STATE) if name in bound}
        closed = [n for n, b in enumerate(program.buffers) if b.role is Role.CONSTANT or b.name in bound]
        without = replace(program, buffers=tuple(program.buffers[n] for n in closed), variables=())
        arrays = (a if a.flags.aligned else a.copy() for a in bind(without, bound))
        kept = dict(zip(closed, arrays, strict=True))
        self.open_numbers = [n for n in range(len(program.buffers)) if n not in kept]
        self.open = replace(program, buffers=tuple(program.buffers[n] for n in self.open_numbers))
        with np.errstate(invalid="ignore"):  # a signalling NaN is no zero
            nonzero = frozenset(n for n, array in kept.items() if array.all())
        self.outline = Outline(program, frozenset(closed), nonzero)
        #: All buffers as the last run left them, flat.
        self.buffers = [kept[n] if n in kept else _room(of) for n, of in enumerate(_parameters(program))]
        threads = threads or processors()
        compiler, cache = toolchain or devices.of(device), cache or Cache(default_folder())
        self.processor = Processor(program, self.buffers, compiler, cache, threads)
        self.values: tuple[int, ...] | None = None  #: of the variables, in the last run; None if it left nothing

    def run(
        self, tensors: Mapping[str, ArrayLike], variables: Mapping[str, int] | None = None, repeat: int = 1
    ) -> Rerun:
        """As CompiledGraph.run, from any thread. Each iteration of a repeat is held against the one before.

        Raises BindingError if the tensors do not fit the program. After a run that was interrupted, the next is full.
        """
        bound = bind(self.open, {**self.first_states, **tensors}, variables or {}, repeat)
        numbered, work = dict(zip(self.open_numbers, bound, strict=True)), list[Work]()
        with self.lock:
            for iteration in range(repeat):
                if iteration:
                    numbered |= self._new_states()
                work.append(self._iteration(numbered, iteration_values(self.program, variables or {}, iteration)))
            outputs, states = (
                {name: self._flat(result).reshape(result.shape).copy() for name, result in kind.items()}
                for kind in (self.program.outputs, self.program.new_states)
            )
        return Rerun(outputs, states, _sum(work), _sum([self.outline.work] * repeat))

    def _iteration(self, inputs: Mapping[int, Values], values: tuple[int, ...]) -> Work:
        last, self.values = self.values, None
        if last is None:
            for number, array in inputs.items():
                self.buffers[number][...] = array
            self.processor.alone(range(len(self.program.calls)), values)
            work = self.outline.work
        else:
            moved = [(min(pair), max(pair)) for pair in zip(last, values, strict=True)]
            work = Recomputation(self.outline, self.buffers, values, moved, self.processor).run(inputs)
        self.values = values
        return work

    def _new_states(self) -> dict[int, Values]:
        """What the states are in the next iteration, by number."""
        new = self.program.new_states
        return {n: self._flat(new[b.name]) for n, b in enumerate(self.program.buffers) if b.role is Role.STATE}

    def _flat(self, result: Result) -> Values:
        return self.buffers[result.buffer]


def memory_of(program: Program) -> int:
    """Bytes that `Incremental` holds of a valid program: tensors, results of calls, and what is computed again of one.

    Inputs and states count twice, since what the last run was given is kept. Kernels are not counted, nor some
    kilobytes for each call.
    """
    sizes = [of.dtype.size * of.elements for of in _parameters(program)]
    first = len(program.buffers)
    kept = sum(size for size, b in zip(sizes, program.buffers, strict=False) if b.role in (Role.INPUT, Role.STATE))
    return sum(sizes) + kept + sum(sizes[r.buffer] for r in program.results) + max(sizes[first:])


def _room(of: Parameter) -> Values:
    """Memory that is there already when the first run is timed."""
    array: Values = empty(STORAGE[of.dtype], of.elements)
    array.fill(0)
    return array


def _parameters(program: Program) -> list[Parameter]:
    """Those of all buffers."""
    return [program.parameter(number) for number in range(len(program.buffers) + len(program.calls))]


def _sum(work: Iterable[Work]) -> Work:
    calls, evaluations = zip(*work, strict=True)
    return Work(sum(calls), sum(evaluations))
