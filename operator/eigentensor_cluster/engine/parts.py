"""Parts of plans, as the slots of one process execute them, and boxes of tensors that are there."""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from numpy.typing import NDArray

from eigentensor.cache import Cache, default_folder
from eigentensor.latest import Latest
from eigentensor.program.model import Program
from eigentensor.regions.boxes import Box, Shape, covers, extents_of_box, reshaped, slices, whole_box, within
from eigentensor.runtime.sandbox.boxed import SlotPart
from eigentensor.runtime.sharded.machines import Machine, machine_of
from eigentensor.runtime.sharded.mail import Port
from eigentensor.runtime.sharded.worker import Worker, constants
from eigentensor.sharding.plan import WorkerPlan

Values = NDArray[Any]

READY = 16  #: plans that are held ready, with all memory that they take
ASSIGNED = 1024  #: of a session that are known


class Key(NamedTuple):
    """Which part of a plan: that of a slot of it."""

    session: int
    plan: int
    slot: int


class Assigned(NamedTuple):
    """The part of a plan that is this process's: of each slot of the plan where it is, and what is done by those that
    are here."""

    program: Program
    slots: tuple[str, ...]
    parts: Mapping[int, WorkerPlan]


class Boxes(NamedTuple):
    """Elements of a box of a tensor along these axes, in its shape."""

    axes: Shape
    box: Box
    elements: Values

    def part(self, axes: Shape, box: Box) -> Values | None:
        """A box along other axes, if all of it is here."""
        own = reshaped(self.box, self.axes, axes)
        if own is None or not covers(own, box):
            return None
        part: Values = self.elements.reshape(extents_of_box(own))[slices(within(own, box))]
        return part


@dataclass(slots=True)
class Store:
    """What one session has here, by number: whole tensors; boxes of others, by slot; parts of plans."""

    whole: dict[int, Values] = field(default_factory=dict)
    boxes: dict[int, dict[Any, Boxes]] = field(default_factory=dict)
    assigned: Latest[int, Assigned] = field(default_factory=lambda: Latest(ASSIGNED))

    def part(self, number: int, axes: Shape, box: Box) -> Values | None:
        """A box of a tensor along some axes of it; None if it is not here."""
        return next((part for held in self._held(number) if (part := held.part(axes, box)) is not None), None)

    def forget(self, number: int) -> None:
        """Forgets a tensor."""
        self.whole.pop(number, None)
        self.boxes.pop(number, None)

    def _held(self, number: int) -> Iterator[Boxes]:
        if (whole := self.whole.get(number)) is not None:
            shape = whole.shape or (1,)
            yield Boxes(shape, whole_box(shape), whole)
        yield from list(self.boxes.get(number, {}).values())


class Parts:
    """Holds parts of plans ready, in this process. Safe for several threads, of which one has a part at a time."""

    def __init__(self, device: str, threads: int) -> None:
        self._device, self._threads = device, threads
        self._machine: Machine | None = None
        self._lock = threading.Lock()
        self._ready: OrderedDict[Key, Worker] = OrderedDict()

    def share(
        self, part: SlotPart, given: Sequence[Values], variables: Sequence[int], wanted: Sequence[int], port: Port
    ) -> list[Values]:
        """As `Ready.share`. Raises ExecutionError for what cannot be compiled."""
        worker = self._worker(part)
        for piece, elements in zip(part.given, given, strict=True):
            worker.fill(piece, elements)
        worker.run(variables, port)
        return [worker.pieces[piece].copy() for piece in wanted]

    def end(self, session: int) -> None:
        """Forgets what is ready for a session."""
        with self._lock:
            for key in [key for key in self._ready if key.session == session]:
                del self._ready[key]

    def _worker(self, part: SlotPart) -> Worker:
        with self._lock:
            key = part.key
            assert isinstance(key, Key)
            if key not in self._ready:
                machine = self._machine = self._machine or machine_of(
                    self._device, Cache(default_folder()), self._threads
                )
                self._ready[key] = worker = Worker(part.program, part.planned, machine)
                worker.give(constants(part.program))
                while len({of[:2] for of in self._ready}) > READY:
                    self._ready.popitem(last=False)
            self._ready.move_to_end(key)
            return self._ready[key]
