"""The terms of a task: prices on the ramp, what is held, what is lost, and for how long."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from eigentensor import economics
from eigentensor.economics import WAD, Parameters

LOCAL = Parameters(
    max_exec=60, lag=2, grid=1, record=50, check=10, reveal=10, challenge=10, clock=60, margin=50,
    eta=WAD // 4, g_def=3 * WAD // 1000, g_miss=WAD // 1000,
)  # fmt: skip


def test_parameters_read_solidity_names_and_decimal_text() -> None:
    values = {
        "maxExec": 60, "lag": 2, "grid": 1, "record": 50, "check": 10, "reveal": 10, "challenge": 10, "clock": 60,
        "margin": 50, "eta": str(WAD // 4), "gDef": "3000000000000000", "gMiss": 10**15, "unknown": 1,
    }  # fmt: skip
    assert Parameters.from_json(values) == LOCAL


def test_a_ramp_of_no_length_is_a_step() -> None:
    assert [economics.price(1, 9, 100, 0, b) for b in (99, 100, 101)] == [1, 9, 9]


def test_a_ramp_rises_linearly_and_rounds_down() -> None:
    assert [economics.price(0, 10, 100, 4, b) for b in (99, 100, 101, 102, 103, 104, 500)] == [0, 0, 2, 5, 7, 10, 10]


prices = st.tuples(st.integers(0, 2**96 - 1), st.integers(0, 2**96 - 1)).map(sorted)


@given(prices, st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 2**96))
def test_the_block_of_a_price_is_the_first_that_reaches_it(
    bounds: list[int], start: int, length: int, wanted: int
) -> None:
    low, high = bounds
    block = economics.block_of_price(low, high, start, length, wanted)
    if block is None:
        assert wanted > high
        return
    assert economics.price(low, high, start, length, block) >= wanted
    assert block == 0 or economics.price(low, high, start, length, block - 1) < wanted


@given(st.integers(0, 2**96 - 1), st.integers(0, WAD))
def test_the_penalty_is_never_above_what_is_held(price: int, eta: int) -> None:
    p = replace(LOCAL, eta=eta)
    assert 0 <= economics.penalty(p, price) <= economics.reward(p, price) <= economics.collateral(p, price)


def test_the_local_windows_are_those_of_the_design() -> None:
    assert economics.reveal_window(LOCAL, 60) == 80
    assert economics.challenge_window(LOCAL, 60) == 70
    assert economics.lifetime(LOCAL, 60) == 60 + 2 + 1 + 80 + 70 + 2 * 120 + 50
    assert economics.penalty(LOCAL, 4 * WAD) == WAD + WAD // 1000
