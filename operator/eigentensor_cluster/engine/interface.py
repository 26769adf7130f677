"""What the dispatcher asks of whoever executes programs."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from eigentensor.cluster.session import NOTHING
from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Program
from eigentensor.regions.boxes import Box, Shape
from eigentensor.sharding.plan import WorkerPlan

KNOWN = 1024  #: programs that a worker knows from its door at a time, and plans: those that were used last


class Work(NamedTuple):
    """A program of a session on tensors by the cluster's numbers: of all inputs, and of results, where 0 keeps none."""

    session: int
    root: bytes
    program: Program
    encoded: bytes
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    variables: tuple[int, ...]


class Part(NamedTuple):
    """A worker's part of a plan: which of the addresses each slot of the plan is at, and what its own slots do."""

    number: int
    slots: tuple[int, ...]
    addresses: tuple[str, ...]
    parts: Mapping[int, WorkerPlan]


class Spent(NamedTuple):
    """What an execution took: seconds of a slot, kernels that were compiled for it, and bytes sent to other slots.
    `small` are results that came with it, by number of the result."""

    seconds: float
    compiled: int
    sent: int = 0
    small: Mapping[int, NDArray[Any]] = NOTHING


class Worker(Protocol):
    """Some slots that execute programs, and the tensors there. Sessions cannot reach each other's tensors.

    What is asked of a worker that went away raises WorkerLost. A worker does things in the order in which they are
    asked; its methods are called in one event loop.
    """

    name: str
    host: str
    node: str  #: of Ray, where Ray started it
    device: str
    slots: int
    memory: int  #: bytes that each slot has for a program's buffers
    is_lost: bool  #: whether it went away

    @property
    def addresses(self) -> tuple[str, ...] | None:
        """Where others bring boxes; None if it takes no part in what is shared out."""

    def put(self, session: int, number: int, value: NDArray[Any], dtype: DType) -> Awaitable[None]:
        """Brings a tensor there."""

    def put_box(
        self, session: int, number: int, shape: Shape, box: Box, value: NDArray[Any], dtype: DType
    ) -> Awaitable[None]:
        """Brings a box of a tensor of that shape there."""

    def run(self, work: Work) -> Awaitable[Spent]:
        """Executes a program; its results stay there. Raises what the execution raises."""

    def share(self, work: Work, run: int, part: Part) -> Awaitable[Spent]:
        """Executes a part of a run whose other parts are asked of others at the same time; boxes of its results stay
        there. Raises what the execution raises, and WorkerLost if others went away with what it waits for."""

    def stop(self, run: int) -> None:
        """Lets nobody wait any more for boxes of a run of which a part failed elsewhere."""

    def get(self, session: int, number: int) -> Awaitable[NDArray[Any]]:
        """A tensor that is there."""

    def get_box(self, session: int, number: int, axes: Shape, box: Box) -> Awaitable[NDArray[Any]]:
        """A box of a tensor that is there, along these axes of it."""

    def at_hand(self, session: int, number: int) -> NDArray[Any] | None:
        """A tensor that is there whole, if this process has it."""

    def free(self, session: int, numbers: Sequence[int]) -> None:
        """Forgets tensors."""

    def end(self, session: int) -> None:
        """Forgets all that there is of a session."""
