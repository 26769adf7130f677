"""Attacks on the incentives, simulated: each does not pay, or it is said what remains.

The numbers are those of "Attacks" in contracts/README.md. All are tried at the share of seats that the market assumes
(a third), for gains up to what the order names, unless a test is about more.
"""

from dataclasses import replace

import pytest

from eigentensor.economics import WAD
from eigentensor.economics.agents import (
    BRIBING,
    CHEATS,
    COLLUDING,
    COPYING,
    CORNERED,
    FREE_OPTION,
    GRIEFING,
    LAZY,
    MANY_SEATS,
    SELLING,
    Agent,
    SelfConviction,
)
from eigentensor.economics.expected import (
    Expectation,
    advantage,
    baseline,
    break_even,
    break_even_fraud,
    capital_ratio,
    expected,
    worst_cheat,
)
from eigentensor.economics.situation import BURNED, Situation
from eigentensor.economics.terms import GAS_CHALLENGE, GAS_DEFEND
from eigentensor_economics.simulation import estimate
from support.stories.situations import ORDINARY

RATES, TEAMS, GAINS = (0.05, 0.2, 0.3), (1, 4), (0.0, 1.0, 10.0, 100.0)


def orders(gain: float) -> list[Situation]:
    """With what the market's checks may be: the whole gain is named as value at risk."""
    return [replace(ORDINARY, rate=rate, verifiers=n, gain=gain, value_at_risk=gain) for rate in RATES for n in TEAMS]


def does_not_pay(x: Situation, agent: Agent, seed: int = 1) -> bool:
    """Not in the simulation either: the whole interval is below what honesty brings."""
    return estimate(x, agent, tasks=10_000, seed=seed).payoff.high < baseline(x, agent)


@pytest.mark.parametrize("gain", GAINS)
def test_attack_03_operator_and_checkers_collude(gain: float) -> None:
    assert all(expected(x, agent) < 0 < baseline(x, agent) for x in orders(gain) for agent in CHEATS)
    if gain <= 1:  # beyond, what is rare and large takes more tasks to show
        assert all(does_not_pay(x, agent) for x in orders(gain) for agent in (COLLUDING, CORNERED, BRIBING))


def test_attack_03_what_remains_is_a_coalition_with_most_of_the_seats() -> None:
    x = replace(ORDINARY, gain=10.0, value_at_risk=10.0)
    least = break_even(x, COLLUDING, "share", 0.0, 0.999)
    assert least == pytest.approx(0.724, abs=0.001), "of all seats, at a check rate of a fifth"
    assert expected(replace(x, share=0.9), COLLUDING) > 1


def test_attack_04_one_owner_with_many_seats_lies_no_better() -> None:
    """Its seats are the share that the detection rate already leaves out: it may have all that is assumed."""
    for x in orders(gain=1.0):
        assert all(does_not_pay(replace(x, share=share), COLLUDING) for share in (0.0, 0.1, 0.2, 1 / 3))


def test_attack_04_what_remains_are_fees_for_checks_that_nobody_made() -> None:
    """Right results, paid by the client for each of its drawn tasks as often as its verifiers are the owner's."""
    x = replace(ORDINARY, gas_price=0.0)
    shown = estimate(x, MANY_SEATS, tasks=50_000, seed=3)
    unearned = x.rate * x.verifiers * x.share * x.amounts.v
    assert shown.payoff.low < baseline(x, MANY_SEATS) + unearned < shown.payoff.high
    assert shown.rates["wrong"] == 0


def test_attack_07_what_remains_is_an_option_whose_price_is_the_penalty() -> None:
    """Walking away is worth something, less with every token of h: with h as large as W it would be almost nothing."""
    shown = estimate(ORDINARY, FREE_OPTION, tasks=20_000)
    assert shown.payoff.low > baseline(ORDINARY, FREE_OPTION)
    assert shown.rates["failed"] > 0.1 and shown.payoffs["client"].low > 0
    dear = replace(ORDINARY, parameters=replace(ORDINARY.parameters, eta=WAD, g_miss=WAD))
    assert 0 < advantage(dear, FREE_OPTION) < advantage(ORDINARY, FREE_OPTION) / 10


def test_attack_10_many_liars_need_more_than_they_exhaust() -> None:
    """Lies at once, so many that verifiers run out of bonds: liars lock hundreds of tokens for each that they lack."""
    for gain in GAINS[1:]:
        for x in orders(gain):
            ratio = capital_ratio(x)
            assert ratio is not None and ratio > 40


def test_attack_10_flooding_pays_only_once_most_verifiers_are_exhausted() -> None:
    x = replace(ORDINARY, gain=1.0, value_at_risk=1.0)
    awake = break_even(x, COLLUDING, "diligence", 0.0, 1.0)
    assert awake is not None and 0.1 < awake < 0.2
    assert does_not_pay(replace(x, diligence=1.2 * awake), COLLUDING)
    assert estimate(replace(x, diligence=0.5 * awake), COLLUDING).payoff.low > baseline(x, COLLUDING)


