"""What a client signs: pure, so every case is spelled out."""

from dataclasses import replace
from typing import Any

import pytest

from eigentensor import economics
from eigentensor.economics import WAD
from eigentensor.economics.words import read_rate
from eigentensor.errors import BindingError, TermsRefused
from eigentensor.task import NONE
from eigentensor_client.amounts import percent
from eigentensor_client.orders import (
    CHECK_RATE,
    Roots,
    Terms,
    check_terms,
    draft,
    escrow,
    escrow_of,
    plan,
    price,
    stake,
    terms_for,
)
from support.stories.orders import CLIENT, LOCAL, ORDER, TERMS, WORK


def test_an_order_says_what_the_terms_say() -> None:
    assert (ORDER.client, ORDER.nonce, ORDER.semantics, ORDER.repeat) == (CLIENT, 7, 1, 3)
    assert (ORDER.program, ORDER.inputs, ORDER.weights, ORDER.states, ORDER.variables) == (b"\x01" * 32, *[NONE] * 4)
    assert (ORDER.min_price, ORDER.max_price, ORDER.ramp_start, ORDER.ramp_length) == (200, 1000, 100, 8)
    assert (ORDER.exec, ORDER.accept_by, ORDER.operators) == (20, 130, NONE)
    checks = replace(TERMS, check_rate=WAD // 2, verifiers=3, check_fee=2000, value_at_risk=77)
    asked = draft(CLIENT, 7, 100, WORK, Roots(NONE), checks, LOCAL)
    assert (asked.check_rate, asked.verifiers, asked.check_fee, asked.value_at_risk) == (WAD // 2, 3, 2000, 77)


def test_unless_said_otherwise_a_fifth_is_checked_by_one_verifier_for_the_least_fee() -> None:
    assert (ORDER.check_rate, ORDER.verifiers, ORDER.value_at_risk) == (CHECK_RATE, 1, 0)
    assert read_rate("20%") == CHECK_RATE
    assert ORDER.check_fee == economics.check_fee_bound(LOCAL, 1000) == 1100


def test_the_escrow_is_the_price_and_every_verifier() -> None:
    terms = Terms(1000, verifiers=4, check_fee=1500)
    assert escrow(LOCAL, terms) == 1000 + 4 * 1500
    assert escrow_of(draft(CLIENT, 7, 100, WORK, Roots(NONE), terms, LOCAL)) == escrow(LOCAL, terms)


def test_without_a_ramp_the_most_is_paid_at_once() -> None:
    order = draft(CLIENT, 7, 100, WORK, Roots(NONE), Terms(1000, ramp=0), LOCAL)
    assert price(order, 101) == order.min_price == 1000


def test_the_price_is_fixed_by_the_block_of_the_acceptance() -> None:
    assert [price(ORDER, block) for block in (100, 104, 108, 130)] == [200, 600, 1000, 1000]


def test_who_waits_for_a_check_asks_for_one_with_certainty() -> None:
    assert terms_for("checked", TERMS) == replace(TERMS, check_rate=WAD)
    assert terms_for("result", TERMS) == terms_for("final", TERMS) == TERMS
    with pytest.raises(BindingError, match="'done' is nothing to wait for"):
        terms_for("done", TERMS)


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        (replace(TERMS, check_rate=WAD // 20 - 1), r"not between 5 % and 100 %"),
        (replace(TERMS, check_rate=WAD + 1), r"not between 5 % and 100 %"),
        (replace(TERMS, verifiers=0), "0 verifiers are not between 1 and 4"),
        (replace(TERMS, verifiers=5), "5 verifiers are not between 1 and 4"),
        (replace(TERMS, check_fee=1099), "below the least, 1100 wei"),
        (replace(TERMS, exec=61), "61 blocks for the execution are not between 3 and 60"),
        (replace(TERMS, min_price=1001), "the price begins above its end"),
        (replace(TERMS, accept_within=1 << 64), "18446744073709551616 blocks are more than an order can name"),
        (replace(TERMS, ramp=1 << 64), "more than an order can name"),
        (Terms(0), "nobody works for nothing"),
    ],
)
def test_terms_that_the_market_would_refuse_are_refused_before(terms: Terms, says: str) -> None:
    with pytest.raises(TermsRefused, match=says) as refused:
        check_terms(LOCAL, terms)
    assert refused.value.fix


def test_terms_at_the_edge_of_what_is_allowed_are_taken() -> None:
    check_terms(LOCAL, TERMS)
    check_terms(LOCAL, replace(TERMS, check_rate=WAD // 20, verifiers=4, check_fee=1100, exec=60, min_price=1000))
    check_terms(LOCAL, replace(TERMS, check_rate=WAD))


@pytest.mark.parametrize(
    ("word", "rate"),
    [
        ("20%", WAD // 5),
        ("20 %", WAD // 5),
        ("0.2", WAD // 5),
        ("100%", WAD),
        ("1", WAD),
        ("0.5%", WAD // 200),
        ("0", 0),
    ],
)
def test_a_rate_is_read_as_people_write_it(word: str, rate: int) -> None:
    assert read_rate(word) == rate
    assert read_rate(percent(rate)) == rate


@pytest.mark.parametrize(
    "word", ["", "20", "101%", "-1%", "often", "nan", "inf", "20%%", "2 0%x", "1e-19", "1e999999999"]
)
def test_what_is_no_rate_is_refused(word: str) -> None:
    with pytest.raises(BindingError, match="is not a rate"):
        read_rate(word)


def test_a_plan_says_all_that_can_be_spent_and_what_cheating_costs() -> None:
    seen = plan(WORK, TERMS, LOCAL, balance=1000, tokens=1099, operators=None)
    assert seen.escrow == 2100
    assert not seen.affordable
    assert plan(WORK, TERMS, LOCAL, balance=1000, tokens=1100, operators=None).affordable
    assert seen.stake == stake(LOCAL, ORDER, 1000) == economics.stake(LOCAL, 1000, 0, CHECK_RATE, 1)
    assert seen.collateral == economics.collateral(LOCAL, 1000, 1, 1100)
    assert WAD // 8 < seen.detection < CHECK_RATE


def test_a_plan_says_what_members_were_paid_lately() -> None:
    def operator(low: str, high: str, *, member: bool = True) -> dict[str, Any]:
        return {"member": member, "lately": {"lowest_price": low, "highest_price": high}}

    operators = [operator("30", "50"), operator("9", "40"), operator("1", "99", member=False), {"member": True}]
    seen = plan(WORK, TERMS, LOCAL, balance=0, tokens=0, operators=operators)
    assert (seen.operators, seen.lowest_paid, seen.highest_paid) == (3, 9, 50)
    new = plan(WORK, TERMS, LOCAL, balance=0, tokens=0, operators=[{"member": True, "lately": None}])
    assert (new.operators, new.lowest_paid, new.highest_paid) == (1, None, None)
