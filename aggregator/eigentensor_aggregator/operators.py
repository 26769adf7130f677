"""What the gateway says about operators, and what they say about tasks, as JSON. Amounts are strings of wei."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from eigentensor import economics
from eigentensor.addresses import is_address, to_checksum_address
from eigentensor.schemas.network import Lately, Operator
from eigentensor.task import Life, words
from eigentensor.task import objects as schemas
from eigentensor.task.view import text
from eigentensor_aggregator.queries import OperatorView
from eigentensor_aggregator.recent import Recent
from eigentensor_aggregator.standings import Standing
from eigentensor_aggregator.tables import DeclineRow, OperatorRow


def explanation(
    life: Life,
    block: int,
    operators: Sequence[OperatorRow],
    declines: Sequence[DeclineRow],
) -> schemas.Explanation:
    """Operator by operator why a task was not accepted, and the price at which it is offered now and next."""
    order = life.order
    ramp = (order.min_price, order.max_price, order.ramp_start, order.ramp_length)
    declined = {row.operator: row for row in declines}
    rows = [row for row in operators if row.member or row.operator in declined]
    return {
        "schema": "eigentensor.explanation/1",
        "task": life.uuid.hex(),
        "state": life.state.name.lower(),
        "waits_for": words.waits_for(life, block),
        "deadline": life.deadline,
        "block": block,
        "price": {"now": text(economics.price(*ramp, block + 1)), "maximum": text(order.max_price)},
        "operators": [_opinion(row, declined.get(row.operator), life.executor) for row in rows],
    }


def operator(view: OperatorView, standing: Standing | None, asks: Mapping[str, Any] | None) -> Operator:
    """`stake` in wei, `locked_shares` by tasks of the market's strategy; null where the node did not answer."""
    row = view.row
    return {
        "operator": row.operator,
        "member": row.member,
        "signer": row.signer,
        "collateral_cap": row.collateral_cap,
        "stake_cap": row.stake_cap,
        "seats": row.seats,
        "stake": text(standing.stake if standing else None),
        "locked_shares": text(standing.locked if standing else None),
        "tasks": dict(view.executed),
        "lately": lately(view.accepted),
        "asks": cast(dict[str, Any] | None, asks),
    }


def lately(accepted: Recent | None) -> Lately | None:
    """Prices and speed of the tasks that an operator accepted last; None where it accepted none."""
    if accepted is None:
        return None
    return {
        "tasks": accepted.tasks,
        "lowest_price": str(accepted.lowest),
        "median_price": str(accepted.median),
        "highest_price": str(accepted.highest),
        "median_blocks": accepted.blocks,
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
