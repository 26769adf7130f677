"""Executing a stranger's program on this machine: confined, within limits, and rechecked."""

import fcntl
from dataclasses import dataclass
from pathlib import Path

from eigentensor import timed
from eigentensor.cache import default_folder
from eigentensor.program import Program, encode
from eigentensor.program.binding import Results
from eigentensor.reexecution import confined
from eigentensor.reexecution.inputs import BoundProgram, Tensors
from eigentensor.reexecution.warm import WarmExecution
from eigentensor.runtime import selftest
from eigentensor.runtime.sandbox.execution import compile_sandboxed, run_sandboxed
from eigentensor.tracing import Retrace
from eigentensor_operator.policy import Policy

SELFTEST = 300.0  # seconds


@dataclass(frozen=True, slots=True)
class Device:
    """What a task may use: the device of this name, `memory` bytes for its buffers; `unsafe` is without the sandbox."""

    memory: int
    unsafe: bool = False
    name: str = "CPU"

    def compile(self, program: Program, seconds: float) -> None:
        """Compiles what the cache lacks of a program. Raises ExecutionError, LimitError after so many seconds."""
        compile_sandboxed(program, seconds, device=self.name, unsafe=self.unsafe)

    def execute(self, bound: BoundProgram, seconds: float, seed: bytes) -> Results:
        """The program's results, of which a random sample, chosen by `seed`, was recomputed with the reference.

        Raises ExecutionError when the program fails or exceeds its limits, WrongBits when the device does not compute
        what the reference computes.
        """
        return confined.execute(
            bound, confined.limits(self.memory, seconds), seed, device=self.name, unsafe=self.unsafe
        )

    def warm(self, program: Program, weights: Path | None, seconds: float) -> WarmExecution:
        """The program with its weights, ready for call after call, each of which takes `seconds` at most. Raises what
        `WarmExecution` raises."""
        within = confined.limits(self.memory, seconds)
        return WarmExecution(program, weights, within, device=self.name, unsafe=self.unsafe)

    def computing(self, program: Program, seconds: float) -> float:
        """Seconds that the calls of an iteration are expected to take, by a sample of the kernels. Raises
        ExecutionError, LimitError if the sample takes longer than `seconds`."""
        within = confined.limits(self.memory, seconds)
        return timed.computing(program, timed.sandboxed(within, device=self.name, unsafe=self.unsafe))

    def retrace(self, policy: Policy) -> Retrace:
        """What traces a program for a game; it may take as long as a clock could run. It raises ExecutionError."""
        seconds = (policy.parameters.max_exec + policy.parameters.clock) * policy.block_seconds
        return confined.retracing(confined.limits(self.memory, seconds), device=self.name, unsafe=self.unsafe)

    def _run(self, program: Program, tensors: Tensors) -> Results:
        limits = confined.limits(self.memory, SELFTEST)
        return run_sandboxed(encode(program), tensors, limits=limits, device=self.name, unsafe=self.unsafe)

    def check(self) -> None:
        """The conformance self-test, confined like a task; raises ExecutionError unless every bit is right.

        Several operators of one machine share the kernel cache: the first compiles, the others wait for it.
        """
        folder = default_folder()
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "selftest.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            selftest.check(self._run)
