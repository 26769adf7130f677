"""Memory that is shared with a sandboxed process: it keeps what somebody has, and lets nothing be changed."""

import mmap
import os

import numpy as np
import pytest

from eigentensor.graph import GraphBuilder
from eigentensor.runtime.sandbox import shared
from eigentensor.runtime.sandbox.shared import PIPED, Shared, left_by, mapped

SIZE = 4 * PIPED


def filled(value: int, size: int = SIZE) -> np.ndarray:
    array = np.full(size, value, np.uint8)
    array.flags.writeable = False
    return array


def seen(of: Shared) -> np.ndarray:
    """What a process sees that it is given."""
    given, _ = mapped(*map(os.dup, of.files))
    return given


def test_what_is_given_stays_where_it_is_as_long_as_it_lives() -> None:
    of, first, second, third = Shared(2 * SIZE), filled(1), filled(2), filled(3)
    memory = seen(of)
    assert of.places([first], [first]) == of.places([first], [first]) == [0]
    assert of.places([second, first], [second, first]) == [SIZE, 0]
    assert memory[0] == 1 and memory[SIZE] == 2
    del second
    assert of.places([third, first], [third, first]) == [SIZE, 0] and memory[SIZE] == 3
    of.close()


def test_where_there_is_no_room_what_the_run_does_not_need_makes_some_and_the_rest_is_piped() -> None:
    of, each = Shared(2 * SIZE), [filled(n) for n in range(3)]
    assert of.places(each, each) == [0, SIZE, None]
    assert of.places(each[2:], each[2:]) == [0] and seen(of)[0] == 2
    open_to_all = np.zeros(SIZE, np.uint8)
    small = filled(1, PIPED)
    assert of.places([open_to_all, small], [open_to_all, small]) == [None, None]
    of.close()


def test_a_view_keeps_what_was_taken_and_the_process_reads_it_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "RETURNED", mmap.PAGESIZE)
    of = Shared(2 * SIZE)
    memory, left = mapped(*map(os.dup, of.files))
    left[:SIZE], left[SIZE : 2 * SIZE] = 7, 8
    view = of.taken(0, SIZE).view(np.float32).reshape(2, -1)[1]
    other = of.taken(SIZE, SIZE)
    left[:] = 0
    assert memory[0] == 7 and memory[SIZE] == 8 and not view.flags.writeable
    assert of.places([view], [view]) == [SIZE // 2] and of.places([other], [other]) == [SIZE]
    assert (view.view(np.uint8) == 7).all() and of.taken(0, SIZE)[0] == 0 and (view.view(np.uint8) == 7).all()
    del view
    of.places([], [])
    assert memory[0] == 0, "it is the system's again"
    of.close()
    assert other[0] == 8


def test_results_are_left_one_after_the_other_as_far_as_there_is_room() -> None:
    builder = GraphBuilder()
    x = builder.input("x", 3 * PIPED)
    sizes = [PIPED, PIPED + 4, 3 * PIPED, PIPED + 8]
    program = builder.compile({f"o{n}": x[: size // 4] + n for n, size in enumerate(sizes)}).program
    assert [at for _, at in left_by(program, 3 * PIPED)] == [None, 0, None, PIPED + 64]


def test_a_process_cannot_write_to_what_it_is_given_nor_change_a_size() -> None:
    of = Shared(SIZE)
    given, left = of.files
    for act in (
        lambda: mmap.mmap(given, SIZE),
        lambda: os.pwrite(given, b"x", 0),
        lambda: os.ftruncate(given, 0),
        lambda: os.ftruncate(left, 0),
        lambda: os.ftruncate(left, shared.LEFT + 1),
    ):
        with pytest.raises(OSError, match=r"denied|descriptor|argument|permitted"):
            act()
    of.close()
