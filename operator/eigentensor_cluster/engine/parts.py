"""Parts of plans, as the slots of one process execute them, and boxes of tensors that are there."""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigentensor.cache import Cache, default_folder
from eigentensor.latest import Latest
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.model import Program, Role
from eigentensor.regions.boxes import Box, Shape, covers, extents_of_box, reshaped, slices, whole_box, within
from eigentensor.runtime.sharded.machines import Machine, machine_of
from eigentensor.runtime.sharded.worker import Worker
from eigentensor.sharding.layout import axes_of
from eigentensor.sharding.plan import WorkerPlan

Values = NDArray[Any]

READY = 16  #: plans that are held ready, with all memory that they take
ASSIGNED = 1024  #: of a session that are known


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
    """Holds parts of plans ready. Safe for several threads."""

    def __init__(self, device: str, threads: int) -> None:
        self._device, self._threads = device, threads
        self._machine: Machine | None = None
        self._lock = threading.Lock()
        self._ready: OrderedDict[tuple[int, int], dict[int, Worker]] = OrderedDict()

    def ready(self, session: int, plan: int, assigned: Assigned) -> dict[int, Worker]:
        """What executes a plan, by slot, compiled if need be. Raises ExecutionError for what cannot be compiled."""
        with self._lock:
            key = session, plan
            if key not in self._ready:
                machine = self._machine = self._machine or machine_of(
                    self._device, Cache(default_folder()), self._threads
                )
                made = {slot: Worker(assigned.program, part, machine) for slot, part in assigned.parts.items()}
                for worker in made.values():
                    worker.give(_constants(assigned.program))
                self._ready[key] = made
                while len(self._ready) > READY:
                    self._ready.popitem(last=False)
            self._ready.move_to_end(key)
            return self._ready[key]

    def end(self, session: int) -> None:
        """Forgets what is ready for a session."""
        with self._lock:
            for key in [key for key in self._ready if key[0] == session]:
                del self._ready[key]


def _constants(program: Program) -> dict[int, Values]:
    axes = axes_of(program)
    return {
        number: np.frombuffer(b.data, STORAGE[b.dtype].newbyteorder("<")).reshape(axes[number])
        for number, b in enumerate(program.buffers)
        if b.role is Role.CONSTANT
    }
