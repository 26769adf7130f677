"""What a service writes down before it pays."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from eigentensor.errors import BudgetSpent, KeyReused, ServiceBusy, TaskNotFound
from eigentensor.task.objects import Task
from eigentensor.web.documents import examples
from eigentensor_serve import ledger as ledgers
from eigentensor_serve.ledger import DAY, Budget, Job, Key, Ledger, State
from eigentensor_serve.rows import Cut

NOON = 20_000 * DAY + DAY / 2
TASK: Task = examples("eigentensor.schemas")["Task"]
ASKED: Task = TASK | {"stage": "asked"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def job(task: str, *, key: str | None = None, asks: str = "this", escrow: int = 10, at: float = NOON) -> Job:
    return Job(task, Key("alice", asks, key), None, at, {"nonce": 1}, escrow)


def test_a_key_names_one_task_over_restarts(path: Path) -> None:
    ledger = Ledger(path)
    first = ledger.add(job("a", key="k"), ASKED)
    ledger.close()
    ledger = Ledger(path)
    assert ledger.add(job("b", key="k"), ASKED) == ledger.known(Key("alice", "this", "k")) == first
    assert ledger.known(Key("bob", "this", "k")) is None, "keys are each caller's own"
    assert [entry.task for _, entry in ledger.jobs()] == ["a"]
    ledger.close()


def test_rows_that_were_asked_for_are_kept_also_in_a_file_of_an_earlier_version(path: Path) -> None:
    with closing(Ledger(path)) as ledger:
        ledger.add(job("a"), ASKED)
        ledger.database.rows("ALTER TABLE jobs DROP COLUMN cut")
    for _ in range(2):
        with closing(Ledger(path)) as ledger:
            cut = replace(job("b", key="k"), cut=Cut(3, ("sum",)))
            assert ledger.add(cut, ASKED).cut == Cut(3, ("sum",))
            assert [entry.cut for _, entry in ledger.jobs()] == [cut.cut, None]


def test_a_key_of_another_request_is_refused(path: Path) -> None:
    ledger = Ledger(path)
    ledger.add(job("a", key="k"), ASKED)
    with pytest.raises(KeyReused, match="task a"):
        ledger.add(job("b", key="k", asks="that"), ASKED)
    ledger.close()


def test_a_key_whose_task_never_was_is_free_again(path: Path) -> None:
    ledger = Ledger(path)
    ledger.add(job("a", key="k"), ASKED)
    ledger.record("a", TASK | {"stage": "void"}, state=State.VOID, cost=0)
    assert ledger.add(job("b", key="k", asks="that"), ASKED).task == "b"
    ledger.close()


def test_a_budget_counts_what_may_still_be_spent_and_then_what_was(path: Path) -> None:
    ledger, budget = Ledger(path), (Budget(day=25), None)
    ledger.add(job("a"), ASKED, budget)
    ledger.add(job("b"), ASKED, budget)
    with pytest.raises(BudgetSpent) as refused:
        ledger.add(job("c"), ASKED, budget)
    assert (refused.value.limit, refused.value.spent, refused.value.needed) == (25, 20, 10)
    ledger.record("a", TASK | {"stage": "final"}, state=State.ENDED, cost=4)
    assert ledger.spent() == 14
    ledger.add(job("c"), ASKED, budget)
    ledger.close()


def test_a_day_begins_at_midnight_and_the_whole_never_ends(path: Path) -> None:
    ledger = Ledger(path)
    ledger.add(job("a"), ASKED, (Budget(10, 25), None))
    ledger.add(job("b", at=NOON + DAY), ASKED, (Budget(10, 25), None))
    with pytest.raises(BudgetSpent, match="in all"):
        ledger.add(job("c", at=NOON + 2 * DAY), ASKED, (Budget(10, 25), None))
    with pytest.raises(BudgetSpent, match="of today"):
        ledger.add(job("c", at=NOON + DAY * 1.4), ASKED, (Budget(10, None), None))
    ledger.close()


def test_a_day_has_so_many_tasks_whatever_they_cost(path: Path) -> None:
    ledger, two = Ledger(path), (Budget(tasks=2), None)
    for task in "ab":
        ledger.add(job(task, escrow=0), ASKED, two)
        ledger.record(task, TASK | {"stage": "cancelled"}, state=State.ENDED, cost=0)
    with pytest.raises(ServiceBusy, match="2 tasks were asked for today"):
        ledger.add(job("c", escrow=0), ASKED, two)
    ledger.add(job("c", escrow=0, at=NOON + DAY), ASKED, two)
    ledger.close()


def test_an_app_has_a_budget_beside_that_of_all(path: Path) -> None:
    ledger, digits = Ledger(path), replace(job("a"), app="digits")
    ledger.add(digits, ASKED, (Budget(30), None), (Budget(15), "digits"))
    with pytest.raises(BudgetSpent, match="app digits"):
        ledger.add(replace(digits, task="b"), ASKED, (Budget(30), None), (Budget(15), "digits"))
    ledger.add(job("c"), ASKED, (Budget(30), None))
    assert ledger.spent(app="digits") == 10 and ledger.spent() == 20
    ledger.close()


def test_events_are_numbered_within_their_task(path: Path) -> None:
    ledger = Ledger(path)
    for task in "ab":
        ledger.add(job(task), ASKED)
    for task, stage in (("a", "open"), ("b", "open"), ("a", "final")):
        ledger.record(task, TASK | {"stage": stage})
    assert [(e.number, e.response["stage"]) for e in ledger.events("a")] == [(1, "asked"), (2, "open"), (3, "final")]
    assert [e.number for e in ledger.events("a", after=2)] == [3]
    assert ledger.last("a") == TASK | {"stage": "final"}
    with pytest.raises(TaskNotFound):
        ledger.last("c")
    ledger.close()


def test_what_is_in_memory_is_what_is_written(path: Path) -> None:
    ledger, failed = Ledger(path), {"detail": "it failed"}
    ledger.add(job("a"), ASKED)
    ledger.record("a", TASK | {"stage": "open"}, state=State.OPEN)
    ended = replace(job("b"), state=State.ENDED, cost=0, outputs="x y z")
    assert ledger.add(ended, ASKED, then=[TASK | {"stage": "running"}, TASK | {"stage": "local"}]) == ended
    ledger.add(job("c"), ASKED)
    ledger.record("c", TASK | {"stage": "failed"}, state=State.ENDED, cost=7, problem=failed)
    ledger.record("c", TASK | {"stage": "final"})
    seen = [(ledger.job(task), ledger.last(task), ledger.events(task)) for task in "abc"]
    ledger.close()
    ledger = Ledger(path)
    assert [(ledger.job(task), ledger.last(task), ledger.events(task)) for task in "abc"] == seen
    assert [len(events) for _, _, events in seen] == [2, 3, 3]
    assert seen[2][0] == replace(job("c"), state=State.ENDED, cost=7, problem=failed)
    ledger.forget(NOON + 1, jobs=True)
    assert ledger.job("a").state is State.OPEN
    with pytest.raises(TaskNotFound):
        ledger.job("b")
    ledger.close()


def test_some_jobs_at_a_time_are_forgotten_the_oldest_first(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "_FORGOTTEN", 2)
    with closing(Ledger(path)) as ledger:
        for number, task in enumerate("ecadb"):
            ledger.add(replace(job(task, at=NOON - number), state=State.ENDED, cost=0), ASKED)
        for left in ("ace", "e", ""):
            ledger.forget(NOON + 1, jobs=True)
            assert {entry.task for _, entry in ledger.jobs()} == set(left)
            assert all(bool(ledger.events(task)) == (task in left) for task in "abcde")


def test_what_is_forgotten_is_not_remembered(path: Path) -> None:
    ledger = Ledger(path)
    ledger.add(replace(job("a"), state=State.ENDED, cost=0), ASKED)
    ledger.forget(NOON + 1, jobs=True)
    for ask in (ledger.job, ledger.last):
        with pytest.raises(TaskNotFound):
            ask("a")
    ledger.close()


def again(job: Job, task: str) -> Job:
    return replace(job, posted={"nonce": len(job.retries) + 2}, retries=(*job.retries, task))


EXPIRED: Task = TASK | {"stage": "expired"}


def test_a_job_that_is_asked_for_again_keeps_its_name_and_is_found_by_every_task(path: Path) -> None:
    with closing(Ledger(path)) as ledger:
        first = ledger.add(job("a", key="k"), ASKED)
        ledger.add(job("x"), ASKED)
        ledger.record("a", TASK | {"stage": "open"}, state=State.OPEN)
        second = again(first, "b")
        assert ledger.retry(second, EXPIRED, ASKED)
        assert ledger.job("a") == ledger.job("b") == second and second.state is State.ASKED
        ledger.record("a", TASK | {"stage": "open"}, state=State.OPEN)
        assert ledger.retry(again(second, "c"), EXPIRED, ASKED)
    with closing(Ledger(path)) as ledger:
        third = again(second, "c")
        assert third == ledger.job("a") == ledger.job("b") == ledger.job("c") == ledger.known(first.key)
        assert (third.current, third.earlier, third.posted) == ("c", ("a", "b"), {"nonce": 3})
        assert ledger.job("x").earlier == () and ledger.job("x").current == "x"
        stages = [event.response["stage"] for event in ledger.events("a")]
        assert stages == ["asked", "open", "expired", "asked", "open", "expired", "asked"]
        assert [entry.task for entry in ledger.unfinished()] == ["a", "x"] and ledger.unfinished()[0] == third
        assert {entry.retries for _, entry in ledger.jobs()} == {("b", "c"), ()}
        ledger.record("a", TASK | {"stage": "final"}, state=State.ENDED, cost=4)
        ledger.forget(NOON + 1, jobs=True)
        for task in "abc":
            with pytest.raises(TaskNotFound):
                ledger.job(task)


def test_of_two_that_see_an_end_one_asks_again_and_nobody_does_after_the_last(path: Path) -> None:
    with closing(Ledger(path)) as ledger:
        first = ledger.add(job("a"), ASKED)
        assert ledger.retry(again(first, "b"), EXPIRED, ASKED)
        before = ledger.events("a")
        assert not ledger.retry(again(first, "c"), EXPIRED, ASKED)
        ledger.record("a", TASK | {"stage": "cancelled"}, state=State.ENDED, cost=0)
        assert not ledger.retry(again(again(first, "b"), "c"), TASK, ASKED)
        assert len(ledger.events("a")) == len(before) + 1 and ledger.job("a").current == "b"
        with pytest.raises(TaskNotFound):
            ledger.job("c")


def test_a_job_counts_once_however_often_it_is_asked_for(path: Path) -> None:
    with closing(Ledger(path)) as ledger:
        first = ledger.add(job("a"), ASKED, (Budget(15, 15, 1), None))
        assert ledger.retry(again(first, "b"), EXPIRED, ASKED)
        assert ledger.spent() == 10 and ledger.spent(NOON - NOON % DAY) == 10
        with pytest.raises(BudgetSpent):
            ledger.check(10, NOON, (Budget(15), None))
        ledger.record("a", TASK | {"stage": "final"}, state=State.ENDED, cost=4)
        assert ledger.spent() == 4


def test_a_ledger_of_an_earlier_version_can_ask_again(path: Path) -> None:
    with closing(Ledger(path)) as ledger:
        ledger.add(job("a"), ASKED)
        ledger.database.rows("DROP TABLE retries")
    with closing(Ledger(path)) as ledger:
        assert ledger.retry(again(ledger.job("a"), "b"), EXPIRED, ASKED)
        assert ledger.job("b").earlier == ("a",)


def test_pages_are_newest_first(path: Path) -> None:
    ledger = Ledger(path)
    for task in "abcde":
        ledger.add(job(task), ASKED)
    first = ledger.jobs(limit=3)
    rest = ledger.jobs(before=first[-1][0], limit=3)
    assert [[entry.task for _, entry in page] for page in (first, rest)] == [["e", "d", "c"], ["b", "a"]]
    ledger.close()


def test_callers_have_pages_of_their_own(path: Path) -> None:
    ledger = Ledger(path)
    for number, caller in enumerate(("alice", "bob", "alice", "")):
        ledger.add(Job(str(number), Key(caller, "this"), None, NOON), ASKED)
    assert [[entry.task for _, entry in ledger.jobs(caller)] for caller in ("alice", "bob", "")] == [
        ["2", "0"], ["1"], ["3", "2", "1", "0"],
    ]  # fmt: skip
    ledger.close()


def test_one_process_at_a_time_has_a_book(path: Path) -> None:
    ledger = Ledger(path)
    with pytest.raises(ServiceBusy):
        Ledger(path)
    ledger.close()
    Ledger(path).close()


def test_a_job_that_may_cost_more_is_counted_so_as_long_as_budgets_let_it(path: Path) -> None:
    budgets = [(Budget(day=25), None), (Budget(day=18), "app")]
    with closing(Ledger(path)) as ledger:
        ledger.add(replace(job("a"), app="app"), ASKED, *budgets)
        ledger.add(job("b"), ASKED, budgets[0])
        assert ledger.expect("a", 14, *budgets).escrow == 14 and ledger.spent() == 24
        for escrow in (16, 20):
            with pytest.raises(BudgetSpent):
                ledger.expect("a", escrow, *budgets)
        assert (ledger.spent(app="app"), ledger.job("a").escrow) == (14, 14)
        ledger.record("a", TASK | {"stage": "signed"}, state=State.ENDED, cost=3)
        assert (ledger.spent(), ledger.spent(app="app"), ledger.spent(NOON + 1)) == (13, 3, 0)
    with closing(Ledger(path)) as ledger:
        assert (ledger.spent(), ledger.job("a").escrow) == (13, 14)


def test_sums_are_those_of_the_rows_whatever_happened(path: Path) -> None:
    with closing(Ledger(path)) as ledger:
        for number in range(40):
            at = NOON + (number % 3) * DAY
            ledger.add(replace(job(f"{number}", escrow=number, at=at), app="app" if number % 2 else None), ASKED)
            assert ledger.spent() == sum(range(number + 1))
            if number % 4 == 0:
                ledger.record(f"{number}", TASK | {"stage": "final"}, state=State.ENDED, cost=0)
                ledger.record(f"{number}", TASK | {"stage": "final"}, state=State.ENDED, cost=number)
            ledger.spent(NOON + DAY, "app")
        kept = [ledger.spent(since, app) for since in (0, NOON + DAY, NOON + 2 * DAY) for app in (None, "app")]
        ledger.forget(NOON + DAY, jobs=True)
        forgotten = sum(n for n in range(40) if n % 3 == 0 and n % 4 == 0)
        assert ledger.spent() == sum(range(40)) - forgotten
    with closing(Ledger(path)) as ledger:
        again = [ledger.spent(since, app) for since in (0, NOON + DAY, NOON + 2 * DAY) for app in (None, "app")]
        assert [again[0] + forgotten, *again[2:]] == [kept[0], *kept[2:]]
