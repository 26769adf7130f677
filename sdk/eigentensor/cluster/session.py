"""What a client asks of whoever holds its tensors and executes its programs: the one interface of every session."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from eigentensor.errors import BindingError
from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Program, Role

SECONDS = 300.0  #: that one run may take at a cluster
PROGRAMS = 1024  #: that a session knows at a time: those that were defined or run last
#: The default of arguments that name nothing.
NOTHING: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """What a worker has done for a session so far. `seconds` are those in which it executed programs."""

    name: str
    runs: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Stats:
    """What a session holds now, and what it has done so far: `held` in bytes, `compiled` in kernels. `memory` are bytes
    that one program may take at most for its buffers where it is executed: 0 where there is no worker now, None if
    nothing but this machine bounds it."""

    handles: int
    held: int
    programs: int
    runs: int
    compiled: int
    workers: tuple[WorkerStats, ...] = field(default=())
    memory: int | None = None


class Session(Protocol):
    """Tensors by number and programs by root, wherever they are held and executed.

    Order is kept. All but `get` and `stats` may return before what they ask for is done, and then raise nothing of it:
    what fails poisons its outputs, and so does what reads them; `get` of one raises what failed first. A handle is a
    number that its client chooses, and gives once. A session belongs to one client; threads of it take turns.
    """

    def define(self, program: Program, signals: Mapping[int, str] = NOTHING) -> bytes:
        """Makes a program known, and gives its root, 32 bytes. It has inputs and outputs alone, no weights or states.

        `signals` are names by number of the call: hints, which never change a bit and are no part of the root. Of a
        program that is defined again the newer ones hold. Raises BindingError for weights and states.
        """

    def has(self, root: bytes) -> bool:
        """Whether a program is known still: of many, those are forgotten that were defined or run longest ago."""

    def put(self, handle: int, value: NDArray[Any], dtype: DType) -> None:
        """A tensor from the client, in its storage type; the array must not change afterwards."""

    def run(
        self,
        root: bytes,
        inputs: Mapping[str, int],
        outputs: Mapping[str, int],
        variables: Mapping[str, int] = NOTHING,
        freed: Sequence[int] = (),
    ) -> None:
        """Executes a defined program on the handles of all its inputs, by name; outputs that are named get handles.

        `freed` are forgotten once it is done; they may be among the inputs.
        """

    def get(self, handle: int) -> NDArray[Any]:
        """A tensor, shaped, in its storage type; it must not be written to. Raises what poisoned it, and BindingError
        for a number that holds nothing."""

    def free(self, handles: Sequence[int]) -> None:
        """Forgets tensors; numbers that hold nothing are passed over."""

    def configure(self, signals: str) -> None:
        """What the names of signals mean from here on, as the YAML text that says it."""

    def stats(self) -> Stats:
        """What it holds, and what it has done."""

    def close(self) -> None:
        """Ends the session: everything it held is forgotten. Whatever is asked of it afterwards raises
        ExecutionError."""


@runtime_checkable
class Preparing(Protocol):
    """A session that compiles programs where it is."""

    def prepare(self, root: bytes) -> None:
        """Returns when a defined program is compiled. Raises what hinders that, and BindingError for another root."""


def check_inputs_alone(program: Program) -> None:
    """Raises BindingError for weights and states."""
    if others := [b.name for b in program.buffers if b.role in (Role.WEIGHT, Role.STATE)]:
        raise BindingError(
            f"a session's programs have inputs alone; this one has weights or states: {', '.join(others)}",
            fix="Give them as inputs.",
        )
