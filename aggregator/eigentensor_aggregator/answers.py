"""What the gateway says about tasks and operators, as JSON. Amounts are strings of wei, roots and hashes are hex."""

from collections.abc import Sequence
from statistics import median_low
from typing import cast

from eth_utils.address import is_address, to_checksum_address

from eigentensor import economics
from eigentensor.chain import Event, State
from eigentensor.economics import Parameters
from eigentensor.schemas import tasks as schemas
from eigentensor.schemas.network import Lately, Operator
from eigentensor_aggregator.machine import deadline, seed_block, verifiers_by
from eigentensor_aggregator.queries import OperatorView
from eigentensor_aggregator.standings import Standing
from eigentensor_aggregator.tables import DeclineRow, OperatorRow
from eigentensor_aggregator.tasks import Answer, TaskView

_WAITS = {
    State.OPEN: "an operator that accepts",
    State.ACCEPTED: "the executor's commit",
    State.COMMITTED: "the executor's reveal",
    State.REVEALED: "the end of the challenge window",
}


def task(view: TaskView, p: Parameters, block: int) -> schemas.Task:
    """A task in the words of the glossary: result → checked(k) or unchecked → final, or convicted."""
    order = view.order
    held = view.price and economics.stake(p, view.price, order.value_at_risk, order.check_rate, order.verifiers)
    return {
        "schema": "eigentensor.task/1",
        "task": view.task.hex(),
        "state": view.state.name.lower(),
        "stage": stage(view, p, block),
        "checked": checked(view, p, block),
        "waits_for": waits_for(view),
        "deadline": deadline(view, p),
        "block": block,
        "client": order.client,
        "executor": view.executor,
        "price": _text(view.price),
        "collateral": _text(view.collateral),
        "stake": _text(held),
        "penalty": _text(view.penalty),
        "outputs_root": view.outputs_root.hex() if view.outputs_root else None,
        "posted": {"block": view.posted.block, "transaction": "0x" + view.posted.transaction.hex()},
        "draw": _draw(view, p),
        "verifiers": _verifiers(view),
        "answers": [_answer(view, answer) for answer in view.answers.values()],
        "games": sorted(view.games),
        "convicted": _convicted(view),
        "order": cast(schemas.Order, order.to_json()),
    }


def stage(view: TaskView, p: Parameters, block: int) -> str:
    """Where the task stands, in one word."""
    if view.state is State.REVEALED:
        return checked(view, p, block) or "result"
    return view.state.name.lower()


def checked(view: TaskView, p: Parameters, block: int) -> str | None:
    """`checked(k)`: k verifiers agree; `unchecked`: nobody was drawn, or nobody answered; None: not known (yet).

    What somebody disputes is not `unchecked`: it is being judged.
    """
    if view.outputs_root is None or view.state is State.CONVICTED:
        return None
    if view.agreeing:
        return f"checked({view.agreeing})"
    if view.is_contested:
        return None
    pending = view.drawn and not view.state.is_terminal and block <= verifiers_by(view, p)
    return None if pending and any(a.root is None and not a.exposed for a in view.answers.values()) else "unchecked"


def waits_for(view: TaskView) -> str | None:
    """What a task waits for, in words."""
    games = [number for number, game in view.games.items() if game.executor_lost is None]
    if view.state is State.COMMITTED and view.mix is None:
        return "the seed that says whether it is checked"
    if view.state is State.COMMITTED and view.drawn:
        return "the verifiers' answers, then the executor's reveal"
    if view.state is State.REVEALED and view.show_by is not None:
        return "leaves of the outputs that the client demanded"
    if view.state is State.REVEALED and games:
        return f"the end of game {', '.join(map(str, games))}"
    return _WAITS.get(view.state)


def _draw(view: TaskView, p: Parameters) -> schemas.Draw:
    return {
        "seed_block": None if view.committed_at is None else seed_block(view, p),
        "known": view.mix is not None,
        "drawn": view.drawn,
    }


def _verifiers(view: TaskView) -> schemas.Verifiers:
    agreed, roots = view.agreeing, sum(answer.root is not None for answer in view.answers.values())
    return {"answered": len(view.answers), "agreed": agreed, "differed": roots - agreed if view.outputs_root else 0}


