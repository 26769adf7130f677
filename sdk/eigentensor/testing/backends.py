"""The ways of executing programs that there are here, for tests that hold each of them to the reference."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from eigentensor.program.model import Program
from eigentensor.runtime import Executable, toolchain
from eigentensor.runtime.devices import devices
from eigentensor.runtime.toolchain import Build
from eigentensor.testing import guarded
from eigentensor.testing.agreement import Way
from eigentensor.testing.together import Together, loading


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

    def way(self, programs: Sequence[Program] = ()) -> Way:
        """Compiles programs as the device does for everybody, those that are given here sooner."""
        cache, build = Together(), self.build()
        cache.fill({body for program in programs for body in program.bodies}, build)
        loader = loading(build)
        return lambda program: Executable(program, device=self.device, cache=cache, toolchain=loader).run


def backends() -> list[Backend]:
    """Each device that is here, as it serves; and the CPU by the second way, with loops taken apart at random."""
    serving = [Backend(name, name, _build(name)) for name, reason in devices().items() if not reason]
    return [*serving, Backend("CPU, second way", "CPU", lambda: guarded.clang(seed=1), every=4)]


def _build(name: str) -> Callable[[], Build[Any]]:
    return lambda: toolchain.of(name)
