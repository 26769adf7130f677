"""What a task's state means to its client: what is reached, what failed, what is late, what is waited for. Pure."""

from eigentensor.chain import Convicted, Slashed, State
from eigentensor.economics import Parameters
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
from eigentensor_client.amounts import Amount
from eigentensor_client.happened import CAUSES
from eigentensor_client.results import TaskView

GRACE = 3  # blocks in which the aggregator, or whoever gains by it, may move a task on before the client does


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


def failure(task: TaskView, stage: str, amount: Amount) -> EigenTensorError | None:
    """Why a stage will never come; None if it may. `amount` writes wei as people read them."""
    show = f"`eigentensor task explain {task.uuid[:10]}` says more."
    match task.state:
        case State.EXPIRED:
            return NobodyAccepted(
                f"no operator accepted task {task.uuid} until block {task.order.accept_by}; the escrow is back",
                fix=f"Post it on terms that somebody takes: {show}",
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
    """Why an executor was convicted, and where the money went, from the task's events."""
    said = {type(event): event for event in task.events}
    convicted = said.get(Convicted)
    why, refund = "it was wrong", "the escrow"
    if isinstance(convicted, Convicted):
        why = CAUSES.get(convicted.cause, why)
        refund = f"the whole escrow, {amount(convicted.refund)},"
    slashed = "was slashed" if Slashed in said else "is going to be slashed"
    stake = "" if task.stake is None else f"; {amount(task.stake)} of its stake {slashed}"
    return f"{why}; {refund} is back{stake}"


def due(task: TaskView, p: Parameters) -> str | None:
    """The message that anybody may send now because nobody did in time: expire, seed or close."""
    block = task.block - GRACE
    match task.state:
        case State.OPEN:
            return "expire" if block > task.order.accept_by else None
        case State.COMMITTED if task.drawn is None and task.seed_block < block <= task.seed_block + p.record - GRACE:
            return "seed"
        case State.ACCEPTED | State.COMMITTED | State.REVEALED if block > task.deadline and not task.games:
            return "close"
    return None


def waits_for(task: TaskView) -> str:
    """What a task waits for now, in words, with the block by which it comes."""
    match task.state:
        case State.OPEN:
            return f"an acceptance until block {task.order.accept_by}"
        case State.ACCEPTED:
            return f"the executor's commit until block {task.deadline}, or the refund after it"
        case State.COMMITTED:
            return _before_reveal(task)
        case State.REVEALED if task.games:
            games = ", ".join(map(str, task.games))
            return f"the end of game {games}: `eigentensor challenge show {task.games[0]}` shows it"
        case State.REVEALED if task.agreed + task.differed < task.answered:
            return f"what the verifiers reveal; final after block {task.deadline}"
        case State.REVEALED:
            return f"the end of the window: final after block {task.deadline}"
    return "nothing"


def _before_reveal(task: TaskView) -> str:
    if task.drawn is None:
        return f"the seed that block {task.seed_block} gives: it says whether the task is checked"
    if not task.drawn:
        return f"the executor's reveal until block {task.deadline}, or the refund after it"
    if task.block <= task.check_by:
        return f"the verifiers' answers until block {task.check_by}, then the executor's reveal"
    return f"the executor's reveal until block {task.deadline}, or its conviction after it"