def test_attack_10_many_hopeless_challenges_pay_their_victim() -> None:
    """Each brings the executor its share of a bond: with the work of one more execution it is no worse off, unless the
    price is a few gas: then the longest game costs more than G_DEF."""
    for griefs in (1, 5, 50):
        agent = replace(GRIEFING, griefs=griefs)
        payoffs = estimate(ORDINARY, agent, tasks=2_000).payoffs
        assert payoffs["challengers"].high == pytest.approx(griefs * expected(ORDINARY, GRIEFING))
        assert payoffs["executor"].low > Expectation(ORDINARY, 0.0).honest()
    tiny = replace(ORDINARY, price=1e-6, cost=6e-7, gas_price=1e-8)
    payoffs = estimate(tiny, GRIEFING, tasks=2_000).payoffs
    loss = Expectation(tiny, 0.0).honest() - payoffs["executor"].value
    assert 0 < loss < GAS_DEFEND * tiny.gas_price - tiny.amounts.W + tiny.cost + 1e-9
    assert -payoffs["challengers"].value > 2 * loss, "and the challenger loses more than twice as much"


def test_attack_13_executing_pays_a_verifier_though_nobody_lies() -> None:
    for x in orders(gain=0.0):
        honest = Expectation(x, 0.0).verifying()
        assert honest > 0 > expected(x, COPYING)
        assert does_not_pay(x, COPYING)


def test_attack_01_an_opening_is_not_sold_to_a_stranger() -> None:
    """The buyer would pay what executing costs, and expose it: its seller loses W, which is more than that twice."""
    for rate in RATES:
        for n in (1, 2):
            assert does_not_pay(replace(ORDINARY, rate=rate, verifiers=n, cost=0.95), SELLING)


def test_attack_13_what_remains_is_an_opening_sold_to_several_at_once() -> None:
    """An exposure takes W once. Three that pay before one of them exposes bring more, and nobody has checked."""
    x = replace(ORDINARY, verifiers=4, cost=0.95)
    assert estimate(x, SELLING, tasks=10_000).payoff.low > baseline(x, SELLING)


def test_attack_13_lying_does_not_pay_while_one_verifier_in_five_is_awake() -> None:
    for gain in GAINS:
        for x in orders(gain):
            assert expected(replace(x, diligence=0.2), LAZY) < 0
    assert does_not_pay(replace(ORDINARY, diligence=0.2), COLLUDING)


def test_attack_13_what_remains_is_that_watching_without_a_seat_pays_only_where_many_lie() -> None:
    assert 0.05 < break_even_fraud(ORDINARY) < 0.07
    assert break_even_fraud(replace(ORDINARY, value_at_risk=100.0)) < 0.001
    liars = estimate(replace(ORDINARY, diligence=0.0, watch=1.0), LAZY, tasks=2_000).payoffs["challengers"]
    assert liars.value == pytest.approx(ORDINARY.cost / break_even_fraud(ORDINARY) - ORDINARY.cost)


def test_attack_32_what_remains_is_that_a_friend_is_paid_for_what_a_watcher_found() -> None:
    """The finder has its bond back and is out of its execution and its gas. The liar loses K − W and what is burned of
    s: less than without a friend, and more than it gains."""
    x = replace(ORDINARY, diligence=0.0, watch=1.0)
    alone, befriended = LAZY, replace(LAZY, convicts=SelfConviction.CORNERED)
    payoffs = estimate(x, befriended, tasks=1_000).payoffs
    assert payoffs["challengers"].value == pytest.approx(-x.cost - GAS_CHALLENGE * x.gas_price)
    m, e = x.amounts, Expectation(x, 0.0)
    paid = m.K - m.W + BURNED * m.s + x.shortcut * x.cost + e.spent + e.challenge
    assert payoffs["executor"].value == pytest.approx(-paid)
    assert -paid > estimate(x, alone, tasks=1_000).payoffs["executor"].value
    assert does_not_pay(x, befriended) and does_not_pay(ORDINARY, replace(befriended, owns=True))
    assert break_even_fraud(x, 1.0) == float("inf")
    won = x.cost / break_even_fraud(x) + GAS_CHALLENGE * x.gas_price
    assert break_even_fraud(x, 0.5) == pytest.approx(x.cost / (won / 2 - GAS_CHALLENGE * x.gas_price))


def test_attack_27_what_remains_are_bribes_that_can_be_enforced_where_checks_are_frequent() -> None:
    """The stake shrinks as the check rate grows, and with it what a drawn verifier gets for not taking a bribe."""
    often = replace(ORDINARY, rate=1.0, gain=10.0, value_at_risk=10.0)
    assert estimate(often, BRIBING, tasks=2_000).payoff.low > baseline(often, BRIBING)
    assert does_not_pay(replace(often, watch=0.5), BRIBING)
    assert advantage(replace(often, value_at_risk=40.0), BRIBING) < 0


@pytest.mark.parametrize("buys", [False, True])
@pytest.mark.parametrize("convicts", SelfConviction)
@pytest.mark.parametrize("bribes", [False, True])
def test_mixtures_of_attacks_do_not_pay(buys: bool, convicts: SelfConviction, bribes: bool) -> None:
    mixture = replace(COLLUDING, name="mixture", buys=buys, convicts=convicts, bribes=bribes, walks=True)
    for x in orders(gain=1.0):
        assert does_not_pay(replace(x, outside=0.0001), mixture)


def test_the_worst_way_to_lie_is_named() -> None:
    agent, value = worst_cheat(ORDINARY)
    assert agent is BRIBING and value == expected(ORDINARY, BRIBING) < 0
