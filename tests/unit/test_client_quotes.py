"""What a client makes of what operators publish: prices for an order, and where its own price begins."""

from dataclasses import replace
from typing import Any

import pytest

from eigentensor import merkle
from eigentensor.economics import WAD
from eigentensor.economics.pricing import Ask, Pricing, Speed, readable
from eigentensor.economics.terms import GAS_ACCEPT, GAS_COMMIT
from eigentensor.task import NONE, Order
from eigentensor_client.offers import UNKNOWN
from eigentensor_client.orders import Roots, Terms, draft, plan, renewed
from eigentensor_client.quotes import SILENT, Market, OperatorQuote, Rise, fair
from support.stories.orders import CLIENT, LOCAL, WORK

ASK = Ask(Pricing(min_price=1000), Speed(1e6, 1e6, 1.0), 1.0, 3)
TERMS = Terms(WAD, exec=20)
NAMES = [f"0x{number:040x}" for number in range(1, 9)]


def ordered(terms: Terms = TERMS, market: Market = SILENT, block: int = 100, place: int = 0) -> Order:
    return draft(CLIENT, 7, block, WORK, Roots(b"\x01" * 32), terms, LOCAL, place=place, market=market)


def listed(*asks: Any, member: bool = True) -> list[dict[str, Any]]:
    return [{"operator": name, "member": member, "asks": ask} for name, ask in zip(NAMES, asks, strict=False)]


def dear(price: int, **changes: Any) -> dict[str, Any]:
    return replace(ASK, pricing=Pricing(min_price=price), **changes).to_json()


def prices(*asks: Any, order: Order | None = None) -> list[int]:
    quotes = Market.read(listed(*asks), 0).quotes(order or ordered(), WORK.program, LOCAL)
    return [quote.price for quote in quotes]


def test_an_ask_is_read_as_it_was_written() -> None:
    assert Ask.from_json(ASK.to_json()) == ASK


@pytest.mark.parametrize(
    "ask",
    [
        None, 3, {}, "x", ASK.to_json() | {"block_seconds": 0}, ASK.to_json() | {"block_seconds": "1"},
        ASK.to_json() | {"block_seconds": float("nan")}, ASK.to_json() | {"reserve": -1},
        ASK.to_json() | {"speed": {**ASK.speed.to_json(), "operations_per_second": float("inf")}},
        ASK.to_json() | {"speed": {**ASK.speed.to_json(), "bytes_per_second": 1e-300}},
        ASK.to_json() | {"speed": {**ASK.speed.to_json(), "startup_seconds": -1}},
        ASK.to_json() | {"pricing": {**ASK.pricing.to_json(), "margin": "-5"}},
    ],
)  # fmt: skip
def test_nonsense_is_no_ask(ask: Any) -> None:
    assert prices(ask, dear(2000)) == [2000]


def test_prices_are_those_of_members_that_would_be_in_time_the_lowest_first() -> None:
    slow = dear(1, speed=Speed(1e-3, 1e6, 1.0))
    patient = dear(2, reserve=20)
    usury = replace(ASK, pricing=Pricing(interest=10**9 * WAD)).to_json()
    assert prices(dear(3000), dear(1000), slow, patient, usury, dear(2000)) == [1000, 2000, 3000]
    assert Market.read(listed(dear(1), member=False), 0).asks == {}
    assert Market.read([{"operator": "nobody", "member": True, "asks": dear(1)}], 0).asks == {}
    assert Market.read([{"operator": NAMES[0], "member": True}], 0).asks == Market.read(None, 0).asks == {}


def test_an_order_for_one_operator_has_its_price_alone() -> None:
    alone = replace(ordered(), operators=merkle.operators_root([bytes.fromhex(NAMES[1][2:])]))
    assert prices(dear(1000), dear(2000), dear(3000), order=alone) == [2000]


def test_gas_is_part_of_a_price() -> None:
    market = [Market.read(listed(dear(1000)), gas_price) for gas_price in (0, 10**9)]
    cheap, costly = (one.quotes(ordered(), WORK.program, LOCAL)[0].price for one in market)
    gas = GAS_ACCEPT + GAS_COMMIT
    assert cheap == 1000 and costly == readable(gas * 10**9)


def test_a_fair_price_begins_above_the_lowest_and_waits_for_whom_asks_it() -> None:
    assert fair([OperatorQuote(1000, 9), OperatorQuote(1100, 2)], WAD, 100) == Rise(1250, 9, 25)
    assert fair([OperatorQuote(1000, 70)], WAD, 100) == Rise(1250, 25, 25)  # a quarter of the time at most
    assert fair([OperatorQuote(1000, 9)], 1100, 100) == Rise(1100, 9, 25)  # never more than the most
    assert fair([OperatorQuote(1000, 9)], WAD, 3) == Rise(1250, 0, 0)  # no time: the most at once
    assert fair([], WAD, 100) == Rise(WAD // UNKNOWN, 0, 25)


def test_an_order_begins_at_about_what_is_asked_and_ends_at_the_most() -> None:
    market = Market.read(listed(dear(2000), dear(1000)), 0)
    order = ordered(market=market)
    assert (order.min_price, order.max_price, order.ramp_length, order.accept_by) == (1250, WAD, 25, 200)
    hold = order.ramp_start - 100
    assert hold == market.quotes(order, WORK.program, LOCAL)[0].blocks <= 25
    behind = ordered(market=market, place=5)  # it waits for others, and so does its price
    assert (behind.ramp_start, behind.accept_by) == (order.ramp_start + 10, order.accept_by + 10)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        (Terms(WAD, ramp=0), (WAD, 100, 0)),
        (Terms(WAD, 500, ramp=30), (500, 100, 30)),
        (Terms(WAD, 500), (500, 100, 0)),
        (Terms(WAD, ramp=30), (WAD, 100, 30)),
    ],
)
def test_who_says_how_the_price_goes_is_heard(terms: Terms, expected: tuple[int, int, int]) -> None:
    order = ordered(terms, Market.read(listed(dear(1000)), 0))
    assert (order.min_price, order.ramp_start, order.ramp_length) == expected


def test_an_order_that_is_renewed_has_the_same_time_before_it() -> None:
    first = ordered(market=Market.read(listed(dear(1000)), 0))
    again = renewed(first, 8, 700, 101)
    assert again == replace(first, nonce=8, ramp_start=first.ramp_start + 599, accept_by=first.accept_by + 599)


def test_a_plan_says_what_operators_would_ask() -> None:
    def planned(*asks: Any, terms: Terms = TERMS) -> Any:
        return plan(WORK, terms, LOCAL, balance=0, tokens=0, operators=listed(*asks), gas_price=0)

    seen = planned(dear(3000), dear(1000), dear(2000))
    assert (seen.quotes, seen.lowest_asked, seen.median_asked, seen.min_price) == (3, 1000, 2000, 1250)
    fixed = planned(dear(1000), terms=Terms(WAD, ramp=0, exec=20))
    assert (fixed.lowest_asked, fixed.min_price, fixed.hold, fixed.ramp) == (1000, WAD, 0, 0)
    silent = planned(None)
    assert (silent.quotes, silent.lowest_asked, silent.median_asked, silent.min_price) == (0, None, None, WAD // 100)


def test_nobody_is_admitted_by_a_list_that_is_not_known() -> None:
    assert prices(dear(1000), order=replace(ordered(), operators=b"\5" * 32)) == []
    assert prices(dear(1000), order=replace(ordered(), operators=NONE)) == [1000]
