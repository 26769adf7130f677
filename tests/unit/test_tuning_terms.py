"""Terms for a wanted security: they give it, hardly more, and windows that fit."""

from dataclasses import replace

import pytest

from eigentensor import economics
from eigentensor.economics.agents import COLLUDING, LAZY
from eigentensor.economics.expected import break_even, expected, worst_cheat
from eigentensor.economics.situation import LOCAL, mainnet
from eigentensor.economics.tuning import Lock, TunedTerms, longest_censorship, needed_stake, tune, windows
from support.stories.situations import ORDINARY

X = replace(ORDINARY, parameters=mainnet(10**9), gain=10.0, value_at_risk=10.0)
LOCK = Lock()


def choices(security: float, most_stake: float = float("inf")) -> list[TunedTerms]:
    return tune(X, security, exec_=300, lock=LOCK, rates=(0.1, 0.3, 1.0), most_stake=most_stake)


@pytest.mark.parametrize("security", [0.5, 5.0, 50.0])
def test_the_best_lie_loses_what_was_wanted_under_every_choice(security: float) -> None:
    terms = choices(security)
    assert len(terms) > 3
    for each in terms:
        agent, value = worst_cheat(each.situation)
        assert (agent.name, -value) == (each.cheat, each.loses)
        assert each.loses >= security * (1 - 1e-5)
        assert each.situation.value_at_risk >= X.gain
        if each.situation.value_at_risk > X.gain * 1.0001:
            assert each.loses == pytest.approx(security, rel=1e-3), "no more stake than needed"


def test_naming_more_at_risk_or_a_market_with_the_larger_margin_locks_the_same() -> None:
    for each in choices(50.0):
        x = each.situation
        if each.margin is None or x.value_at_risk <= X.gain:
            continue
        market = replace(x.parameters, stake_margin=round(each.margin * economics.WAD))
        other = replace(x, parameters=market, value_at_risk=X.gain)
        assert other.amounts.s == pytest.approx(x.amounts.s, rel=1e-6)


def test_the_cheapest_terms_come_first_and_none_locks_more_than_there_is() -> None:
    terms = choices(1.0)
    assert [each.overhead for each in terms] == sorted(each.overhead for each in terms)
    some = choices(1.0, most_stake=50.0)
    assert some and len(some) < len(terms)
    stakes = [needed_stake(each.situation, 1.0) for each in some]
    assert all(stake is not None and stake <= 50.0 for stake in stakes)
    assert not choices(1.0, most_stake=0.1)


def test_no_stake_stops_a_coalition_that_nobody_sees() -> None:
    assert needed_stake(replace(X, share=1.0), 1.0) is None
    assert needed_stake(replace(X, diligence=0.0), 1.0) is None
    assert not tune(replace(X, share=1.0), 1.0, exec_=300, lock=LOCK, rates=(0.5, 1.0))


def test_more_stake_never_makes_a_lie_better() -> None:
    for x in (X, replace(X, rate=1.0, verifiers=4), replace(X, watch=0.5)):
        values = [worst_cheat(replace(x, stake=float(stake)))[1] for stake in range(0, 400, 10)]
        assert values == sorted(values, reverse=True)


def test_at_the_break_even_lying_is_worth_what_honesty_is() -> None:
    gain = break_even(ORDINARY, LAZY, "gain", 0.0, 1_000.0)
    assert gain is not None
    assert expected(replace(ORDINARY, gain=gain), LAZY) == pytest.approx(0.4, abs=1e-3)
    assert break_even(ORDINARY, COLLUDING, "gain", 0.0, 1.0) is None


def test_a_lock_costs_its_interest_for_as_long_as_it_lasts() -> None:
    blocks = economics.lifetime(X.parameters, 300)
    locked = X.amounts.s + X.amounts.K
    assert Lock(interest=0.1, block_seconds=12).cost(X, 300) == pytest.approx(locked * 0.1 * blocks * 12 / 31_557_600)


def test_windows_bear_a_censorship_and_fit_or_say_what_does() -> None:
    w = windows(mainnet(1), exec_=300, censored=1_800, delay=100_800)
    p = w.parameters
    assert w.fits and w.lifetime == economics.lifetime(p, 300)
    assert min(p.record, p.check, p.reveal, p.challenge, p.clock, p.margin) >= 1_800
    assert p.challenge + 1 >= p.reveal
    assert not windows(LOCAL, exec_=60, censored=200, delay=1_000).fits
    most = longest_censorship(LOCAL, exec_=60, delay=1_000)
    assert most is not None
    assert windows(LOCAL, 60, most, 1_000).fits and not windows(LOCAL, 60, most + 1, 1_000).fits
    assert longest_censorship(LOCAL, exec_=60, delay=50) is None
