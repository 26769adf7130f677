"""The predecessors' payoff matrix: rows, expectations, and what follows from them."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigentensor_economics.payoffs import Payoffs, check_rate

F = Fraction
BASE = Payoffs(F(1), F(6, 10), F(10), F(1, 100), F(1, 10), F(1, 100), F(95, 100))
rates = st.integers(0, 1_000).map(lambda part: F(part, 1_000))
amounts = st.integers(0, 100_000).map(lambda part: F(part, 999))
payoffs = st.builds(Payoffs, amounts, amounts, amounts, rates, rates, rates, rates)
worthwhile = payoffs.map(lambda p: replace(p, payment=p.cost + p.payment + F(1, 999)))


@given(payoffs)
def test_the_expectations_are_the_sums_of_their_rows(p: Payoffs) -> None:
    for strategy, expected in (("honest", p.honest), ("dishonest", p.dishonest)):
        rows = [row for row in p.rows() if row.strategy == strategy]
        assert sum(row.probability for row in rows) == 1
        assert sum(row.probability * row.payoff for row in rows) == expected


@given(payoffs)
def test_at_the_least_stake_honesty_is_as_good_and_below_it_is_not(p: Payoffs) -> None:
    least = p.minimum_stake
    if least is None:
        assert p.check == 0 or p.caught <= p.collusion
        return
    at = replace(p, stake=least)
    assert at.honest == at.dishonest if least else at.honest >= at.dishonest
    if least:
        below = replace(p, stake=least / 2)
        assert below.honest < below.dishonest


@given(payoffs)
def test_up_to_the_largest_stake_an_honest_node_takes_part(p: Payoffs) -> None:
    most = p.maximum_stake
    if most is None:
        assert p.honest == p.payment - p.cost
    else:
        assert replace(p, stake=most).honest == 0 > replace(p, stake=most + 1).honest


@given(worthwhile)
def test_at_the_break_even_rates_honesty_is_as_good(p: Payoffs) -> None:
    if (alpha := p.break_even_check) is not None:
        at = replace(p, check=alpha)
        assert at.honest == at.dishonest
    if (gamma := p.break_even_caught) is not None:
        at = replace(p, caught=gamma)
        assert at.honest == at.dishonest
    if (beta := p.break_even_collusion) is not None:
        at = replace(p, collusion=beta)
        assert at.honest == at.dishonest


@pytest.mark.parametrize(
    ("alpha", "beta", "gamma", "least", "most"),
    [(F(1, 10), F(1, 100), F(95, 100), 5.32, 399.6), (F(5, 100), F(5, 100), F(9, 10), 12.95, 159.6),
     (F(1, 100), F(1, 10), F(9, 10), 73.2, 399.6)],
)  # fmt: skip
def test_the_bounds_of_known_cases(alpha: Fraction, beta: Fraction, gamma: Fraction, least: float, most: float) -> None:
    p = replace(BASE, check=alpha, collusion=beta, caught=gamma)
    assert p.minimum_stake is not None and p.maximum_stake is not None
    assert float(p.minimum_stake) == pytest.approx(least, rel=2e-3)
    assert float(p.maximum_stake) == pytest.approx(most, rel=1e-3)


def test_no_stake_helps_where_the_honest_are_slashed_as_often() -> None:
    p = replace(BASE, collusion=F(1, 2), caught=F(4, 10))
    assert p.minimum_stake is None and p.break_even_check is None


def test_a_proof_of_sampling_is_the_case_of_a_referee() -> None:
    refereed = replace(BASE, collusion=F(0), caught=F(2, 3), shortcut=F(0))
    assert refereed.break_even_check == check_rate(F(6, 10), F(1), F(10), F(1, 3), F(1))
    assert check_rate(F(6, 10), F(1), F(10), F(1, 3), F(1, 2)) > check_rate(F(6, 10), F(1), F(10), F(1, 3), F(1))
