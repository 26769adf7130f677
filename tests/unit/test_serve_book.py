"""What a service writes down before it pays."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from eigentensor.errors import BudgetSpent, KeyReused, ServiceBusy, TaskNotFound
from eigentensor_serve import ledger as books
from eigentensor_serve.ledger import DAY, Book, Budget, Job, Key, State

NOON = 20_000 * DAY + DAY / 2
SAID = {"stage": "asked"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "book.sqlite"


def job(task: str, *, key: str | None = None, asks: str = "this", escrow: int = 10, at: float = NOON) -> Job:
    return Job(task, Key("alice", asks, key), None, at, {"nonce": 1}, escrow)


def test_a_key_names_one_task_over_restarts(path: Path) -> None:
    book = Book(path)
    first = book.add(job("a", key="k"), SAID)
    book.close()
    book = Book(path)
    assert book.add(job("b", key="k"), SAID) == book.known(Key("alice", "this", "k")) == first
    assert book.known(Key("bob", "this", "k")) is None, "keys are each caller's own"
    assert [found.task for _, found in book.jobs()] == ["a"]
    book.close()


def test_a_key_of_another_request_is_refused(path: Path) -> None:
    book = Book(path)
    book.add(job("a", key="k"), SAID)
    with pytest.raises(KeyReused, match="task a"):
        book.add(job("b", key="k", asks="that"), SAID)
    book.close()


def test_a_key_whose_task_never_was_is_free_again(path: Path) -> None:
    book = Book(path)
    book.add(job("a", key="k"), SAID)
    book.tell("a", {"stage": "void"}, state=State.VOID, cost=0)
    assert book.add(job("b", key="k", asks="that"), SAID).task == "b"
    book.close()


def test_a_budget_counts_what_may_still_be_spent_and_then_what_was(path: Path) -> None:
    book, budget = Book(path), (Budget(day=25), None)
    book.add(job("a"), SAID, budget)
    book.add(job("b"), SAID, budget)
    with pytest.raises(BudgetSpent) as refused:
        book.add(job("c"), SAID, budget)
    assert (refused.value.limit, refused.value.spent, refused.value.needed) == (25, 20, 10)
    book.tell("a", {"stage": "final"}, state=State.ENDED, cost=4)
    assert book.spent() == 14
    book.add(job("c"), SAID, budget)
    book.close()


def test_a_day_begins_at_midnight_and_the_whole_never_ends(path: Path) -> None:
    book = Book(path)
    book.add(job("a"), SAID, (Budget(10, 25), None))
    book.add(job("b", at=NOON + DAY), SAID, (Budget(10, 25), None))
    with pytest.raises(BudgetSpent, match="in all"):
        book.add(job("c", at=NOON + 2 * DAY), SAID, (Budget(10, 25), None))
    with pytest.raises(BudgetSpent, match="of today"):
        book.add(job("c", at=NOON + DAY * 1.4), SAID, (Budget(10, None), None))
    book.close()


def test_a_day_has_so_many_tasks_whatever_they_cost(path: Path) -> None:
    book, two = Book(path), (Budget(tasks=2), None)
    for task in "ab":
        book.add(job(task, escrow=0), SAID, two)
        book.tell(task, {"stage": "cancelled"}, state=State.ENDED, cost=0)
    with pytest.raises(ServiceBusy, match="2 tasks were asked for today"):
        book.add(job("c", escrow=0), SAID, two)
    book.add(job("c", escrow=0, at=NOON + DAY), SAID, two)
    book.close()


def test_an_app_has_a_budget_beside_that_of_all(path: Path) -> None:
    book, digits = Book(path), replace(job("a"), app="digits")
    book.add(digits, SAID, (Budget(30), None), (Budget(15), "digits"))
    with pytest.raises(BudgetSpent, match="app digits"):
        book.add(replace(digits, task="b"), SAID, (Budget(30), None), (Budget(15), "digits"))
    book.add(job("c"), SAID, (Budget(30), None))
    assert book.spent(app="digits") == 10 and book.spent() == 20
    book.close()


def test_events_are_numbered_within_their_task(path: Path) -> None:
    book = Book(path)
    for task in "ab":
        book.add(job(task), SAID)
    for task, stage in (("a", "open"), ("b", "open"), ("a", "final")):
        book.tell(task, {"stage": stage})
    assert [(e.number, e.said["stage"]) for e in book.events("a")] == [(1, "asked"), (2, "open"), (3, "final")]
    assert [e.number for e in book.events("a", after=2)] == [3]
    assert book.last("a") == {"stage": "final"}
    with pytest.raises(TaskNotFound):
        book.last("c")
    book.close()


def test_what_is_in_memory_is_what_is_written(path: Path) -> None:
    book, failed = Book(path), {"detail": "it failed"}
    book.add(job("a"), SAID)
    book.tell("a", {"stage": "open"}, state=State.OPEN)
    ended = replace(job("b"), state=State.ENDED, cost=0, outputs="x y z")
    assert book.add(ended, SAID, then=[{"stage": "running"}, {"stage": "local"}]) == ended
    book.add(job("c"), SAID)
    book.tell("c", {"stage": "failed"}, state=State.ENDED, cost=7, problem=failed)
    book.tell("c", {"stage": "final"})
    seen = [(book.job(task), book.last(task), book.events(task)) for task in "abc"]
    book.close()
    book = Book(path)
    assert [(book.job(task), book.last(task), book.events(task)) for task in "abc"] == seen
    assert [len(events) for _, _, events in seen] == [2, 3, 3]
    assert seen[2][0] == replace(job("c"), state=State.ENDED, cost=7, problem=failed)
    book.forget(NOON + 1, jobs=True)
    assert book.job("a").state is State.OPEN
    with pytest.raises(TaskNotFound):
        book.job("b")
    book.close()


def test_some_jobs_at_a_time_are_forgotten_the_oldest_first(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(books, "_FORGOTTEN", 2)
    with closing(Book(path)) as book:
        for number, task in enumerate("ecadb"):
            book.add(replace(job(task, at=NOON - number), state=State.ENDED, cost=0), SAID)
        for left in ("ace", "e", ""):
            book.forget(NOON + 1, jobs=True)
            assert {found.task for _, found in book.jobs()} == set(left)
            assert all(bool(book.events(task)) == (task in left) for task in "abcde")


def test_what_is_forgotten_is_not_remembered(path: Path) -> None:
    book = Book(path)
    book.add(replace(job("a"), state=State.ENDED, cost=0), SAID)
    book.forget(NOON + 1, jobs=True)
    for ask in (book.job, book.last):
        with pytest.raises(TaskNotFound):
            ask("a")
    book.close()


def test_pages_are_newest_first(path: Path) -> None:
    book = Book(path)
    for task in "abcde":
        book.add(job(task), SAID)
    first = book.jobs(limit=3)
    rest = book.jobs(before=first[-1][0], limit=3)
    assert [[found.task for _, found in page] for page in (first, rest)] == [["e", "d", "c"], ["b", "a"]]
    book.close()


def test_callers_have_pages_of_their_own(path: Path) -> None:
    book = Book(path)
    for number, caller in enumerate(("alice", "bob", "alice", "")):
        book.add(Job(str(number), Key(caller, "this"), None, NOON), SAID)
    assert [[found.task for _, found in book.jobs(caller)] for caller in ("alice", "bob", "")] == [
        ["2", "0"], ["1"], ["3", "2", "1", "0"],
    ]  # fmt: skip
    book.close()


def test_one_process_at_a_time_has_a_book(path: Path) -> None:
    book = Book(path)
    with pytest.raises(ServiceBusy):
        Book(path)
    book.close()
    Book(path).close()
