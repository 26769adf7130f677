"""States that stay with the process that left them: a call that goes on from them does not bring them along again."""

from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import Any

from numpy.typing import NDArray

SLOTS = 32  #: calls whose states a process holds at most: those that 16 go on from, and those that they leave

States = Mapping[str, NDArray[Any]]


class Slots:
    """What a process holds, by slot. States are known by being the arrays that were handed out: `keep` makes them
    read-only."""

    def __init__(self, count: int) -> None:
        self._held: OrderedDict[int, States] = OrderedDict((slot, {}) for slot in range(count))

    def holding(self, tensors: States) -> int | None:
        """The slot whose states these tensors are, inputs beside them; None: there is none."""
        for slot, states in self._held.items():
            if states and all(tensors.get(name) is array for name, array in states.items()):
                self._held.move_to_end(slot)
                return slot
        return None

    def free(self, count: int, but: Collection[int | None] = ()) -> list[int | None]:
        """Slots for what so many calls leave, as far as there are some, of those used least of late: they hold nothing
        any more."""
        slots = [slot for slot in self._held if slot not in but][:count]
        for slot in slots:
            self._held[slot] = {}
        return [*slots, *[None] * (count - len(slots))]

    def keep(self, slot: int, states: States) -> None:
        """Notes that a slot holds these states."""
        for array in states.values():
            array.flags.writeable = False
        self._held[slot] = states
        self._held.move_to_end(slot)
