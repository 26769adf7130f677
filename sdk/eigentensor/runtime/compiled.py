"""A program → its results, in this process: compiled once, run often. It knows of no device but its name."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eigentensor.cache import Cache, default_folder
from eigentensor.errors import BindingError, ExecutionError
from eigentensor.numerics.floats import canonical
from eigentensor.program.binding import Results, bind, bind_one, iteration_values
from eigentensor.program.model import Buffer, Program, Role, Variable
from eigentensor.runtime import devices
from eigentensor.runtime.build.kernels import Compiler
from eigentensor.runtime.memory.plan import refuse_over
from eigentensor.runtime.memory.untouched import rewrite
from eigentensor.runtime.watch import UNWATCHED, Watch
from eigentensor.store.headers import read_header
from eigentensor.store.tensors import load_safetensors


def execute(
    program: Program,
    tensors: Mapping[str, ArrayLike],
    variables: Mapping[str, int] | None = None,
    repeat: int = 1,
    *,
    observe: Callable[[int, NDArray[Any]], None] | None = None,
    device: str | None = None,
) -> Results:
    """Outputs and new states of a valid program, with the bits that the reference gives, to `observe` too.

    Raises BindingError if tensors, variables or repeat do not fit, ExecutionError if it cannot be compiled here.
    """
    return CompiledGraph(program, device=device).run(tensors, variables, repeat, observe=observe)


class Kept(Enum):
    """Whether states are on the device to go on from; a run that ended early has lost them."""

    NONE, HERE, LOST = range(3)


class CompiledGraph:
    """A program that is compiled for a device and has its memory there; `devices.devices()` lists the devices, and
    `devices.default()` is the one where none is named.

    `weights` (or any other tensors), given here as arrays or as a safetensors file, stay bound: on a CPU they are read
    where they lie, a file's in the file as it is mapped, and must not change. States given here are what every run
    starts from if it is not given others. `threads` are those of a CPU. A program that needs more than `memory_limit`
    bytes, by default what the host has, is refused: LimitError.

    With `keep_states`, states stay on the device: a run that is given none goes on from those that the last run left,
    and no results have any. `states` reads them.
    """

    def __init__(
        self,
        program: Program,
        weights: Mapping[str, ArrayLike] | Path | None = None,
        *,
        device: str | None = None,
        threads: int | None = None,
        memory_limit: int | None = None,
        cache: Cache | None = None,
        toolchain: Compiler | None = None,
        keep_states: bool = False,
    ) -> None:
        self.program = program
        device = device or ("CPU" if toolchain else devices.default())
        refuse_over(memory_limit, program, device)
        bound = dict(load_bound(weights, program) if isinstance(weights, Path) else weights or {})
        self.first_states = {name: bound.pop(name) for name in program.named(Role.STATE) if name in bound}
        closed = [i for i, b in enumerate(program.buffers) if b.role is Role.CONSTANT or b.name in bound]
        arrays = dict(zip(closed, bind(self._with_buffers(closed, variables=()), bound), strict=True))
        self.states_named = program.named(Role.STATE).keys()
        self.keep_states = keep_states and bool(self.states_named)
        numbers = [i for i in range(len(program.buffers)) if i not in set(closed)]
        inputs = [i for i in numbers if program.buffers[i].role is not Role.STATE]
        self.open, self.inputs = ((of, self._with_buffers(of, variables=program.variables)) for of in (numbers, inputs))
        self.loaded = devices.load(program, device, cache or Cache(default_folder()), toolchain, threads)
        self.loaded.bind(arrays)
        self.lock = Lock()
        self.kept = Kept.NONE

    @property
    def compiled(self) -> int:
        """How many kernels were not in the cache."""
        return self.loaded.compiled

    def run(
        self,
        tensors: Mapping[str, ArrayLike],
        variables: Mapping[str, int] | None = None,
        repeat: int = 1,
        *,
        observe: Callable[[int, NDArray[Any]], None] | None = None,
        only: Collection[int] | None = None,
    ) -> Results:
        """Results for the tensors that are not bound yet. Raises BindingError if they do not fit the program.

        `observe` is given the number (iteration · calls + call) and the flat result of each executed call, in order, or
        of those in `only`. The array holds it until `observe` returns, then others may be written over it as ever. On a
        processor it is what later calls read.
        """
        values = (iteration_values(self.program, variables or {}, iteration) for iteration in range(repeat))
        watch = (
            UNWATCHED
            if observe is None
            else Watch(observe, len(self.program.calls), None if only is None else sorted(only))
        )
        with self.lock:
            inputs = self._inputs(tensors, variables or {}, repeat)
            self.kept = Kept.LOST  # an error leaves something in between
            self.loaded.run(inputs, values, watch)
            self.kept = Kept.HERE if self.keep_states else Kept.NONE
            outputs = {name: self.loaded.read(result) for name, result in self.program.outputs.items()}
            return Results(outputs, {} if self.keep_states else self._states())

    def run_in(
        self,
        states: Mapping[str, NDArray[Any]],
        tensors: Mapping[str, ArrayLike],
        variables: Mapping[str, int] | None = None,
        repeat: int = 1,
    ) -> dict[str, NDArray[Any]]:
        """The outputs of a run from the states that these arrays hold, which hold the new states afterwards: programs
        that have states in common go on from each other in the same memory. A processor writes there in place.

        The arrays are what `room` gives, or written by a run of such a program; an error leaves something in between.
        Raises BindingError as `run`, and for arrays of another layout.
        """
        with self.lock:
            numbers, records = self.inputs
            inputs = dict(zip(numbers, bind(records, tensors, variables, repeat), strict=True))
            held = {n: _in_place(b, states) for n, b in enumerate(self.program.buffers) if b.role is Role.STATE}
            self.kept = Kept.NONE
            self.loaded.run_in(
                inputs, held, (iteration_values(self.program, variables or {}, t) for t in range(repeat))
            )
            return {name: self.loaded.read(result) for name, result in self.program.outputs.items()}

    def room(self, states: Mapping[str, ArrayLike]) -> dict[str, NDArray[Any]]:
        """Memory for `run_in` with copies of these states, as a run would store them. Raises BindingError if they do
        not fit."""
        buffers = [b for b in self.program.buffers if b.role is Role.STATE]
        given = bind(replace(self.program, buffers=tuple(buffers), variables=()), {**self.first_states, **states})
        room = {b.name: np.zeros(b.shape, a.dtype) for b, a in zip(buffers, given, strict=True)}
        for buffer, array in zip(buffers, given, strict=True):
            rewrite(room[buffer.name].reshape(-1), array, partial(canonical, buffer.dtype))
        return room

    def states(self) -> dict[str, NDArray[Any]]:
        """The states that the last run left, copied. Raises ExecutionError if none are kept."""
        with self.lock:
            if self.kept is not Kept.HERE:
                raise ExecutionError("no run has left states that are kept", fix="Compile with keep_states, and run.")
            return {name: array.copy() for name, array in self._states().items()}

    def _states(self) -> dict[str, NDArray[Any]]:
        return {name: self.loaded.read(result) for name, result in self.program.new_states.items()}

    def _inputs(
        self, tensors: Mapping[str, ArrayLike], variables: Mapping[str, int], repeat: int
    ) -> dict[int, NDArray[Any]]:
        """What a run reads besides what is bound, by number of buffer: without states it goes on from those before."""
        numbers, records = self.open
        if self.keep_states and self.kept is not Kept.NONE and not self.states_named & tensors.keys():
            if self.kept is Kept.LOST:
                raise ExecutionError(
                    "the last run ended early: its states are lost", fix="Give the states to go on from."
                )
            numbers, records = self.inputs
        elif self.first_states:
            tensors = {**self.first_states, **tensors}
        return dict(zip(numbers, bind(records, tensors, variables, repeat), strict=True))

    def _with_buffers(self, numbers: Sequence[int], variables: tuple[Variable, ...]) -> Program:
        """The program's records of these numbers, for binding them alone."""
        return replace(self.program, buffers=tuple(self.program.buffers[i] for i in numbers), variables=variables)


def _in_place(buffer: Buffer, states: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """The array of a state, flat, in its own memory. Raises BindingError."""
    array = states.get(buffer.name)
    if array is None or not array.flags.carray:
        raise BindingError(f"state {buffer.name!r} has no memory to be changed in place", fix="Make it with `room`.")
    bind_one(buffer, array)  # it has the dtype and the shape
    return array.reshape(-1)


def load_bound(path: Path, program: Program) -> dict[str, NDArray[Any]]:
    """The tensors of a safetensors file, mapped, of the dtypes that the program has under these names.

    Raises TensorFileError if it is no such file, BindingError for another dtype: arrays do not tell bfloat16 from its
    patterns, the file does.
    """
    expected = {b.name: b.dtype for b in program.buffers}
    for name, entry in read_header(path).items():
        if name in expected and entry.dtype is not expected[name]:
            raise BindingError(
                f"tensor {name!r} of {path.name}: expected {expected[name].name.lower()}, "
                f"given {entry.dtype.name.lower()} of shape {entry.shape}"
            )
    return load_safetensors(path)
