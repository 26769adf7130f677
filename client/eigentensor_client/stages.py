"""What a task's state means to its client: what is reached, failed or late, and what happened; in words. Pure."""

from eigentensor.errors import (
    EigenTensorError,
    ExecutorConvicted,
    ExecutorFailed,
    NobodyAccepted,
    NotChecked,
    NotYet,
    TaskCancelled,
    TaskError,
)
from eigentensor.pace import UNKNOWN, Pace
from eigentensor.task import (
    Accepted,
    Answered,
    BondReturned,
    Cause,
    Challenged,
    Closed,
    Convicted,
    Exposed,
    Failed,
    GameEnded,
    Locked,
    Paid,
    Revealed,
    Settled,
    Slashed,
    State,
    TaskEvent,
    due,
)
from eigentensor.task.due import Due, Verb
from eigentensor_client.amounts import Amount
from eigentensor_client.remedies import Advice
from eigentensor_client.screen import short
from eigentensor_client.task_view import TaskView

CAUSES = {
    Cause.VERDICT: "it lost a game about its result",
    Cause.SILENCE: "it was drawn for a check and did not reveal",
    Cause.DEMAND: "it did not show the outputs that were demanded",
}

GRACE = 3  # blocks in which the aggregator, or whoever gains by it, may move a task on before the client does
_SENT = (Verb.EXPIRE, Verb.SEED, Verb.CLOSE)


def check_open(task: TaskView) -> None:
    """Refuses to take back what is not open."""
    if task.state not in (State.OPEN, State.CANCELLED):
        raise TaskError(
            f"task {task.uuid} is {task.words}: only an open task can be taken back",
            fix="It ends by itself, and what is not paid comes back.",
        )


def reached(task: TaskView, stage: str) -> bool:
    """Whether a stage came true. Checked is what as many verifiers as were asked for confirm, and nobody disputes."""
    if stage == "checked":
        there = task.state in (State.REVEALED, State.FINAL)
        return there and task.agreed >= task.order.verifiers and not task.games
    return task.state is State.FINAL or (stage == "result" and task.state is State.REVEALED)


def failure(task: TaskView, stage: str, amount: Amount, advice: Advice | None = None) -> EigenTensorError | None:
    """Why a stage will never come; None if it may. `amount` writes wei as people read them, `advice` is what operators
    said while they could accept it."""
    show = f"`eigentensor task explain {task.uuid[:10]}` says more."
    match task.state:
        case State.EXPIRED:
            why = f"; operators said {advice.reasons}" if advice and advice.reasons else ""
            helps = f"What would help: {'; or '.join(advice.helps)}." if advice and advice.helps else ""
            return NobodyAccepted(
                f"no operator accepted task {task.uuid} until block {task.order.accept_by}{why}; the escrow is back",
                fix=f"{helps or 'Post it on terms that somebody takes:'} {show}",
            )
        case State.FAILED:
            return ExecutorFailed(
                f"executor {task.executor} gave no result for task {task.uuid} in time; the escrow is back",
                fix="Post it again: another operator may take it.",
            )
        case State.CONVICTED:
            return ExecutorConvicted(
                f"executor {task.executor} was convicted for task {task.uuid}: {conviction(task, amount)}",
                fix=f"Post it again: another operator may take it. {show}",
            )
        case State.CANCELLED:
            return TaskCancelled(f"task {task.uuid} was cancelled; the escrow is back")
        case State.NONE:
            return TaskError(f"the market does not know task {task.uuid}: a reorganisation may have dropped its post")
        case State.REVEALED | State.FINAL if stage == "checked" and not reached(task, stage):
            return _not_checked(task)
    return None


def not_yet(task: TaskView, stage: str, timeout: float) -> NotYet:
    """What a wait that was over too soon raises."""
    return NotYet(
        f"task {task.uuid} is {task.words} after {timeout:.0f} s, not {stage}",
        fix=f"It goes on by itself: `eigentensor get {task.uuid[:10]}` takes it up again.",
    )


def _not_checked(task: TaskView) -> EigenTensorError | None:
    if task.drawn is False:
        why = "it was not drawn for a check"
    elif task.state is State.FINAL:
        why = f"{task.agreed} of {task.order.verifiers} verifiers confirmed it before its window closed"
    else:
        return None
    return NotChecked(
        f"task {task.uuid} is {task.words}, not checked: {why}",
        fix=f"`eigentensor get {task.uuid[:10]}` fetches the result; with `run --wait checked` it is drawn.",
    )


def conviction(task: TaskView, amount: Amount) -> str:
    """Why an executor was convicted, and where the money went."""
    why, refund, slashed = "it was wrong", "the escrow", "is going to be slashed"
    if (convicted := task.life.conviction) is not None:
        why, refund = CAUSES.get(convicted.cause, why), f"the whole escrow, {amount(convicted.refund)},"
        slashed = slashed if convicted.slash is None else "was slashed"
    stake = "" if task.stake is None else f"; {amount(task.stake)} of its stake {slashed}"
    return f"{why}; {refund} is back{stake}"


def late(task: TaskView) -> Due | None:
    """The message about a task that anybody may send now because nobody did in time: expire, seed or close."""
    messages = (message for message in due.messages(task.life) if message.verb in _SENT)
    return next((m for m in messages if m.first + GRACE <= task.block < m.last), None)


def words(event: TaskEvent, amount: Amount, pace: Pace = UNKNOWN) -> str:
    """What an event says beyond its name; empty where its name says it all. `amount` writes wei for people, `pace`
    blocks as times from the event on."""
    match event:
        case Accepted():
            return f"by {short(event.executor)} for {amount(event.price)}; it holds {amount(event.collateral)}"
        case Locked():
            until = pace.block(event.end, event.place.block)
            return f"{amount(event.shares)} of its stake, until {until} at the latest"
        case Answered():
            return f"hidden, by verifier {short(event.operator)} (index {event.index})"
        case Revealed():
            who = f"verifier of index {event.slot - 1}" if event.slot else "executor"
            return f"by the {who}: outputs root {short(event.outputs_root.hex())}"
        case Exposed():
            who = f"verifier of index {event.slot - 1}" if event.slot else "executor"
            return f"the {who} gave its answer away: {amount(event.amount)} to {short(event.caller)}"
        case Challenged():
            return f"by {short(event.challenger)} as game {event.game_id}, with a bond of {amount(event.bond)}"
        case GameEnded():
            lost = "the executor" if event.executor_lost else f"challenger {short(event.challenger)}"
            return f"{lost} lost game {event.game_id}"
        case Convicted():
            return f"{CAUSES.get(event.cause, 'it was wrong')}; {amount(event.refund)} back to the client"
        case Slashed():
            return f"{amount(event.shares)} of the executor's stake"
        case Paid():
            return f"{amount(event.share)} to each whose answer was right, {amount(event.burned)} burned"
        case Settled():
            return f"{amount(event.amount)} to verifier {short(event.account)}"
        case BondReturned():
            return f"{amount(event.amount)} to challenger {short(event.challenger)}"
        case Closed():
            return f"{amount(event.paid)} paid, {amount(event.refund)} back to the client"
        case Failed():
            return f"{amount(event.refund)} back to the client, {amount(event.penalty)} of the executor burned"
    return ""
