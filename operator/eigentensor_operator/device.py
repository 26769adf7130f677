"""Executing a stranger's program, on this machine or at a cluster: confined, within limits, and rechecked."""

import fcntl
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Protocol

from eigentensor import timed
from eigentensor.cache import default_folder
from eigentensor.cluster.address import of_device
from eigentensor.cluster.remote import RemoteSession
from eigentensor.cluster.resident import Resident, conform, room
from eigentensor.errors import ConnectionLost, LimitError
from eigentensor.program import Program, Role, encode
from eigentensor.program.binding import Results
from eigentensor.reexecution import confined, sample
from eigentensor.reexecution.inputs import BoundProgram, Tensors, load_role
from eigentensor.reexecution.warm import WarmExecution
from eigentensor.runtime import devices, selftest
from eigentensor.runtime.sandbox.execution import compile_sandboxed, run_sandboxed
from eigentensor.tracing import Retrace
from eigentensor_operator.policy import Policy
from eigentensor_operator.there import ProgramThere, lacks

SELFTEST = 300.0  # seconds
ANSWER = 120.0  # seconds that a cluster may take to say how it stands, and whether a program finds room
PAUSE = 0.02  # seconds between looks at what a cluster has executed


class Warm(Protocol):
    """A program that is ready for call after call."""

    def execute(self, tensors: Tensors, variables: Mapping[str, int], repeat: int, seconds: float) -> Results:
        """The results for inputs and states, some of them rechecked. Raises ExecutionError, LimitError after so many
        seconds, WrongBits where the device does not compute what the reference computes."""

    def close(self) -> None:
        """Ends what is ready."""


@dataclass(frozen=True, slots=True)
class Device:
    """What a task may use: the device of this name, `memory` bytes for its buffers; `unsafe` is without the sandbox."""

    memory: int
    unsafe: bool = False
    name: str = "CPU"

    @property
    def is_ahead(self) -> bool:
        """Whether `compile` compiles: else an execution does."""
        return True

    def lacks(self, program: Program, repeat: int) -> tuple[int, int] | None:
        """Bytes that a program needs in one place, repeated so often, and those that there are now, if they are too
        few; None where they are enough, or `memory` says it."""
        return None

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

    def warm(self, program: Program, weights: Path | None, seconds: float) -> Warm:
        """The program with its weights, ready for call after call, each of which takes `seconds` at most. Raises what
        `WarmExecution` raises."""
        return self.served(program, weights, seconds)

    def served(self, program: Program, weights: Path | None, seconds: float) -> WarmExecution:
        """The program with its weights for paid calls; a start takes `seconds` at most. Raises what `WarmExecution`
        raises."""
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


