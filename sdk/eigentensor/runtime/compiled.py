"""A program → its results, in this process: compiled once, run often. It knows of no device but its name."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

from numpy.typing import ArrayLike, NDArray

from eigentensor.cache import Cache, default_folder
from eigentensor.program.binding import Results, bind, iteration_values
from eigentensor.program.model import Program, Role, Variable
from eigentensor.runtime import devices
from eigentensor.runtime.kernels import Compiler
from eigentensor.runtime.memory import refuse_over
from eigentensor.runtime.watch import UNWATCHED, Watch


def execute(
    program: Program,
    tensors: Mapping[str, ArrayLike],
    variables: Mapping[str, int] | None = None,
    repeat: int = 1,
    *,
    observe: Callable[[int, NDArray[Any]], None] | None = None,
    device: str = "CPU",
) -> Results:
    """Outputs and new states of a valid program, with the bits that the reference gives, to `observe` too.

    Raises BindingError if tensors, variables or repeat do not fit, ExecutionError if it cannot be compiled here.
    """
    return CompiledGraph(program, device=device).run(tensors, variables, repeat, observe=observe)


class CompiledGraph:
    """A program that is compiled for a device and has its memory there; `devices.devices()` lists the devices.

    `weights` (or any other tensors) given here stay bound: on a CPU they are read where they lie, and must not change.
    States given here are what every run starts from if it is not given others. `threads` are those of a CPU. A program
    that needs more than `memory_limit` bytes, by default what the host has, is refused: LimitError.
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
        toolchain: Compiler | None = None,
    ) -> None:
        self.program = program
        refuse_over(memory_limit, program, device)
        self.loaded = devices.load(program, device, cache or Cache(default_folder()), toolchain, threads)
        self.lock = Lock()
        bound = dict(weights or {})
        self.first_states = {name: bound.pop(name) for name in program.named(Role.STATE) if name in bound}
        closed = [i for i, b in enumerate(program.buffers) if b.role is Role.CONSTANT or b.name in bound]
        self.loaded.bind(dict(zip(closed, bind(self._with_buffers(closed, variables=()), bound), strict=True)))
        self.open_numbers = [i for i in range(len(program.buffers)) if i not in set(closed)]
        self.open = self._with_buffers(self.open_numbers, variables=program.variables)

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
        given = bind(self.open, {**self.first_states, **tensors}, variables or {}, repeat)
        watch = (
            UNWATCHED
            if observe is None
            else Watch(observe, len(self.program.calls), None if only is None else sorted(only))
        )
        values = (iteration_values(self.program, variables or {}, iteration) for iteration in range(repeat))
        with self.lock:
            self.loaded.run(dict(zip(self.open_numbers, given, strict=True)), values, watch)
            kinds = self.program.outputs, self.program.new_states
            return Results(*({name: self.loaded.read(result) for name, result in kind.items()} for kind in kinds))

    def _with_buffers(self, numbers: Sequence[int], variables: tuple[Variable, ...]) -> Program:
        """The program's records of these numbers, for binding them alone."""
        return replace(self.program, buffers=tuple(self.program.buffers[i] for i in numbers), variables=variables)
