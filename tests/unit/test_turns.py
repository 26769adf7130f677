"""What waits goes on in the order of its clocks: in the operator's lanes, and before a player's executions."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event

from eigentensor.errors import EigenTensorError
from eigentensor.player import Turns
from eigentensor_operator.lanes import Lane


def test_a_lane_does_what_is_due_first_and_then_what_came_first() -> None:
    lane, free, done = Lane("test", 1), Event(), Event()
    order: list[str] = []
    lane.put(lambda: (free.wait(60), None)[1])
    for by, name in ((5, "beyond"), (30, "late"), (10, "first"), (20, "second"), (20, "third")):
        lane.put(partial(order.append, name), by, behind=name == "beyond")
    lane.put(done.set, 40, behind=True)
    free.set()
    assert done.wait(60) and order == ["first", "second", "third", "late", "beyond"]


def test_a_lane_outlives_every_job() -> None:
    lane, done = Lane("test", 2), Event()
    for error in (ValueError, KeyError, RecursionError, MemoryError, EigenTensorError):
        lane.put(partial(fail, error("a bad answer")))
    lane.put(done.set)
    assert done.wait(60)


def fail(error: Exception) -> None:
    raise error


def test_of_those_that_wait_for_an_execution_the_shortest_clock_goes_first() -> None:
    turns, order = Turns(), list[int]()

    def take(by: int) -> None:
        with turns.turn(by):
            order.append(by)

    with ThreadPoolExecutor(3) as pool:
        with turns.turn(0):
            taken = [pool.submit(take, by) for by in (30, 10, 20)]
            end = time.monotonic() + 60
            while turns.waiting < 3:
                assert time.monotonic() < end
                time.sleep(0.001)
            assert order == []
        assert [future.result() for future in taken] == [None] * 3
    assert order == [10, 20, 30]
