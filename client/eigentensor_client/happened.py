"""What happened to a task, in words. Pure."""

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
    TaskEvent,
)
from eigentensor_client.amounts import Amount
from eigentensor_client.screen import short

CAUSES = {
    Cause.VERDICT: "it lost a game about its result",
    Cause.SILENCE: "it was drawn for a check and did not reveal",
    Cause.DEMAND: "it did not show the outputs that were demanded",
}


def words(event: TaskEvent, amount: Amount) -> str:
    """What an event says beyond its name; empty where its name says it all. `amount` writes wei for people."""
    match event:
        case Accepted():
            return f"by {short(event.executor)} for {amount(event.price)}; it holds {amount(event.collateral)}"
        case Locked():
            return f"{amount(event.shares)} of its stake, until block {event.end} at the latest"
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
