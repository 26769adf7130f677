"""A toolchain with one schedule for all bodies."""

from dataclasses import dataclass

from eigentensor.program.model import Body
from eigentensor.runtime.cpu.schedule import Schedule
from eigentensor.runtime.cpu.toolchain import Toolchain


@dataclass(frozen=True)
class Chosen(Toolchain):
    """Compiles the one body of a program with a given schedule."""

    only: Schedule = Schedule()  # noqa: RUF009

    def schedule(self, body: Body) -> Schedule:
        return self.only

    def name(self, what: str) -> str:
        return super().name(f"{self.only} {what}")