def _answer(view: TaskView, answer: Answer) -> schemas.Answer:
    return {
        "index": answer.index,
        "operator": answer.operator,
        "block": answer.block,
        "revealed": answer.root is not None,
        "agrees": None if answer.root is None or view.outputs_root is None else answer.root == view.outputs_root,
        "exposed": answer.exposed,
        "settled": _text(answer.settled),
    }


def _convicted(view: TaskView) -> schemas.Conviction | None:
    """Why and by whom, and what became of the stake; `paid` is what each beneficiary of the slash got."""
    if (conviction := view.conviction) is None:
        return None
    slash: schemas.Slash | None = None
    if conviction.slash is not None:
        slash = {"slash_id": conviction.slash[0], "shares": str(conviction.slash[1])}
    return {
        "cause": conviction.cause.name.lower(),
        "winner": conviction.winner,
        "refund": str(conviction.refund),
        "block": conviction.block,
        "slash": slash,
        "paid": _text(conviction.paid),
    }


def events(happened: Sequence[Event]) -> list[schemas.TaskEvent]:
    """A task's events in order, without the order, which stands beside them."""
    told = [
        {
            "event": type(event).__name__,
            "block": event.place.block,
            "transaction": "0x" + event.place.transaction.hex(),
            **{name: value for name, value in event.arguments().items() if name not in ("order", "task")},
        }
        for event in happened
    ]
    return cast(list[schemas.TaskEvent], told)


def explanation(
    view: TaskView,
    p: Parameters,
    block: int,
    operators: Sequence[OperatorRow],
    declines: Sequence[DeclineRow],
) -> schemas.Explanation:
    """Operator by operator why a task was not accepted, and the price at which it is offered now and next."""
    order = view.order
    ramp = (order.min_price, order.max_price, order.ramp_start, order.ramp_length)
    said = {row.operator: row for row in declines}
    rows = [row for row in operators if row.member or row.operator in said]
    return {
        "schema": "eigentensor.explanation/1",
        "task": view.task.hex(),
        "state": view.state.name.lower(),
        "waits_for": waits_for(view),
        "deadline": deadline(view, p),
        "block": block,
        "price": {"now": _text(economics.price(*ramp, block + 1)), "maximum": _text(order.max_price)},
        "operators": [_opinion(row, said.get(row.operator), view.executor) for row in rows],
    }


def operator(view: OperatorView, standing: Standing | None) -> Operator:
    """`stake` in wei, `locked_shares` by tasks of the market's strategy; null where the node did not answer."""
    row = view.row
    return {
        "operator": row.operator,
        "member": row.member,
        "signer": row.signer,
        "collateral_cap": row.collateral_cap,
        "stake_cap": row.stake_cap,
        "seats": row.seats,
        "stake": _text(standing.stake if standing else None),
        "locked_shares": _text(standing.locked if standing else None),
        "tasks": dict(view.executed),
        "lately": _lately(view.accepted),
    }


def _lately(accepted: Sequence[TaskView]) -> Lately | None:
    prices = [view.price for view in accepted if view.price is not None]
    took = [
        v.committed_at - v.accepted_at for v in accepted if v.committed_at is not None and v.accepted_at is not None
    ]
    if not prices:
        return None
    return {
        "tasks": len(prices),
        "lowest_price": str(min(prices)),
        "median_price": str(median_low(prices)),
        "highest_price": str(max(prices)),
        "median_blocks": median_low(took) if took else None,
    }


def checksum(address: str | None) -> str | None:
    """An address as the database spells it; anything else stays what it is and matches nothing."""
    return to_checksum_address(address) if address is not None and is_address(address) else address


def _opinion(row: OperatorRow, decline: DeclineRow | None, executor: str | None) -> schemas.Opinion:
    if row.operator == executor:
        return {"operator": row.operator, "reason": "accepted", "needed": None, "offered": None, "block": None}
    if decline is None:
        return {"operator": row.operator, "reason": "silent", "needed": None, "offered": None, "block": None}
    return {
        "operator": row.operator,
        "reason": decline.reason,
        "needed": decline.needed,
        "offered": decline.offered,
        "block": decline.block,
    }


def _text(amount: int | None) -> str | None:
    return None if amount is None else str(amount)
