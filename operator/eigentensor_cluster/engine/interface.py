"""What the dispatcher asks of whoever executes programs."""

from collections.abc import Awaitable, Sequence
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Program
from eigentensor.sharding.signals import Hint, Signals

NO_SIGNALS = Signals()


class Work(NamedTuple):
    """A program of a session on tensors by the cluster's numbers: of all inputs, and of results, where 0 keeps none.

    `names` are those of signals by number of the call, `signals` what they mean in the session.
    """

    session: int
    root: bytes
    program: Program
    encoded: bytes
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    variables: tuple[int, ...]
    names: tuple[tuple[int, str], ...] = ()
    signals: Signals = NO_SIGNALS

    def hints(self, slots: int) -> tuple[Hint | None, ...]:
        """What the signals say about each call where there are so many slots; nothing if they say it about none."""
        if slots == 1 or not self.names or not self.signals.by_name:
            return ()
        names, there = dict(self.names), range(slots)
        hints = tuple(self.signals.hint(names.get(call), there) for call in range(len(self.program.calls)))
        return hints if any(hints) else ()


class Spent(NamedTuple):
    """What an execution took: seconds of a slot, and kernels that were compiled for it."""

    seconds: float
    compiled: int


class Worker(Protocol):
    """Some slots that execute programs, and the tensors there. Sessions cannot reach each other's tensors.

    What is asked of a worker that went away raises WorkerLost. A worker does things in the order in which they are
    asked; its methods are called in one event loop.
    """

    name: str
    host: str
    device: str
    slots: int
    is_lost: bool  #: whether it went away

    def put(self, session: int, number: int, value: NDArray[Any], dtype: DType) -> Awaitable[None]:
        """Brings a tensor there."""

    def run(self, work: Work) -> Awaitable[Spent]:
        """Executes a program; its results stay there. Raises what the execution raises."""

    def get(self, session: int, number: int) -> Awaitable[NDArray[Any]]:
        """A tensor that is there."""

    def at_hand(self, session: int, number: int) -> NDArray[Any] | None:
        """A tensor that is there, if this process has it."""

    def free(self, session: int, numbers: Sequence[int]) -> None:
        """Forgets tensors."""

    def end(self, session: int) -> None:
        """Forgets all that there is of a session."""
