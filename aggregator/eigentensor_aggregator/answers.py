"""What the gateway says about tasks and operators, as JSON. Amounts are strings of wei, roots and hashes are hex."""

from collections.abc import Mapping, Sequence
from typing import Any

from eth_utils.address import is_address, to_checksum_address

from eigentensor import economics
from eigentensor.chain import Event, State
from eigentensor_aggregator.machine import TaskView, deadline
from eigentensor_aggregator.tables import DeclineRow, OperatorRow

_WAITS = {
    State.OPEN: "an operator that accepts",
    State.ACCEPTED: "the executor's commit",
    State.COMMITTED: "the executor's reveal",
    State.REVEALED: "the end of the challenge window",
}


def task(view: TaskView, parameters: economics.Parameters, block: int) -> dict[str, Any]:
    """`checked` is null until there is a result; nobody re-executes results yet, so then it is `unchecked`."""
    return {
        "schema": "eigentensor.task/1",
        "task": view.task.hex(),
        "state": view.state.name.lower(),
        "checked": None if view.outputs_root is None else "unchecked",
        "waits_for": _WAITS.get(view.state),
        "deadline": deadline(view, parameters),
        "block": block,
        "client": view.order.client,
        "executor": view.executor,
        "price": _text(view.price),
        "collateral": _text(view.collateral),
        "penalty": _text(view.penalty),
        "outputs_root": view.outputs_root.hex() if view.outputs_root else None,
        "posted": {"block": view.posted.block, "transaction": "0x" + view.posted.transaction.hex()},
        "order": view.order.to_json(),
    }


def events(happened: Sequence[Event]) -> list[dict[str, Any]]:
    """A task's events in order, without the order, which stands beside them."""
    return [
        {
            "event": type(event).__name__,
            "block": event.place.block,
            "transaction": "0x" + event.place.transaction.hex(),
            **{name: value for name, value in event.arguments().items() if name not in ("order", "task")},
        }
        for event in happened
    ]


def explanation(
    view: TaskView,
    parameters: economics.Parameters,
    block: int,
    operators: Sequence[OperatorRow],
    declines: Sequence[DeclineRow],
) -> dict[str, Any]:
    """Operator by operator why a task was not accepted, and the price at which it is offered now and next."""
    order = view.order
    ramp = (order.min_price, order.max_price, order.ramp_start, order.ramp_length)
    said = {row.operator: row for row in declines}
    rows = [row for row in operators if row.member or row.operator in said]
    return {
        "schema": "eigentensor.explanation/1",
        "task": view.task.hex(),
        "state": view.state.name.lower(),
        "waits_for": _WAITS.get(view.state),
        "deadline": deadline(view, parameters),
        "block": block,
        "price": {"now": _text(economics.price(*ramp, block + 1)), "maximum": _text(order.max_price)},
        "operators": [_opinion(row, said.get(row.operator), view.executor) for row in rows],
    }


def operator(row: OperatorRow, tasks: Mapping[str, int]) -> dict[str, Any]:
    return {
        "operator": row.operator,
        "member": row.member,
        "signer": row.signer,
        "collateral_cap": row.collateral_cap,
        "tasks": dict(tasks),
    }


def checksum(address: str | None) -> str | None:
    """An address as the database spells it; anything else stays what it is and matches nothing."""
    return to_checksum_address(address) if address is not None and is_address(address) else address


def _opinion(row: OperatorRow, decline: DeclineRow | None, executor: str | None) -> dict[str, Any]:
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
