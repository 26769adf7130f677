"""What a task's state means to its client, case by case."""

from dataclasses import replace

import pytest

from client_orders import LOCAL, ORDER
from eigentensor.chain import Cause, Challenged, Convicted, GameEnded, Place, Slashed, State, TaskEvent
from eigentensor.errors import (
    ExecutorConvicted,
    ExecutorFailed,
    NobodyAccepted,
    NotChecked,
    TaskCancelled,
    TaskError,
)
from eigentensor_client.results import TaskView
from eigentensor_client.stages import GRACE, check_open, due, failure, reached, waits_for
from eigentensor_client.views import open_games

TASK = TaskView("ab" * 32, ORDER, State.OPEN, None, None, 0, 101)
COMMITTED = replace(TASK, state=State.COMMITTED, seed_block=120, check_by=150, deadline=170, block=119)
RESULT = replace(TASK, state=State.REVEALED, seed_block=120, drawn=True, answered=1, deadline=180, block=160)
FINAL = replace(RESULT, state=State.FINAL)
PLACE = Place(160, 0, bytes(32), bytes(32))


def said(task: TaskView, stage: str = "final") -> str:
    error = failure(task, stage, lambda wei: f"{wei} wei")
    return error.what if error else ""


def test_only_an_open_task_is_taken_back() -> None:
    check_open(TASK)
    check_open(replace(TASK, state=State.CANCELLED))  # once more is no fault
    with pytest.raises(TaskError, match="is final, unchecked: only an open task can be taken back"):
        check_open(FINAL)


@pytest.mark.parametrize("state", State)
def test_a_result_is_reached_before_it_is_final(state: State) -> None:
    assert reached(replace(TASK, state=state), "final") == (state is State.FINAL)
    assert reached(replace(TASK, state=state), "result") == (state in (State.REVEALED, State.FINAL))
    assert not reached(replace(TASK, state=state), "checked")


def test_checked_is_what_all_that_were_asked_for_confirm_and_nobody_disputes() -> None:
    two = replace(RESULT, order=replace(ORDER, verifiers=2), answered=3, agreed=1)
    assert not reached(two, "checked")
    assert reached(replace(two, agreed=2), "checked")
    assert reached(replace(two, agreed=2, state=State.FINAL), "checked")
    assert not reached(replace(two, agreed=2, games=(3,)), "checked")


@pytest.mark.parametrize(
    ("task", "checked", "words"),
    [
        (COMMITTED, None, "committed"),
        (RESULT, None, "result"),
        (replace(RESULT, drawn=False, answered=0), "unchecked", "unchecked"),
        (replace(RESULT, drawn=False, answered=0, games=(3,)), None, "result, challenged"),
        (replace(RESULT, answered=0), "unchecked", "unchecked"),
        (replace(RESULT, agreed=1), "checked(1)", "checked(1)"),
        (replace(RESULT, agreed=1, games=(3,)), "checked(1)", "checked(1), challenged"),
        (replace(RESULT, games=(3,)), None, "result, challenged"),
        (FINAL, "unchecked", "final, unchecked"),
        (replace(FINAL, agreed=2), "checked(2)", "final, checked(2)"),
        (replace(FINAL, state=State.CONVICTED, agreed=1), None, "convicted"),
    ],
)
def test_every_state_has_its_word(task: TaskView, checked: str | None, words: str) -> None:
    assert (task.checked, task.words) == (checked, words)


FAILURES = {
    State.EXPIRED: NobodyAccepted,
    State.FAILED: ExecutorFailed,
    State.CONVICTED: ExecutorConvicted,
    State.CANCELLED: TaskCancelled,
    State.NONE: TaskError,
}


@pytest.mark.parametrize("state", State)
def test_each_end_without_a_result_has_its_own_error(state: State) -> None:
    error = failure(replace(TASK, state=state), "final", str)
    assert type(error) is FAILURES.get(state, type(None))


