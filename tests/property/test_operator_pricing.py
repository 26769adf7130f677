"""Prices of an operator: never below what the task costs, and no lower where anything about it costs more."""

import json
import math
from dataclasses import fields, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from eigentensor import economics
from eigentensor.economics import WAD
from eigentensor.economics.pricing import Conditions, Pricing, asking, check_costs, price_policy, task_costs
from eigentensor.economics.terms import GAS_ACCEPT, GAS_COMMIT
from eigentensor.program.cost import Needs, compile_seconds, needs_of
from eigentensor.task import Order
from eigentensor_client.quotes import Market
from eigentensor_operator.policy import Code, Policy, refuse_check, refuse_needs, refuse_price
from support.programs.worked_examples import layer
from support.stories.operator import DOMAIN, ME, PARAMETERS, STANDING, an_order

PROGRAM = layer().program
rates = st.integers(0, WAD // 4)
pricings = st.builds(
    Pricing,
    min_price=st.integers(0, WAD),
    price_per_hour=st.integers(0, WAD),
    margin=st.integers(0, 2 * WAD),
    interest=rates,
    disputed=rates,
    coin_price=st.integers(0, 5000 * WAD),
)
orders = st.builds(
    an_order,
    exec=st.integers(1, PARAMETERS.max_exec),
    check_rate=st.integers(PARAMETERS.check_floor, WAD),
    verifiers=st.integers(1, 4),
    value_at_risk=st.integers(0, 1000 * WAD),
    check_fee=st.integers(0, WAD),
)
conditions = st.builds(
    Conditions, seconds=st.floats(0, 1e5), gas_price=st.integers(0, 10**12), block_seconds=st.floats(0.1, 12)
)


@given(pricings, orders, conditions)
def test_a_price_bears_what_the_task_costs_and_is_the_least_that_does(r: Pricing, order: Order, c: Conditions) -> None:
    quote = price_policy(r, PARAMETERS, order, c)
    assert quote is not None
    costs = task_costs(r, PARAMETERS, order, c, quote.price)
    assert quote.costs == costs
    assert quote.price >= r.min_price
    assert quote.price * WAD >= costs.total * (WAD + r.margin)
    if quote.price > r.min_price:
        below = quote.price - 1
        assert below < asking(r, task_costs(r, PARAMETERS, order, c, below))


@given(pricings, orders, conditions)
def test_the_costs_are_those_of_the_formula(r: Pricing, order: Order, c: Conditions) -> None:
    price = r.min_price
    costs = task_costs(r, PARAMETERS, order, c, price)
    gas = c.gas_price * r.coin_price / WAD
    stake = economics.stake(PARAMETERS, price, order.value_at_risk, order.check_rate, order.verifiers)
    held = stake + economics.collateral(PARAMETERS, price, order.verifiers, order.check_fee)
    years = economics.lifetime(PARAMETERS, order.exec) * c.block_seconds / (365.25 * 24 * 3600)
    seconds = math.ceil(c.seconds * 1e9) / 1e9
    expected = (
        r.price_per_hour * seconds / 3600, (GAS_ACCEPT + GAS_COMMIT) * gas, held * r.interest / WAD * years
    )  # fmt: skip
    for shown, whole in zip((costs.computing, costs.gas, costs.lock), expected, strict=True):
        assert whole * (1 - 1e-9) - 1 <= shown <= whole * 1.01 + 2
    assert costs.games == 0 or (r.disputed and costs.games <= r.disputed * 900_000 * gas / WAD + costs.computing + 2)


@given(pricings, orders, conditions, st.data())
def test_no_price_falls_where_something_costs_more(
    r: Pricing, order: Order, c: Conditions, data: st.DataObject
) -> None:
    before = price_policy(r, PARAMETERS, order, c)
    assert before is not None
    dearer: list[tuple[Any, str]] = [(r, field.name) for field in fields(Pricing)]
    dearer += [(order, name) for name in ("exec", "value_at_risk", "check_fee")]
    dearer += [(c, field.name) for field in fields(Conditions)]
    changed, name = data.draw(st.sampled_from(dearer))
    more = data.draw(st.integers(1, 3))
    limit = PARAMETERS.max_exec if name == "exec" else getattr(changed, name) * more + more
    after = replace(changed, **{name: min(getattr(changed, name) * more + more, limit)})
    quote = price_policy(
        after if changed is r else r, PARAMETERS, after if changed is order else order, after if changed is c else c
    )
    assert quote is None or quote.price >= before.price


@given(pricings, orders, conditions, st.integers(PARAMETERS.check_floor, WAD))
def test_what_is_checked_more_often_is_not_dearer(r: Pricing, order: Order, c: Conditions, rate: int) -> None:
    """It locks less."""
    seldom, often = sorted((order.check_rate, rate))
    prices = [price_policy(r, PARAMETERS, replace(order, check_rate=x), c) for x in (seldom, often)]
    assert prices[0] is not None and prices[1] is not None
    assert prices[0].price >= prices[1].price


def test_an_interest_that_no_price_bears_is_no_price() -> None:
    usury, c = Pricing(interest=10**9 * WAD), Conditions(1.0, 1, 12.0)
    assert price_policy(usury, PARAMETERS, an_order(), c) is None


@given(pricings, orders, conditions, st.integers(0, 2 * WAD))
def test_an_order_is_taken_from_its_least_price_on(r: Pricing, order: Order, c: Conditions, price: int) -> None:
    policy, standing = policy_of(r, c), replace(STANDING, gas_price=c.gas_price)
    offered = replace(order, min_price=price, max_price=price)
    quote = price_policy(r, PARAMETERS, offered, policy.conditions(NEEDS, c.gas_price))
    no = refuse_price(policy, offered, standing, NEEDS)
    assert quote is not None and (no is None) == (price >= quote.price)
    if no is not None:
        named = int(no.needed.removesuffix(" wei"))
        assert quote.price <= named <= quote.price * 1.01 and no.offered == f"{price} wei"
        assert refuse_price(policy, replace(order, min_price=named, max_price=named), standing, NEEDS) is None


@given(pricings, orders, conditions, st.integers(0, 2 * WAD), st.floats(1e3, 1e12), st.floats(1e3, 1e12))
def test_what_a_client_computes_of_what_is_published_is_what_the_operator_asks(
    r: Pricing, order: Order, c: Conditions, price: int, operations: float, memory: float
) -> None:
    """The `needed` of its decline, digit by digit, for a program that it has not compiled."""
    policy = replace(policy_of(r, c), operations_per_second=operations, bytes_per_second=memory, startup_seconds=0.3)
    published = json.loads(json.dumps(policy.ask.to_json()))
    operator = {"operator": policy.operator, "member": True, "asks": published}
    offered = replace(order, min_price=price, max_price=price)
    quotes = Market.read([operator], c.gas_price).quotes(offered, PROGRAM, PARAMETERS)

    needs, compiling = needs_of(PROGRAM, offered.repeat), compile_seconds(PROGRAM)
    if (late := refuse_needs(policy, offered, needs)) is not None and late.code is Code.EXEC:
        assert quotes == []
        return
    no = refuse_price(policy, offered, replace(STANDING, gas_price=c.gas_price), needs, compiling)
    ((asked, _),) = quotes
    assert no is None or no.needed == f"{asked} wei"
    assert (no is None) >= (price >= asked)  # what is published is rounded up


@given(pricings, orders, conditions, st.integers(0, WAD))
def test_a_check_is_done_where_its_fee_bears_it(r: Pricing, order: Order, c: Conditions, price: int) -> None:
    policy, standing = policy_of(r, c), replace(STANDING, gas_price=c.gas_price)
    no = refuse_check(policy, order, standing, NEEDS, price, 10**9)
    costs = check_costs(r, PARAMETERS, order, policy.conditions(NEEDS, c.gas_price), price)
    assert (no is None) == (order.check_fee >= asking(r, costs))


NEEDS = Needs(operations=1_000, memory=1)


def policy_of(r: Pricing, c: Conditions) -> Policy:
    return Policy(
        ME, PARAMETERS, DOMAIN, pricing=r, operations_per_second=1_000 / max(c.seconds, 1e-9),
        block_seconds=c.block_seconds,
    )  # fmt: skip
