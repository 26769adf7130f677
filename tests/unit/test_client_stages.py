"""What a task's state means to its client, case by case."""

from dataclasses import replace
from typing import Any

import pytest

from eigentensor import economics
from eigentensor.errors import (
    ExecutorConvicted,
    ExecutorFailed,
    NobodyAccepted,
    NotChecked,
    TaskCancelled,
    TaskError,
)
from eigentensor.task import Answer, Cause, Conviction, Game, Place, State
from eigentensor.task.due import Verb
from eigentensor_client.remedies import Advice
from eigentensor_client.stages import GRACE, check_open, failure, late, reached
from eigentensor_client.task_view import TaskView
from support.stories.orders import LOCAL, ORDER, seen

TASK = seen()
ROOT, PLACE = b"\2" * 32, Place(160, 0, bytes(32), bytes(32))


def mix(*, drawn: bool) -> bytes:
    tried = (bytes([number]) * 32 for number in range(256))
    return next(m for m in tried if economics.is_drawn(m, TASK.life.uuid, ORDER.check_rate) is drawn)


DRAWN, UNDRAWN = mix(drawn=True), mix(drawn=False)
COMMITTED = seen(119, state=State.COMMITTED, accepted_at=105, since=118, committed_at=118)  # its seed block is 120
#: Of a verifier that has not opened its answer, and of some that agree.
HIDDEN = {0: Answer(0, ORDER.client, 130, bytes(32))}
AGREES = {n: replace(HIDDEN[0], index=n, root=ROOT) for n in range(2)}
OPEN_GAME = {3: Game(3, ORDER.client, 1, PLACE)}


def of(task: TaskView, block: int | None = None, **changes: Any) -> TaskView:
    """The same task otherwise."""
    return TaskView(replace(task.life, **changes), task.block if block is None else block)


RESULT = of(
    COMMITTED, 160, state=State.REVEALED, since=155, revealed_at=155, outputs_root=ROOT, mix=DRAWN, answers=HIDDEN
)
FINAL = of(RESULT, state=State.FINAL)


def explanation(task: TaskView, stage: str = "final") -> str:
    error = failure(task, stage, lambda wei: f"{wei} wei")
    return error.what if error else ""


def test_only_an_open_task_is_taken_back() -> None:
    check_open(TASK)
    check_open(seen(state=State.CANCELLED))  # once more is no fault
    with pytest.raises(TaskError, match="is final, unchecked: only an open task can be taken back"):
        check_open(FINAL)


@pytest.mark.parametrize("state", State)
def test_a_result_is_reached_before_it_is_final(state: State) -> None:
    assert reached(seen(state=state), "final") == (state is State.FINAL)
    assert reached(seen(state=state), "result") == (state in (State.REVEALED, State.FINAL))
    assert not reached(seen(state=state), "checked")


def test_checked_is_what_all_that_were_asked_for_confirm_and_nobody_disputes() -> None:
    two = of(RESULT, order=replace(ORDER, verifiers=2), answers={0: AGREES[0], 1: HIDDEN[0]})
    assert not reached(two, "checked")
    assert reached(of(two, answers=AGREES), "checked")
    assert reached(of(two, answers=AGREES, state=State.FINAL), "checked")
    assert not reached(of(two, answers=AGREES, games=OPEN_GAME), "checked")


FAILURES = {
    State.EXPIRED: NobodyAccepted,
    State.FAILED: ExecutorFailed,
    State.CONVICTED: ExecutorConvicted,
    State.CANCELLED: TaskCancelled,
    State.NONE: TaskError,
}


@pytest.mark.parametrize("state", State)
def test_each_end_without_a_result_has_its_own_error(state: State) -> None:
    error = failure(seen(state=state), "final", str)
    assert type(error) is FAILURES.get(state, type(None))


def test_where_nobody_accepts_the_reasons_of_operators_rule_the_advice() -> None:
    advice = Advice("bindings (2 operators)", ("tensors that fit (2 operators)", "--exec 9 (0xa)"))
    error = failure(seen(state=State.EXPIRED), "final", str, advice)
    assert error is not None and "until block 130; operators said bindings (2 operators); the escrow" in error.what
    assert error.fix.startswith("What would help: tensors that fit (2 operators); or --exec 9 (0xa). `eigentensor task")
    silent = failure(seen(state=State.EXPIRED), "final", str)
    assert silent is not None and "operators said" not in silent.what and "task explain" in silent.fix


@pytest.mark.parametrize(
    ("cause", "why"),
    [(Cause.VERDICT, "it lost a game"), (Cause.SILENCE, "did not reveal"), (Cause.DEMAND, "did not show the outputs")],
)
def test_a_conviction_says_why_and_where_the_money_went(cause: Cause, why: str) -> None:
    convicted = Conviction(cause, ORDER.client, 2100, 160)
    task = of(RESULT, state=State.CONVICTED, executor="0xE", price=900, conviction=convicted)
    assert why in explanation(task)
    stake = f"{economics.stake(LOCAL, 900, 0, ORDER.check_rate, 1)} wei of its stake"
    assert f"the whole escrow, 2100 wei, is back; {stake} is going to be slashed" in explanation(task)
    assert f"{stake} was slashed" in explanation(of(task, conviction=replace(convicted, slash=(1, 5001))))


def test_who_waits_for_a_check_learns_when_there_will_be_none() -> None:
    assert not explanation(RESULT, "checked")
    assert not explanation(of(FINAL, answers=AGREES), "checked")
    undrawn, late = of(RESULT, mix=UNDRAWN), FINAL
    for task, why in ((undrawn, "not drawn for a check"), (late, "0 of 1 verifiers confirmed it")):
        assert type(failure(task, "checked", str)) is NotChecked
        assert why in explanation(task, "checked")
        assert not explanation(task, "final")


@pytest.mark.parametrize(
    ("task", "last"),
    [
        (seen(state=State.ACCEPTED, since=105), 125),
        (of(COMMITTED, mix=DRAWN), 120 + economics.reveal_window(LOCAL, 20)),
        (RESULT, 155 + economics.challenge_window(LOCAL, 20)),
    ],
)
def test_the_client_moves_a_task_on_when_everybody_is_late(task: TaskView, last: int) -> None:
    assert late(of(task, last + GRACE)) is None
    message = late(of(task, last + GRACE + 1))
    assert message is not None and message.verb is Verb.CLOSE
    if task is RESULT:  # the game ends first, by its clocks
        assert late(of(task, last + GRACE + 1, games=OPEN_GAME)) is None


def test_the_client_records_the_seed_when_nobody_does() -> None:
    assert late(of(COMMITTED, 120 + GRACE)) is None
    for block in (121 + GRACE, 119 + LOCAL.record):
        message = late(of(COMMITTED, block))
        assert message is not None and (message.verb, message.number) == (Verb.SEED, 120)
    assert late(of(COMMITTED, 120 + LOCAL.record)) is None  # the next block is too late
    assert late(of(COMMITTED, 121 + GRACE, mix=UNDRAWN)) is None


def test_the_client_expires_its_order_when_nobody_does() -> None:
    assert late(seen(ORDER.accept_by + GRACE)) is None
    message = late(seen(ORDER.accept_by + GRACE + 1))
    assert message is not None and message.verb is Verb.EXPIRE


@pytest.mark.parametrize("state", [state for state in State if state.is_terminal])
def test_nothing_is_due_after_the_end(state: State) -> None:
    assert late(seen(10_000, state=state)) is None
    assert seen(state=state).waits_for == "nothing"
