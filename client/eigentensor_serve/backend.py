"""What executes: a market of operators (`paid`), or this machine (`local`). The routes know only this."""

import asyncio
import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from eigentensor.program import Program
from eigentensor.task import objects as schemas
from eigentensor_client.files import Tensors
from eigentensor_client.orders import Terms
from eigentensor_serve.ledger import Budget, Job, Key
from eigentensor_serve.rows import Cut


@dataclass(frozen=True, slots=True)
class Ask:
    """What a caller wants executed. Programs, weights and states are named by their uuid; states may be tensors too.

    `stage` is what will be waited for: `checked` asks for a check with certainty. `app` is what asks, with a budget of
    its own. `as_lists` says that it came as lists of numbers: an answer in JSON has them, too; `cut` which
    rows of the outputs it asked for, if not all.
    """

    program: Program
    uuid: str
    inputs: Tensors
    terms: Terms
    weights: str | None = None
    states: Tensors | str = field(default_factory=dict)
    variables: Mapping[str, int] = field(default_factory=dict)
    repeat: int = 1
    stage: str = "result"
    app: str | None = None
    budget: Budget | None = None
    as_lists: bool = False
    cut: Cut | None = None

    def named(self, caller: str, key: str | None) -> Key:
        """The name of a caller's request, if it has one."""
        return Key(caller, "" if key is None else self.fingerprint, key)

    @property
    def fingerprint(self) -> str:
        """The same for two that ask for the same, however it was encoded."""
        states = self.states if isinstance(self.states, str) else _digests(self.states)
        rows = (self.cut.rows,) if self.cut else ()
        rest = (self.variables and sorted(self.variables.items()), self.repeat, self.stage, self.app, *rows)
        parts = (self.uuid, self.weights, states, _digests(self.inputs), rest, sorted(asdict(self.terms).items()))
        return hashlib.sha256(repr(parts).encode()).hexdigest()


def _digests(tensors: Tensors) -> list[tuple[str, str, tuple[int, ...], str]]:
    return [
        (name, array.dtype.str, array.shape, hashlib.sha256(np.ascontiguousarray(array).data).hexdigest())
        for name, array in sorted(tensors.items())
    ]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outputs of a task: as arrays, and as a safetensors file that is not to be written.

    `states_root` names its new states, from which another task can go on; 32 zero bytes where there are none.
    """

    program: Program
    outputs: Tensors
    file: Path
    states_root: bytes


class Backend(Protocol):
    """Safe for several threads. Errors are those of the tree."""

    is_local: bool
    #: Whether `reached` and `result` ask nobody: that takes less time than to change to a thread.
    is_prompt: bool

    def program(self, uuid: str) -> Program:
        """A program by its uuid. Raises BlobNotFound, ProgramError."""

    def is_warm(self, uuid: str) -> bool:
        """Whether a program is in memory, and what it needs is known: to ask for it takes no longer than its inputs."""

    def is_quick(self, ask: Ask) -> bool:
        """Whether it would be executed while it is asked for, in milliseconds, and waits for nobody and no disk."""

    def most_repeat(self, program: Program, uuid: str, states: str | None = None) -> int:
        """How often one execution may repeat a program that goes on from these states. Asks operators."""

    def quote(self, ask: Ask) -> dict[str, Any]:
        """What it would cost; nothing is sent."""

    def ask(self, ask: Ask, caller: str, key: str | None) -> Job:
        """Makes it a task, or finds the task that the key names. It is in the ledger before anything is sent."""

    def show(self, job: Job) -> schemas.Task:
        """The task as it stood last."""

    def reached(self, job: Job, stage: str) -> bool:
        """Whether a stage came true. Raises why it never will."""

    def result(self, job: Job) -> Outcome:
        """The verified result. Raises NotYet, BlobNotFound, WrongResult, or why there will be none."""

    def explain(self, job: Job) -> schemas.Explanation:
        """Why a task is where it is."""

    def cancel(self, job: Job) -> schemas.Task:
        """Takes back what nobody has begun; the task as it is then. Raises TaskError."""

    def receipt(self, job: Job) -> bytes:
        """The receipt's file. Raises NotYet; TaskError where there can be none."""

    def is_healthy(self) -> bool:
        """Whether what it stands on answers."""

    def close(self) -> None:
        """Ends its threads; what is under way goes on where it is."""


class Changes:
    """Says that a task has changed, not how: whoever waits for it looks again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}

    @contextmanager
    def watched(self, task: str) -> Iterator[asyncio.Event]:
        """An event that is set at a task's first change after this; look once more before you wait for it."""
        mine = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._waiting.setdefault(task, set()).add(mine)
        try:
            yield mine[1]
        finally:
            with self._lock:
                left = self._waiting.pop(task, set()) - {mine}
                if left:
                    self._waiting[task] = left

    def watched_tasks(self) -> list[str]:
        """The tasks that somebody waits for."""
        with self._lock:
            return list(self._waiting)

    def notify(self, task: str) -> None:
        """From any thread."""
        with self._lock:
            waiting = self._waiting.pop(task, set())
        for loop, event in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)
