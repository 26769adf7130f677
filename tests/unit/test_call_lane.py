"""The lane of paid calls, with work that only remembers what it was asked to do."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from eigentensor.errors import ServiceBusy
from eigentensor.program.binding import Results
from eigentensor_operator.calls.channels import Answer, Ticket
from eigentensor_operator.calls.lane import Done, Lane

PATIENCE = 30.0  # seconds


class Remembering:
    """`Work` whose writes wait until they are let go."""

    def __init__(self) -> None:
        self.executed: list[str] = []
        self.groups: list[list[str]] = []
        self.stopped = ""
        self.is_full = False
        self.writing, self.go, self.many = threading.Event(), threading.Event(), threading.Event()

    async def execute(self, tickets: Sequence[Ticket]) -> Sequence[Results | Exception]:
        self.executed += [ticket.caller for ticket in tickets]
        if len(self.executed) >= 4:
            self.many.set()
        return [Results({}, {}) for _ in tickets]

    async def finish(self, ticket: Ticket, outcome: Results | Exception) -> Done | Answer:
        nothing: Any = ticket.caller
        return Done(ticket, nothing, {}, nothing)

    def failed(self, ticket: Ticket) -> None:
        raise AssertionError("no call fails here")

    def write(self, group: list[Done]) -> None:
        self.groups.append([done.ticket.caller for done in group])
        self.writing.set()
        assert self.go.wait(PATIENCE)
        if self.is_full:
            raise sqlite3.OperationalError("database or disk is full")

    def written(self, ticket: Ticket) -> None:
        pass

    def stop(self, why: str) -> None:
        self.stopped = why


def ticket(name: str) -> Ticket:
    nothing: Any = None
    alone: Any = SimpleNamespace(execution=SimpleNamespace(most=1))
    return Ticket(nothing, alone, nothing, nothing, b"", 0, {}, {}, {}, 0, name)


@pytest.fixture
def work() -> Iterator[Remembering]:
    work = Remembering()
    yield work
    work.go.set()


@pytest.fixture
def lane(work: Remembering) -> Iterator[Lane]:
    lane = Lane(work)
    yield lane
    work.go.set()
    lane.close()


def put(lane: Lane, *names: str) -> list[Ticket]:
    tickets = [ticket(name) for name in names]
    for one in tickets:
        lane.put(one)
    return tickets


def test_calls_are_executed_while_others_are_written_and_then_written_together(work: Remembering, lane: Lane) -> None:
    first = put(lane, "a")
    assert work.writing.wait(PATIENCE)
    others = put(lane, "b", "c", "d")
    assert work.many.wait(PATIENCE) and work.groups == [["a"]]
    assert not any(one.future.done() for one in (*first, *others))
    work.go.set()
    answers: list[Any] = [one.future.result(PATIENCE) for one in (*first, *others)]
    assert answers == ["a", "b", "c", "d"]
    assert work.groups == [["a"], ["b", "c", "d"]]


def test_behind_a_group_that_cannot_be_written_nothing_is(work: Remembering, lane: Lane) -> None:
    work.is_full = True
    first = put(lane, "a")
    assert work.writing.wait(PATIENCE)
    others = put(lane, "b", "c", "d")
    assert work.many.wait(PATIENCE)
    work.go.set()
    for one in (*first, *others):
        with pytest.raises(ServiceBusy, match="cannot write down"):
            one.future.result(PATIENCE)
    assert work.groups == [["a"]] and "disk is full" in work.stopped


def test_what_comes_after_calls_finds_them_on_disk_and_no_other_executed(work: Remembering, lane: Lane) -> None:
    put(lane, "a")
    assert work.writing.wait(PATIENCE)
    seen = lane.after(lambda: (list(work.executed), list(work.groups)))
    put(lane, "b", "c", "d")
    work.go.set()
    assert seen.result(PATIENCE) == (["a"], [["a"]])
    assert work.many.wait(PATIENCE)
