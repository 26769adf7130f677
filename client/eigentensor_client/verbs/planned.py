"""How plans look: as lines. What they are as JSON objects says `eigentensor_client.results`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eigentensor.economics import WAD
from eigentensor.pace import Pace
from eigentensor_client.amounts import Amount, percent
from eigentensor_client.screen import facts
from eigentensor_client.tables import Table

if TYPE_CHECKING:
    from eigentensor_client.results import Plan


#: What a plan says of weights of eight bits.
PRODUCTS = {
    "integers": "of integers: what is multiplied with weights of eight bits is quantised",
    "floats": "of floats: weights of eight bits are multiplied out",
    "integers and floats": "of integers where weights of eight bits allow it, else of floats",
}


def plan_lines(plan: "Plan", amount: Amount, pace: Pace, cast: Sequence[str] = ()) -> list[Table]:
    """The plan, times at the pace of its chain; `cast` is what was float64 and is float32."""
    from eigentensor.dispute.refusal import RATE

    many = "a verifier" if plan.verifiers == 1 else f"{plan.verifiers} verifiers"
    gain = amount(plan.max_price + plan.value_at_risk)
    rows = [
        ["program", plan.program],
        *([["float32", f"instead of float64: {', '.join(cast)}"]] if cast else []),
        ["work", f"{plan.evaluations:,} evaluations in {plan.calls:,} calls"],
        *([["products", PRODUCTS[plan.products]]] if plan.products else []),
        ["bytes", f"{plan.upload:,} up, {plan.results:,} down; {plan.memory:,} in memory"],
        ["asked", _asked(plan, amount)],
        ["price", _price(plan, amount)],
        ["checks", f"{percent(plan.check_rate)} of such tasks are re-executed by {many}: "
                   f"{amount(plan.check_fee)} each, paid only then"],
        ["cap", f"{amount(plan.escrow)} is all that you can spend: held in escrow, the rest comes back"],
        ["funds", f"{amount(plan.balance)} in the market, {amount(plan.tokens)} in the wallet"],
        ["operators", _supply(plan, amount)],
        ["time", f"accepted within {pace.blocks(plan.accept_within)}, a result within "
                 f"{pace.blocks(plan.result_within)} more, final {pace.blocks(plan.final_after)} later"],
        ["at stake", f"{amount(plan.stake)} of stake and {amount(plan.collateral)} of collateral, lost "
                     "with a wrong result that anybody proves"],
        ["", f"noticed by a check: {_rounded(plan.detection)}; without bribes, cheating does not pay for gains "
             f"up to {gain}"],
        ["", f"{amount(plan.penalty)} if it accepts and gives no result"],
        ["a dispute", f"executes it again, computes {plan.game / RATE:.1f} s more at most, and shows the referee one "
                      f"step: at most {plan.witness:,} bytes, {plan.referee_gas:,} gas"],
    ]  # fmt: skip
    return [facts(rows)]


def _supply(plan: "Plan", amount: Amount) -> str:
    if plan.operators is None:
        return "unknown: the gateway does not answer"
    if plan.lowest_paid is None or plan.highest_paid is None:
        return str(plan.operators)
    lowest, highest = amount(plan.lowest_paid), amount(plan.highest_paid)
    prices = lowest if lowest == highest else f"{lowest} to {highest}"
    return f"{plan.operators}; lately they accepted tasks, whatever those were, for {prices}"


def _asked(plan: "Plan", amount: Amount) -> str:
    if plan.lowest_asked is None or plan.median_asked is None:
        return "unknown: no operator that could take it publishes what it asks"
    lowest, median = amount(plan.lowest_asked), amount(plan.median_asked)
    prices = f"{lowest} at least, {median} in the middle" if plan.quotes != 1 else lowest
    dear = ": more than you offer" if plan.lowest_asked > plan.max_price else ""
    return f"{prices} for this task, by {_counted(plan.quotes, 'operator')}{dear}"


def _price(plan: "Plan", amount: Amount) -> str:
    most = amount(plan.max_price)
    if plan.min_price == plan.max_price or not plan.ramp:
        return f"{most}, as soon as somebody accepts"
    hold = f" for {_counted(plan.hold, 'block')}" if plan.hold else ""
    return f"{amount(plan.min_price)}{hold}, rising to at most {most} in {_counted(plan.ramp, 'block')}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _rounded(rate: int) -> str:
    return f"{100 * rate / WAD:.1f} %"
