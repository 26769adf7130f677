"""What happened to a task, and what is to be done about it. Pure: blocks and events come in as data."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from eigentensor import economics
from eigentensor.chain import (
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
)

#: Tasks that are closed in one transaction.
BATCH = 16


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task as its events tell it. `since` is the block of its last step."""

    task: bytes
    order: Order
    state: State
    posted: Place
    since: int
    executor: str | None = None
    price: int | None = None
    collateral: int | None = None
    outputs_root: bytes | None = None
    penalty: int | None = None


class Verb(StrEnum):
    EXPIRE = "expire"
    FAIL = "fail"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class Action:
    """A message to send. Only CLOSE names more than one task."""

    verb: Verb
    tasks: tuple[TaskView, ...]


def step(view: TaskView | None, event: TaskEvent) -> TaskView | None:
    """The task after one more event. None as long as its order is not known."""
    if isinstance(event, Posted):
        return TaskView(event.task, event.order, State.OPEN, event.place, event.place.block)
    if view is None:
        return None
    view = replace(view, since=event.place.block)
    match event:
        case Accepted():
            return replace(
                view, state=State.ACCEPTED, executor=event.executor, price=event.price, collateral=event.collateral
            )
        case Committed():
            return replace(view, state=State.COMMITTED)
        case Revealed():
            return replace(view, state=State.REVEALED, outputs_root=event.outputs_root)
        case Closed():
            return replace(view, state=State.FINAL)
        case Failed():
            return replace(view, state=State.FAILED, penalty=event.penalty)
        case Cancelled():
            return replace(view, state=State.CANCELLED)
        case Expired():
            return replace(view, state=State.EXPIRED)
        case _:
            return view


def deadline(view: TaskView, parameters: economics.Parameters) -> int | None:
    """The last block of what the task waits for; None in terminal states. Anybody may end or close it after that."""
    match view.state:
        case State.OPEN:
            return view.order.accept_by
        case State.ACCEPTED:
            return view.since + view.order.exec
        case State.COMMITTED:
            return view.since + economics.reveal_window(parameters, view.order.exec)
        case State.REVEALED:
            return view.since + economics.challenge_window(parameters, view.order.exec)
        case _:
            return None


def due(views: Iterable[TaskView], parameters: economics.Parameters, block: int) -> list[Action]:
    """The messages that the next block after `block` would take, oldest deadline first."""
    late = [(by, view) for view in views if (by := deadline(view, parameters)) is not None and by < block + 1]
    ordered = [view for _, view in sorted(late, key=lambda item: (item[0], item[1].task))]
    single = {State.OPEN: Verb.EXPIRE, State.ACCEPTED: Verb.FAIL, State.COMMITTED: Verb.FAIL}
    actions = [Action(single[view.state], (view,)) for view in ordered if view.state in single]
    closing = [view for view in ordered if view.state is State.REVEALED]
    return [*actions, *(Action(Verb.CLOSE, tuple(closing[i : i + BATCH])) for i in range(0, len(closing), BATCH))]
