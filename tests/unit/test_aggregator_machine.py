"""Stories: what happened to tasks, and which messages are due."""

from collections.abc import Sequence

from eigentensor import economics
from eigentensor.chain import (
    NONE,
    Accepted,
    Cancelled,
    Closed,
    Committed,
    Expired,
    Failed,
    Order,
    Place,
    Posted,
    Revealed,
    State,
    TaskEvent,
    anvil_account,
)
from eigentensor_aggregator.machine import BATCH, Action, TaskView, Verb, deadline, due, step

PARAMETERS = economics.Parameters(
    max_exec=60, lag=2, grid=1, record=50, check=10, reveal=10, challenge=10, clock=60, margin=50,
    eta=10**18 // 4, g_def=3, g_miss=1,
)  # fmt: skip
TASK = b"\7" * 32
ROOT = b"\2" * 32
EXECUTOR = anvil_account(1).address
ORDER = Order(
    client=anvil_account(0).address, nonce=1, semantics=1, program=ROOT, inputs=NONE, weights=NONE, states=NONE,
    variables=NONE, repeat=1, min_price=5, max_price=9, ramp_start=0, ramp_length=0, check_fee=0, check_rate=0,
    verifiers=0, value_at_risk=0, exec=20, accept_by=100, operators=NONE,
)  # fmt: skip


def at(block: int) -> Place:
    return Place(block, 0, b"h" * 32, b"t" * 32)


def posted(block: int = 10, task: bytes = TASK) -> Posted:
    return Posted(at(block), task, ORDER.client, ORDER)


def accepted(block: int = 12, task: bytes = TASK) -> Accepted:
    return Accepted(at(block), task, EXECUTOR, 9, 42)


def committed(block: int = 15, task: bytes = TASK) -> Committed:
    return Committed(at(block), task, b"\1" * 32)


def revealed(block: int = 16, task: bytes = TASK) -> Revealed:
    return Revealed(at(block), task, 0, ROOT)


def told(*events: TaskEvent) -> TaskView:
    view: TaskView | None = None
    for event in events:
        view = step(view, event)
    assert view is not None
    return view


def actions(block: int, *views: TaskView) -> Sequence[Action]:
    return due(views, PARAMETERS, block)


def test_nothing_is_due_while_everybody_is_in_time() -> None:
    assert actions(99, told(posted())) == []
    assert actions(31, told(posted(), accepted())) == []
    assert actions(74, told(posted(), accepted(), committed())) == []
    assert actions(45, told(posted(), accepted(), committed(), revealed())) == []


def test_an_order_that_nobody_took_expires_in_the_first_block_after_its_last() -> None:
    view = told(posted())
    assert actions(100, view) == [Action(Verb.EXPIRE, (view,))]


def test_an_executor_that_does_not_commit_fails_when_its_blocks_are_over() -> None:
    view = told(posted(), accepted())
    assert deadline(view, PARAMETERS) == 32
    assert actions(32, view) == [Action(Verb.FAIL, (view,))]


def test_an_executor_that_does_not_reveal_fails_after_the_reveal_window() -> None:
    view = told(posted(), accepted(), committed())
    assert deadline(view, PARAMETERS) == 15 + economics.reveal_window(PARAMETERS, 20) == 75
    assert actions(75, view) == [Action(Verb.FAIL, (view,))]


def test_a_revealed_task_is_closed_after_the_challenge_window() -> None:
    view = told(posted(), accepted(), committed(), revealed())
    assert deadline(view, PARAMETERS) == 16 + economics.challenge_window(PARAMETERS, 20) == 46
    assert view.outputs_root == ROOT and view.executor == EXECUTOR and view.price == 9
    assert actions(46, view) == [Action(Verb.CLOSE, (view,))]


def test_tasks_that_have_ended_need_nothing_more() -> None:
    ends = {
        State.FINAL: [accepted(), committed(), revealed(), Closed(at(50), TASK, 9, 0)],
        State.FAILED: [accepted(), Failed(at(50), TASK, 9, 2)],
        State.CANCELLED: [Cancelled(at(50), TASK)],
        State.EXPIRED: [Expired(at(50), TASK)],
    }
    for state, events in ends.items():
        view = told(posted(), *events)
        assert view.state is state and state.is_terminal and deadline(view, PARAMETERS) is None
        assert actions(10**6, view) == []


def test_many_tasks_are_closed_together_and_the_oldest_deadline_comes_first() -> None:
    tasks = [bytes([i]) * 32 for i in range(BATCH + 2)]
    views = [
        told(posted(task=t), accepted(task=t), committed(task=t), revealed(16 + i % 3, t)) for i, t in enumerate(tasks)
    ]
    batches = actions(1000, *views)
    assert [len(action.tasks) for action in batches] == [BATCH, 2]
    order = [view.since for action in batches for view in action.tasks]
    assert order == sorted(order)


def test_an_event_of_an_unknown_order_says_nothing() -> None:
    assert step(None, accepted()) is None


def test_taking_back_an_accept_opens_the_task_again() -> None:
    before = told(posted())
    assert told(posted(), accepted()).executor == EXECUTOR
    assert told(posted()) == before and before.executor is None