@dataclass(frozen=True, slots=True)
class Cluster(Device):
    """The cluster whose address `name` has, as somebody with the token in a file: what a task executes goes there, and
    its bits come back. All but `retrace` raise ClusterError where the cluster is away, or does not let this one in.

    A game is about what one machine can show of an execution: this one makes it again, with the same bits.
    """

    token: Path | None = None

    @property
    def is_ahead(self) -> bool:
        """As `Device.is_ahead`: workers compile what they execute."""
        return False

    def lacks(self, program: Program, repeat: int) -> tuple[int, int] | None:
        """As `Device.lacks`, by the plan for the workers that are there. Raises WorkerLost where there is none."""
        with self.session(ANSWER) as session:
            return lacks(session, program, repeat)

    def compile(self, program: Program, seconds: float) -> None:
        """As `is_ahead` says: nothing."""

    def execute(self, bound: BoundProgram, seconds: float, seed: bytes) -> Results:
        """As `Device.execute`. Where the workers have no room for what the sample keeps besides, it is one of the
        program's results alone: `lacks` has seen that there is room for these."""
        with self.session(seconds) as session:
            resident, most = Resident(session, bound.program), room(bound.program)
            while True:
                chosen = sample.choose(bound.program, bound.repeat, seed, most)
                try:
                    observed = resident.run(bound.tensors, bound.variables, bound.repeat, chosen.keep)
                    break
                except LimitError:
                    if not most:
                        raise
                    most = 0
        sample.recheck(bound, chosen, observed.kept, seed)
        return observed.results

    def warm(self, program: Program, weights: Path | None, seconds: float) -> Warm:
        """As `Device.warm`; all calls together have `seconds`."""
        return _WarmThere(self, program, weights, seconds)

    def served(self, program: Program, weights: Path | None, seconds: float) -> WarmExecution:
        """As `Device.served`, in a session that lives as long as what is served."""

        def elsewhere(program: Program, weights: Tensors) -> ProgramThere:
            return ProgramThere(self._begun, program, weights, seconds)

        within = confined.limits(self.memory, seconds)
        return WarmExecution(program, weights, within, elsewhere=elsewhere, room=room(program))

    def _begun(self, seconds: float | None = None) -> RemoteSession:
        token = None if self.token is None else str(self.token)
        return RemoteSession(str(of_device(self.name)), token, seconds=seconds)

    def computing(self, program: Program, seconds: float) -> float:
        """As `Device.computing`, in seconds of slots."""
        with self.session(seconds) as session:

            def run(program: Program, tensors: Tensors, variables: Mapping[str, int], repeat: int) -> None:
                until = session.stats().runs + repeat
                Resident(session, program, numbers=numbers).work(tensors, variables, repeat)
                while session.stats().runs < until:
                    time.sleep(PAUSE)

            def spent() -> float:
                return sum(worker.seconds for worker in session.stats().workers)

            numbers = count(1)
            return timed.computing(program, run, spent)

    def retrace(self, policy: Policy) -> Retrace:
        """As `Device.retrace`, by this machine."""
        return Device(self.memory, self.unsafe, devices.default(confined=not self.unsafe)).retrace(policy)

    def check(self) -> None:
        """As `Device.check`, at whichever worker has its turn. Raises WorkerLost where there is none."""
        with self.session(SELFTEST) as session:
            conform(session)

    @contextmanager
    def session(self, seconds: float) -> Iterator[RemoteSession]:
        """A session of its own; LimitError is raised in the block for what is not answered within so many seconds."""
        with _until(time.monotonic() + seconds), self._begun(seconds) as session:
            yield session


@contextmanager
def _until(end: float) -> Iterator[None]:
    """A connection that is lost at its end was one to a cluster that took too long."""
    try:
        yield
    except ConnectionLost as error:
        if time.monotonic() >= end:
            raise LimitError("the cluster took too long") from error
        raise


class _WarmThere:
    """A program with its weights at a cluster. Which calls of it are rechecked is chosen once, which of their elements
    is anew each time."""

    def __init__(self, cluster: Cluster, program: Program, weights: Path | None, seconds: float) -> None:
        self._program, self._seed = program, secrets.token_bytes(32)
        self._files = () if weights is None else (weights,)
        self._weights: Tensors = {} if weights is None else load_role(weights, program, Role.WEIGHT)
        self._held, self._end = ExitStack(), time.monotonic() + seconds
        self._resident = Resident(self._held.enter_context(cluster.session(seconds)), program, self._weights)

    def execute(self, tensors: Tensors, variables: Mapping[str, int], repeat: int, seconds: float) -> Results:
        """As `Warm.execute`."""
        chosen = sample.choose(self._program, repeat, self._seed, room(self._program))
        with _until(self._end):
            observed = self._resident.run(tensors, variables, repeat, chosen.keep)
        bound = BoundProgram(self._program, self._files, {**self._weights, **tensors}, variables, repeat)
        sample.recheck(bound, chosen, observed.kept, secrets.token_bytes(32))
        return observed.results

    def close(self) -> None:
        """As `Warm.close`."""
        self._held.close()


def device_of(name: str, memory: int, *, unsafe: bool = False, token: Path | None = None) -> Device:
    """The device of a name: of this machine, or a cluster, which is let in by the `token` in a file. Raises ConfigError
    for what should be the address of a cluster and is none."""
    if of_device(name) is None:
        return Device(memory, unsafe, name)
    return Cluster(memory, unsafe, name, token)