@pytest.mark.parametrize(
    ("cause", "why"),
    [(Cause.VERDICT, "it lost a game"), (Cause.SILENCE, "did not reveal"), (Cause.DEMAND, "did not show the outputs")],
)
def test_a_conviction_says_why_and_where_the_money_went(cause: Cause, why: str) -> None:
    events = (Convicted(PLACE, bytes(32), cause, ORDER.client, 2100),)
    task = replace(TASK, state=State.CONVICTED, executor="0xE", stake=5000, events=events)
    assert why in said(task)
    assert "the whole escrow, 2100 wei, is back; 5000 wei of its stake is going to be slashed" in said(task)
    slashed = replace(task, events=(*events, Slashed(PLACE, bytes(32), 1, 5001, ORDER.client)))
    assert "5000 wei of its stake was slashed" in said(slashed)


def test_who_waits_for_a_check_learns_when_there_will_be_none() -> None:
    assert not said(RESULT, "checked")
    assert not said(replace(FINAL, agreed=1), "checked")
    undrawn, late = replace(RESULT, drawn=False), FINAL
    for task, why in ((undrawn, "not drawn for a check"), (late, "0 of 1 verifiers confirmed it")):
        assert type(failure(task, "checked", str)) is NotChecked
        assert why in said(task, "checked")
        assert not said(task, "final")


@pytest.mark.parametrize("state", [State.ACCEPTED, State.COMMITTED, State.REVEALED])
def test_the_client_moves_a_task_on_when_everybody_is_late(state: State) -> None:
    late = replace(COMMITTED, state=state, drawn=True, block=171 + GRACE)
    assert due(replace(late, block=170 + GRACE), LOCAL) is None
    assert due(late, LOCAL) == "close"
    assert due(replace(late, games=(1,)), LOCAL) is None  # the game ends first, by its clocks


def test_the_client_records_the_seed_when_nobody_does() -> None:
    assert due(replace(COMMITTED, block=120 + GRACE), LOCAL) is None
    assert due(replace(COMMITTED, block=121 + GRACE), LOCAL) == "seed"
    assert due(replace(COMMITTED, block=120 + LOCAL.record), LOCAL) == "seed"
    assert due(replace(COMMITTED, block=121 + LOCAL.record), LOCAL) != "seed"
    assert due(replace(COMMITTED, block=121 + GRACE, drawn=False), LOCAL) is None


def test_the_client_expires_its_order_when_nobody_does() -> None:
    assert due(replace(TASK, block=ORDER.accept_by + GRACE), LOCAL) is None
    assert due(replace(TASK, block=ORDER.accept_by + GRACE + 1), LOCAL) == "expire"


@pytest.mark.parametrize("state", [state for state in State if state.is_terminal])
def test_nothing_is_due_after_the_end(state: State) -> None:
    assert due(replace(TASK, state=state, block=10_000), LOCAL) is None
    assert waits_for(replace(TASK, state=state)) == "nothing"


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (TASK, "an acceptance until block 130"),
        (replace(TASK, state=State.ACCEPTED, deadline=140), "the executor's commit until block 140"),
        (COMMITTED, "the seed that block 120 gives"),
        (replace(COMMITTED, drawn=False), "the executor's reveal until block 170, or the refund"),
        (replace(COMMITTED, drawn=True), "the verifiers' answers until block 150, then the executor's reveal"),
        (replace(COMMITTED, drawn=True, block=151), "the executor's reveal until block 170, or its conviction"),
        (RESULT, "what the verifiers reveal; final after block 180"),
        (replace(RESULT, agreed=1), "the end of the window: final after block 180"),
        (replace(RESULT, games=(3,)), "the end of game 3: `eigentensor challenge show 3`"),
    ],
)
def test_every_wait_says_what_for_and_until_when(task: TaskView, words: str) -> None:
    assert waits_for(task).startswith(words)


def test_open_are_the_games_that_did_not_end() -> None:
    def challenged(game: int) -> TaskEvent:
        return Challenged(PLACE, bytes(32), game, ORDER.client, 1)

    lost = GameEnded(PLACE, bytes(32), 7, ORDER.client, executor_lost=False)
    assert open_games([]) == ()
    assert open_games([challenged(9), challenged(7)]) == (7, 9)
    assert open_games([challenged(7), challenged(9), lost]) == (9,)
