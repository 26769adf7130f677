"""What a worker computes boxes of calls with: a processor, or the reference where nothing is compiled."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from eigentensor import reference
from eigentensor.cache import Cache
from eigentensor.errors import ExecutionError
from eigentensor.program.restriction import Restricted
from eigentensor.runtime import devices
from eigentensor.runtime.build.kernels import Compiler
from eigentensor.runtime.cpu.calls import BoundCall, CallTable, Codes
from eigentensor.runtime.cpu.table import SHARED_RUN
from eigentensor.runtime.memory.plan import HOST

Values = NDArray[Any]
#: Computes calls in order, with some values of variables.
Run = Callable[[Sequence[int]], None]


class BoxCall(NamedTuple):
    """A box of a call: what it writes and reads, in memory that stays where it is, flat, and the numbers of the values
    that its variables have."""

    restricted: Restricted
    result: Values
    inputs: tuple[Values, ...]
    variables: tuple[int, ...]


class Machine(Protocol):
    """What computes boxes of calls in memory of the host."""

    def ready(self, calls: Sequence[Sequence[BoxCall]]) -> list[Run]:
        """Of each sequence what runs it. Raises ExecutionError for bodies that cannot be compiled."""


class Processor:
    """Kernels on some threads of a processor."""

    def __init__(self, compiler: Compiler, cache: Cache, threads: int) -> None:
        self.codes, self.cache, self.threads = Codes(compiler, cache), cache, threads

    def ready(self, calls: Sequence[Sequence[BoxCall]]) -> list[Run]:
        """All bodies are compiled together, those that the cache lacks."""
        self.codes.compile(
            (body for each in calls for call in each for body in call.restricted.program.bodies), self.cache
        )
        return [self._run(each) for each in calls]

    def _run(self, calls: Sequence[BoxCall]) -> Run:
        bound = [
            BoundCall(self.codes.bodies[of.restricted.program.bodies[0]], (of.result, *of.inputs), of.variables)
            for of in calls
        ]
        table, rows = CallTable(bound, self.codes.driver, self.threads), list(range(len(bound)))
        return lambda values: table.run(values, rows, SHARED_RUN)


class Interpreter:
    """The reference."""

    def ready(self, calls: Sequence[Sequence[BoxCall]]) -> list[Run]:
        """Nothing is compiled."""
        return [self._run(each) for each in calls]

    def _run(self, calls: Sequence[BoxCall]) -> Run:
        def run(values: Sequence[int]) -> None:
            for of in calls:
                bound = [values[v] for v in of.variables]
                (result,) = reference.calls(of.restricted.program, of.inputs, bound)
                of.result[...] = result

        return run


def machine_of(device: str, cache: Cache, threads: int) -> Machine:
    """What computes on a device whose memory is the host's. Raises ExecutionError for others."""
    if device == devices.REFERENCE:
        return Interpreter()
    refuse_own(device)
    return Processor(devices.of(device), cache, threads)


def refuse_own(device: str) -> None:
    """Raises ExecutionError for a device that has memory of its own."""
    if device.partition(":")[0] != HOST:
        raise ExecutionError(
            f"{device} has memory of its own, and workers of one process share the host's",
            fix="Use CompiledGraph there, or Sharded on CPU.",
        )
