"""A tensor of a session: where its elements are, what made it, and whether it can be made again.

Programs are pure and their bits are fixed: a tensor whose elements went with a worker is made again from what it was
made of, with the same bits. So the way it came is kept until there is a copy of it here.
"""

import asyncio
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

from numpy.typing import NDArray

from eigentensor.cluster.frames import Failed, failure
from eigentensor.errors import EigenTensorError
from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Program
from eigentensor.regions.boxes import Box, Shape
from eigentensor.sharding.layout import is_whole
from eigentensor_cluster.engine.interface import Worker

DEPTH = 16  #: runs that are executed again at most, one behind the other, for a tensor that is lost


class Poison(NamedTuple):
    """Why there is no tensor: frame `cause` of its session failed."""

    cause: int
    error: EigenTensorError

    def answer(self, asked: int) -> Failed:
        """The answer to whoever asks for the tensor."""
        return failure(asked, self.cause, self.error)


class Lying(NamedTuple):
    """A box of a tensor, and where it is: at a slot of a worker, of which it is that number."""

    worker: Worker
    slot: int
    box: Box


@dataclass(eq=False, slots=True)
class Defined:
    """A program of a session: its root, and what each run of it is expected to take, in seconds of a slot."""

    root: bytes
    program: Program
    encoded: bytes
    signals: tuple[tuple[int, str], ...] = ()
    seconds: float = 0.0
    size: int = 0  #: bytes of all its buffers, if they were counted
    shared: dict[Any, Any] = field(default_factory=dict)  #: plans of it, by what they are plans for


@dataclass(eq=False, slots=True)
class Recipe:
    """A run: a program on tensors, as frame `sequence` asked for. It gives the same bits whenever it is executed."""

    defined: Defined
    inputs: tuple["Tensor", ...]
    variables: tuple[int, ...]
    sequence: int
    depth: int = 0  #: runs that are executed again for its results, one behind the other, if all are lost; when done


@dataclass(eq=False, slots=True, weakref_slot=True)
class Tensor:
    """A tensor that there is, or will be, or that is poisoned. `number` is the cluster's own for it."""

    number: int
    dtype: DType
    shape: tuple[int, ...]
    made: Recipe | None = None  #: None: its elements came from the client, or there is a copy here
    index: int = 0  #: of the result that it is
    copy: NDArray[Any] | None = None
    places: set[Worker] = field(default_factory=set)  #: where it is whole
    axes: Shape = ()  #: along which its boxes lie
    lies: tuple[Lying, ...] = ()  #: its boxes, if it was made in boxes
    brought: dict[Worker, list[Box]] = field(default_factory=dict)  #: boxes along its shape that were brought besides
    coming: dict[Worker, "asyncio.Task[None]"] = field(default_factory=dict)  #: where it is under way to
    poison: Poison | None = None
    is_pending: bool = False  #: a job that makes it is queued, or under way
    is_held: bool = True  #: its client has a handle of it
    is_counted: bool = True  #: its bytes count as held by its session
    uses: int = 0  #: jobs and questions that wait for it, or read it
    waiting: list["asyncio.Future[None]"] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of its elements."""
        return prod(self.shape) * self.dtype.size

    @property
    def is_there(self) -> bool:
        """Whether its elements are somewhere."""
        return self.copy is not None or any(not worker.is_lost for worker in self.places) or bool(self.lying)

    @property
    def lying(self) -> tuple[Lying, ...]:
        """Its boxes at workers that are there; none where that is not all of it."""
        if not any(of.worker.is_lost for of in self.lies):
            return self.lies
        there = tuple(of for of in self.lies if not of.worker.is_lost)
        return there if is_whole(tuple(of.box for of in there), self.axes) else ()

    @property
    def is_in_boxes(self) -> bool:
        """Whether it is nowhere whole, but in boxes at workers."""
        return self.copy is None and bool(self.lies) and not any(not worker.is_lost for worker in self.places)

    @property
    def holders(self) -> set[Worker]:
        """Workers that have something of it."""
        return {*self.places, *self.brought, *(of.worker for of in self.lies)}

    def forget_places(self) -> None:
        """No worker has anything of it any more."""
        self.places.clear()
        self.brought.clear()
        self.lies = ()

    @property
    def is_settled(self) -> bool:
        """Whether who waits for it need not wait any more."""
        return self.poison is not None or self.is_there

    @property
    def depth(self) -> int:
        """Runs that would be executed again for it, one behind the other, if all workers were lost."""
        return self.made.depth if self.made is not None and self.copy is None else 0

    def settle(self) -> None:
        """Wakes who waits for it."""
        self.is_pending = False
        for future in self.waiting:
            if not future.done():
                future.set_result(None)
        self.waiting.clear()


@dataclass(eq=False, slots=True)
class Job:
    """A run that is to be executed for some of its results."""

    recipe: Recipe
    outputs: list[Tensor]
    losses: int = 0  #: workers that went away with it

    @property
    def poison(self) -> Poison | None:
        """The poison of the first of its inputs that has some."""
        return next((one.poison for one in self.recipe.inputs if one.poison is not None), None)

    @property
    def is_waiting(self) -> bool:
        """Whether another run is to make one of its inputs."""
        return any(one.is_pending for one in self.recipe.inputs)

    @property
    def is_ready(self) -> bool:
        """Whether all inputs are somewhere."""
        return all(one.is_there for one in self.recipe.inputs)


def revived(tensor: Tensor) -> list[Job]:
    """The jobs that make a lost tensor again, in an order in which they can be executed; what they make is pending."""
    jobs: list[Job] = []
    _revive(tensor, jobs)
    return jobs


def _revive(tensor: Tensor, jobs: list[Job]) -> None:
    if tensor.is_settled or tensor.is_pending:
        return
    if (job := next((job for job in jobs if job.recipe is tensor.made), None)) is not None:
        job.outputs.append(tensor)
        tensor.is_pending = True
        return
    assert tensor.made is not None, "what came from the client has a copy"
    tensor.is_pending = True
    for one in tensor.made.inputs:
        _revive(one, jobs)
        one.uses += 1
    jobs.append(Job(tensor.made, [tensor]))
