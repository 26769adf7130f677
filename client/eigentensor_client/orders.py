"""From what the client wants to what it signs: pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from eigentensor import economics
from eigentensor.chain import State
from eigentensor.chain.order import NONE, Order
from eigentensor.errors import (
    BindingError,
    ChecksNotAvailable,
    EigenTensorError,
    ExecutorFailed,
    NobodyAccepted,
    TaskCancelled,
    TaskError,
)
from eigentensor.program import Program
from eigentensor_client.results import STAGES, TaskView, Tensors

EXEC = 30  # blocks for one execution unless the client says otherwise
ACCEPT_WITHIN = 30  # blocks in which an operator may accept
GRACE = 3  # blocks in which the aggregator, or whoever gains by it, may move a task on before the client does


@dataclass(frozen=True, slots=True)
class Work:
    """A program bound to its tensors: what is to be executed."""

    program: Program
    inputs: Tensors
    weights: Tensors = field(default_factory=dict)
    states: Tensors = field(default_factory=dict)
    variables: Mapping[str, int] = field(default_factory=dict)
    repeat: int = 1


@dataclass(frozen=True, slots=True)
class Terms:
    """What the client offers. The price rises from `min_price` to `max_price` within `ramp` blocks after the post."""

    max_price: int
    min_price: int | None = None
    ramp: int = 0
    exec: int = EXEC
    accept_within: int = ACCEPT_WITHIN
    operators: bytes = NONE


@dataclass(frozen=True, slots=True)
class Roots:
    """The names of a work's parts, as an order carries them; NONE where there is no such part."""

    program: bytes
    inputs: bytes = NONE
    weights: bytes = NONE
    states: bytes = NONE
    variables: bytes = NONE


def draft(client: str, nonce: int, block: int, work: Work, roots: Roots, terms: Terms) -> Order:
    """The order that asks for a work on these terms, at block `block`."""
    return Order(
        client=client,
        nonce=nonce,
        semantics=work.program.semantics,
        program=roots.program,
        inputs=roots.inputs,
        weights=roots.weights,
        states=roots.states,
        variables=roots.variables,
        repeat=work.repeat,
        min_price=terms.max_price if terms.min_price is None else terms.min_price,
        max_price=terms.max_price,
        ramp_start=block,
        ramp_length=terms.ramp,
        check_fee=0,
        check_rate=0,
        verifiers=0,
        value_at_risk=0,
        exec=terms.exec,
        accept_by=block + terms.accept_within,
        operators=terms.operators,
    )


def price(order: Order, accepted_at: int) -> int:
    """What the acceptance fixed."""
    return economics.price(order.min_price, order.max_price, order.ramp_start, order.ramp_length, accepted_at)


def check_stage(stage: str) -> None:
    """Refuses to wait for what cannot come."""
    if stage == "checked":
        raise ChecksNotAvailable(
            "nobody re-executes results yet, so no task becomes checked",
            fix="Wait for `result` or `final`; a final task is shown as unchecked.",
        )
    if stage not in STAGES:
        raise BindingError(f"{stage!r} is nothing to wait for", fix=f"Choose one of {', '.join(STAGES)}.")


def check_open(task: TaskView) -> None:
    """Refuses to take back what is not open."""
    if task.state not in (State.OPEN, State.CANCELLED):
        raise TaskError(
            f"task {task.uuid} is {task.words}: only an open task can be taken back",
            fix="It ends by itself, and what is not paid comes back.",
        )


def reached(state: State, stage: str) -> bool:
    return state is State.FINAL or (stage == "result" and state is State.REVEALED)


def failure(task: TaskView) -> EigenTensorError | None:
    """Why a task ended without a result; None if it did not."""
    show = f"`eigentensor task explain {task.uuid[:10]}` says more."
    match task.state:
        case State.EXPIRED:
            return NobodyAccepted(
                f"no operator accepted task {task.uuid} until block {task.order.accept_by}; the escrow is back",
                fix=f"Offer a higher --max-price, or more time. {show}",
            )
        case State.FAILED:
            return ExecutorFailed(
                f"executor {task.executor} gave no result for task {task.uuid} in time; the escrow is back",
                fix="Post it again: another operator may take it.",
            )
        case State.CANCELLED:
            return TaskCancelled(f"task {task.uuid} was cancelled; the escrow is back")
        case State.NONE:
            return TaskError(f"the market does not know task {task.uuid}: a reorganisation may have dropped its post")
    return None


def due(state: State, order: Order, deadline: int, block: int) -> str | None:
    """The message that anybody may send now because nobody did in time: expire, fail or close."""
    if state is State.OPEN:
        return "expire" if block > order.accept_by + GRACE else None
    if block <= deadline + GRACE:
        return None
    return {State.ACCEPTED: "fail", State.COMMITTED: "fail", State.REVEALED: "close"}.get(state)


def waits_for(task: TaskView) -> str:
    """What a task waits for now, in words, with the block by which it comes."""
    match task.state:
        case State.OPEN:
            return f"an acceptance until block {task.order.accept_by}"
        case State.ACCEPTED:
            return f"the executor's commit until block {task.deadline}, or the refund after it"
        case State.COMMITTED:
            return f"the executor's reveal until block {task.deadline}, or the refund after it"
        case State.REVEALED:
            return f"the end of the window: final after block {task.deadline}"
    return "nothing"
