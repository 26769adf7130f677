"""The terms of a task: prices on the ramp, what is held, what is lost, and for how long."""

from dataclasses import replace
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from eigentensor import economics
from eigentensor.economics import WAD, Parameters
from eigentensor.economics.situation import LOCAL, mainnet
from eigentensor.economics.terms import GAS_ANSWER


def test_parameters_read_solidity_names_and_decimal_text() -> None:
    values: dict[str, int | str] = {
        "maxExec": 60, "lag": 2, "grid": 1, "record": 50, "check": 10, "reveal": 20, "challenge": 20, "clock": 60,
        "margin": 50, "eta": str(WAD // 4), "gDef": "3000000000000000", "gMiss": 10**15, "unknown": 1,
        "checkFloor": WAD // 20, "phi": WAD, "sybils": WAD // 3, "stakeMargin": str(WAD * 5 // 4), "gChk": 10**15,
        "minStake": 10**16, "gChunk": 10**14, "otherSeats": 2, "confirmations": 2,
    }  # fmt: skip
    assert Parameters.from_json(values) == LOCAL


def test_a_ramp_of_no_length_is_a_step() -> None:
    assert [economics.price(1, 9, 100, 0, b) for b in (99, 100, 101)] == [1, 9, 9]


def test_a_ramp_rises_linearly_and_rounds_down() -> None:
    assert [economics.price(0, 10, 100, 4, b) for b in (99, 100, 101, 102, 103, 104, 500)] == [0, 0, 2, 5, 7, 10, 10]


prices_at_risk = st.tuples(st.integers(0, 2**96 - 1), st.integers(0, 2**96 - 1))


@given(st.integers(0, 2**96 - 1), st.integers(0, WAD))
def test_the_penalty_is_never_above_what_is_held(price: int, eta: int) -> None:
    p = replace(LOCAL, eta=eta)
    assert 0 <= economics.penalty(p, price) <= economics.reward(p, price) <= economics.collateral(p, price, 1, 0)


@given(prices_at_risk, st.integers(WAD // 20, WAD), st.integers(1, 4))
def test_cheating_loses_on_average_by_the_margin(amounts: tuple[int, int], rate: int, verifiers: int) -> None:
    price, risk = amounts
    stake = economics.stake(LOCAL, price, risk, rate, verifiers)
    a = Fraction(economics.detection(rate, verifiers, LOCAL.sybils), WAD)
    gain = (1 - a) * (price + risk)
    assert gain - a * stake / 2 <= -(Fraction(LOCAL.stake_margin, WAD) - 1) * gain


def test_the_stake_of_the_design_is_locked_for_a_price_of_one() -> None:
    locked = {rate: economics.stake(LOCAL, WAD, 0, WAD * rate // 100, 1) for rate in (5, 10, 20, 50, 100)}
    assert {rate: round(stake / WAD, 1) for rate, stake in locked.items()} == {
        5: 72.5, 10: 35.0, 20: 16.2, 50: 5.0, 100: 1.2,
    }  # fmt: skip
    assert economics.stake(LOCAL, 0, 0, WAD, 1) == LOCAL.min_stake


def test_more_verifiers_detect_more() -> None:
    rates = [economics.detection(WAD // 2, n, LOCAL.sybils) for n in range(5)]
    assert rates[0] == 0 and rates == sorted(set(rates)) and rates[-1] < WAD // 2


def test_a_bond_is_a_tenth_more_than_what_the_executor_gets_of_it() -> None:
    assert economics.bond_share(LOCAL, WAD) == economics.reward(LOCAL, WAD) == 2 * WAD + LOCAL.g_def
    assert economics.bond(LOCAL, WAD) * 10 == economics.bond_share(LOCAL, WAD) * 11
    assert economics.bond(replace(LOCAL, g_def=1), 0) == 2


@given(st.integers(0, 2**32), st.integers(1, 200), st.integers(1, 64))
def test_the_seed_block_is_the_first_of_the_grid_that_is_late_enough(committed: int, lag: int, grid: int) -> None:
    seed = economics.seed_block(committed, lag, grid)
    assert seed % grid == 0 and 0 <= seed - (committed + lag) < grid


def test_draws_follow_from_seed_and_task_alone() -> None:
    tasks = [bytes([i]) * 32 for i in range(200)]
    drawn = [economics.is_drawn(bytes(32), task, WAD // 2) for task in tasks]
    assert 60 < sum(drawn) < 140
    assert not any(economics.is_drawn(bytes(32), task, 0) for task in tasks)
    assert all(economics.is_drawn(bytes(32), task, WAD) for task in tasks)
    assert {economics.seat_of(bytes(32), tasks[0], i, 5) for i in range(64)} == set(range(5))


def test_the_local_windows_are_those_of_the_design() -> None:
    assert economics.check_window(LOCAL, 60) == 70
    assert economics.reveal_window(LOCAL, 60) == 90
    assert economics.challenge_window(LOCAL, 60) == 80
    assert economics.lifetime(LOCAL, 60) == 60 + 2 + 1 + 90 + 80 + 2 * 120 + 50
    assert economics.penalty(LOCAL, 4 * WAD) == WAD + WAD // 1000
    assert economics.collateral(LOCAL, WAD, 3, 7) == 2 * (2 * WAD + LOCAL.g_def) + 21
    assert economics.escrow(WAD, 3, 7) == WAD + 21
    assert economics.check_fee_bound(LOCAL, WAD) == WAD + LOCAL.g_chk


def test_a_market_on_the_main_network_fits_eigenlayers_delays_and_takes_its_amounts_from_gas() -> None:
    p = mainnet(10**9)
    assert economics.lifetime(p, p.max_exec) <= 100_800
    assert (p.g_def, p.g_chk, p.g_miss) == (6 * 10**14, 35 * 10**13, 2 * 10**14)
    assert p.g_chk >= GAS_ANSWER * 10**9, "what a check was measured to cost"
    assert p.challenge + 1 >= p.reveal and p.check_floor == WAD // 10
