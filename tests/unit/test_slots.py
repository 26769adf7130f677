"""Which states a process holds."""

from typing import Any

import numpy as np
import pytest

from eigentensor.program.model import Role
from eigentensor.runtime.memory.plan import estimate_memory_requirements
from eigentensor.runtime.sandbox.slots import SLOTS, Slots
from eigentensor.runtime.sandbox.together import held, states_size
from support.stories.calls import counting, scaling


def states(value: float) -> dict[str, Any]:
    return {"a": np.full(3, value), "b": np.full(2, value)}


def test_states_are_held_by_the_arrays_that_they_are() -> None:
    slots, one, two = Slots(2), states(1), states(2)
    assert slots.holding(one) is None
    assert slots.free(3) == [0, 1, None]
    slots.keep(0, one)
    slots.keep(1, two)
    assert slots.holding(two | {"input": np.ones(1)}) == 1 and slots.holding(one) == 0
    assert slots.holding(states(1)) is None and slots.holding(one | {"b": two["b"]}) is None
    assert slots.holding({"a": one["a"]}) is None


def test_states_that_are_held_cannot_be_written_to() -> None:
    slots, one = Slots(1), states(1)
    slots.keep(0, one)
    with pytest.raises(ValueError, match="read-only"):
        one["a"][0] = 7


def test_those_used_least_of_late_make_room() -> None:
    slots, some = Slots(3), [states(value) for value in range(3)]
    for slot, one in enumerate(some):
        slots.keep(slot, one)
    assert slots.holding(some[0]) == 0
    assert slots.free(1) == [1] and slots.holding(some[1]) is None
    assert slots.free(3, but=[2]) == [1, 0, None] and slots.holding(some[2]) == 2


def test_a_process_holds_as_many_as_half_of_what_is_left_takes() -> None:
    program = counting(1 << 16)
    size, whole = states_size(program), max(estimate_memory_requirements(program, "CPU").values())
    weights = sum(b.elements * b.dtype.size for b in program.buffers if b.role is Role.WEIGHT)
    both = whole + whole - weights  # a program counted twice, as if it were a width
    assert size == 4 << 16
    assert held([program], whole, "CPU") == 0 == held([program], whole - 1, "CPU")
    assert held([program], whole + 4 * size, "CPU") == 2
    assert held([program, program], both + 6 * size, "CPU") == 3
    assert held([program], 1 << 40, "CPU") == SLOTS
    assert held([scaling()], 1 << 40, "CPU") == 0
