"""What a client signs and what a task's state means to it: pure, so every case is spelled out."""

from dataclasses import replace

import pytest

from eigentensor.chain import NONE, State
from eigentensor.errors import (
    BindingError,
    ChecksNotAvailable,
    ExecutorFailed,
    NobodyAccepted,
    TaskCancelled,
    TaskError,
)
from eigentensor.program.model import Program
from eigentensor_client.orders import (
    GRACE,
    Roots,
    Terms,
    Work,
    check_open,
    check_stage,
    draft,
    due,
    failure,
    price,
    reached,
    waits_for,
)
from eigentensor_client.results import TaskView

CLIENT = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
WORK = Work(Program((), (), (), (), ()), {}, repeat=3)
ORDER = draft(CLIENT, 7, 100, WORK, Roots(b"\x01" * 32), Terms(1000, 200, ramp=8, exec=20, accept_within=30))
TASK = TaskView("ab" * 32, ORDER, State.OPEN, None, None, 0, 101)


def test_an_order_says_what_the_terms_say() -> None:
    assert (ORDER.client, ORDER.nonce, ORDER.semantics, ORDER.repeat) == (CLIENT, 7, 1, 3)
    assert (ORDER.program, ORDER.inputs, ORDER.weights, ORDER.states, ORDER.variables) == (b"\x01" * 32, *[NONE] * 4)
    assert (ORDER.min_price, ORDER.max_price, ORDER.ramp_start, ORDER.ramp_length) == (200, 1000, 100, 8)
    assert (ORDER.exec, ORDER.accept_by, ORDER.operators) == (20, 130, NONE)
    assert (ORDER.check_rate, ORDER.verifiers, ORDER.check_fee) == (0, 0, 0)


def test_without_a_least_price_the_most_is_paid_at_once() -> None:
    order = draft(CLIENT, 7, 100, WORK, Roots(NONE), Terms(1000))
    assert price(order, 101) == order.min_price == 1000


def test_the_price_is_fixed_by_the_block_of_the_acceptance() -> None:
    assert [price(ORDER, block) for block in (100, 104, 108, 130)] == [200, 600, 1000, 1000]


def test_nobody_can_wait_for_checks_that_do_not_exist() -> None:
    check_stage("result")
    check_stage("final")
    with pytest.raises(ChecksNotAvailable):
        check_stage("checked")
    with pytest.raises(BindingError, match="'done' is nothing to wait for"):
        check_stage("done")


def test_only_an_open_task_is_taken_back() -> None:
    check_open(TASK)
    check_open(replace(TASK, state=State.CANCELLED))  # once more is no fault
    with pytest.raises(TaskError, match=r"is final \(unchecked\): only an open task can be taken back"):
        check_open(replace(TASK, state=State.FINAL))


@pytest.mark.parametrize("state", State)
def test_a_result_is_reached_before_it_is_final(state: State) -> None:
    assert reached(state, "final") == (state is State.FINAL)
    assert reached(state, "result") == (state in (State.REVEALED, State.FINAL))


FAILURES = {
    State.EXPIRED: NobodyAccepted,
    State.FAILED: ExecutorFailed,
    State.CANCELLED: TaskCancelled,
    State.NONE: TaskError,
}


@pytest.mark.parametrize("state", [state for state in State if state is not State.CONVICTED])  # nothing leads there
def test_each_end_without_a_result_has_its_own_error(state: State) -> None:
    error = failure(replace(TASK, state=state))
    assert type(error) is FAILURES.get(state, type(None))


@pytest.mark.parametrize(
    ("state", "message"), [(State.ACCEPTED, "fail"), (State.COMMITTED, "fail"), (State.REVEALED, "close")]
)
def test_the_client_moves_a_task_on_when_everybody_is_late(state: State, message: str) -> None:
    assert due(state, ORDER, 150, 150 + GRACE) is None
    assert due(state, ORDER, 150, 151 + GRACE) == message


def test_the_client_expires_its_order_when_nobody_does() -> None:
    assert due(State.OPEN, ORDER, 0, ORDER.accept_by + GRACE) is None
    assert due(State.OPEN, ORDER, 0, ORDER.accept_by + GRACE + 1) == "expire"


@pytest.mark.parametrize("state", [state for state in State if state.is_terminal])
def test_nothing_is_due_after_the_end(state: State) -> None:
    assert due(state, ORDER, 0, 10_000) is None
    assert waits_for(replace(TASK, state=state)) == "nothing"


def test_every_wait_says_until_when() -> None:
    assert waits_for(TASK) == "an acceptance until block 130"
    for state in (State.ACCEPTED, State.COMMITTED, State.REVEALED):
        assert "block 150" in waits_for(replace(TASK, state=state, deadline=150))


def test_a_final_task_is_called_unchecked() -> None:
    assert replace(TASK, state=State.FINAL).words == "final (unchecked)"
    assert replace(TASK, state=State.REVEALED).words == "result"
