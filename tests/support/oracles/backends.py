"""The ways of executing programs that there are here, for tests that hold each of them to the reference."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from eigentensor.program.model import Program
from eigentensor.runtime import CompiledGraph, devices
from eigentensor.runtime.build.compilers import Build
from eigentensor.runtime.memory.plan import parts
from support.oracles import guarded
from support.oracles.agreement import Observable
from support.oracles.together import Together, loading

#: The CPU through tinygrad's guarded code generation, with loops taken apart at random.
SECOND = "CPU, second way"
#: What every machine that runs the tests has.
EXPECTED = ("CPU", "CPU:LLVM", "CL", SECOND)


@dataclass(frozen=True, slots=True)
class Backend:
    """A device and its compiler; one of `every` generated programs is tried on it."""

    name: str
    device: str
    build: Callable[[], Build[Any]]
    every: int = 1

    @property
    def version(self) -> str:
        """The compiler, for people."""
        lines = [line for line in self.build().identity.splitlines() if "-cc1" not in line]
        return next((line for line in reversed(lines) if " version " in line or line.startswith("LLVM")), lines[0])

    def way(self, programs: Sequence[Program] = ()) -> Callable[[Program], Observable]:
        """Compiles programs as the device does for everybody, those that are given here sooner."""
        cache, build = Together(), self.build()
        cache.fill({body for program in programs for body in (*program.bodies, *parts(program))}, build)
        loader = loading(build)
        return lambda program: CompiledGraph(program, device=self.device, cache=cache, toolchain=loader).run


def backends() -> list[Backend]:
    """Those that are here: each device as it serves, and the second way."""
    return [backend(name) for name in (*(name for name, reason in devices.devices().items() if not reason), SECOND)]


def backend(name: str) -> Backend:
    """A device as it serves, or the second way. Raises ExecutionError if it is not here."""
    if name == SECOND:
        return Backend(name, "CPU", partial(guarded.clang, 1), every=4)
    devices.of(name)
    return Backend(name, name, partial(devices.of, name))
