"""A program that stays at a cluster with its weights, for call after call."""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from itertools import chain

import numpy as np

from eigentensor.cluster.remote import RemoteSession
from eigentensor.cluster.resident import Resident, check_workers, with_inputs_alone
from eigentensor.errors import ClusterError, EigenTensorError, LimitError, ServiceBusy
from eigentensor.numerics.storage import STORAGE
from eigentensor.program import Program, Role
from eigentensor.program.model import Kind
from eigentensor.reexecution.inputs import Tensors
from eigentensor.runtime.sandbox.ready import ReadyProgram
from eigentensor.runtime.sandbox.returned import Observed
from eigentensor.runtime.sandbox.slots import SLOTS
from eigentensor.runtime.sandbox.together import states_size

STATES = 1 << 30  #: bytes of the states of calls that stay at a cluster


def lacks(session: RemoteSession, program: Program, repeat: int) -> tuple[int, int] | None:
    """Bytes that a program, repeated so often, needs at one worker by the plan for those that are there, and those that
    there are, if they are too few. Raises WorkerLost where there is no worker."""
    bare = with_inputs_alone(program)
    renewed = {bare.names[Kind.STATE, name]: name for name in program.new_states} if repeat > 1 else {}
    held, memory = session.fit(session.define(bare.program), renewed)
    return (held, memory) if held > memory else None


class ProgramThere(ReadyProgram):
    """A program that is ready in a session, which lives as long as this does. One that was lost, or in which a call
    took too long, is begun anew by the next call, which brings the weights again."""

    def __init__(self, begin: Callable[[], RemoteSession], program: Program, weights: Tensors, seconds: float) -> None:
        """`seconds` are those of a start, compiling included."""
        self._begin, self._program, self._weights, self._seconds = begin, program, weights, seconds
        self._lock = threading.Lock()
        self._held: tuple[RemoteSession, Resident] | None = None

    @property
    def is_warm(self) -> bool:
        """Whether its session is there."""
        return self._held is not None

    def warm(self) -> None:
        """Begins the session if there is none, and lets a worker be ready by a run on zeros. Raises LimitError where no
        plan has room for the program, ClusterError, and what the execution raises."""
        with self._lock:
            if self._held is not None:
                return
            session, resident = self._begun()
            try:
                session.within(self._seconds)
                check_workers(session)
                if (lack := lacks(session, self._program, self._program.max_repeat)) is not None:
                    raise LimitError(f"it needs {lack[0]:,} bytes of memory at a worker, there are {lack[1]:,}")
                resident.run(*_zeros(self._program))
                session.within(None)
            except EigenTensorError:
                self._end()
                raise

    def run(
        self, tensors: Tensors, variables: Mapping[str, int], repeat: int, *, keep: Collection[int], seconds: float
    ) -> Observed:
        """As `ReadyProgram.run`. Raises ServiceBusy where the cluster is away, or lets nobody in."""
        with self._lock:
            end = time.monotonic() + seconds
            try:
                session, resident = self._begun()
                session.within(seconds)
                observed = resident.run(tensors, variables, repeat, keep)
                session.within(None)
            except ClusterError as error:
                self._end()
                if time.monotonic() >= end:
                    raise LimitError("the cluster took too long") from error
                raise ServiceBusy("the operator's cluster is away", fix="Call again, or another operator.") from error
            return observed

    def close(self) -> None:
        """Ends the session; the next call begins another one."""
        with self._lock:
            self._end()

    def _begun(self) -> tuple[RemoteSession, Resident]:
        if self._held is None:
            session = self._begin()
            kept = min(SLOTS, STATES // max(1, states_size(self._program)))
            self._held = session, Resident(session, self._program, self._weights, kept=kept)
        return self._held

    def _end(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held[0].close()


def _zeros(program: Program) -> tuple[Tensors, dict[str, int]]:
    """Inputs, states and variables that a program can be run on."""
    opened = chain(program.named(Role.INPUT).values(), program.named(Role.STATE).values())
    return (
        {b.name: np.zeros(b.shape, STORAGE[b.dtype]) for b in opened},
        {variable.name: variable.minimum for variable in program.variables},
    )
