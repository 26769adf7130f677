"""The terms of a task, as bytecode on a chain, against `eigentensor.economics`: every formula."""

from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigentensor import economics
from eigentensor.economics import WAD, Parameters
from support.formulas import Evaluate, evaluating


@dataclass(frozen=True)
class Case:
    """What `TermsBatch.Case` has, in its order."""

    min_price: int
    max_price: int
    ramp_start: int
    ramp_length: int
    block: int
    check_fee: int
    rate: int
    verifiers: int
    value_at_risk: int
    exec: int
    mix: bytes
    task: bytes
    index: int
    seats: int


@pytest.fixture(scope="module")
def evaluate() -> Iterator[Evaluate]:
    with evaluating("TermsBatch") as evaluate:
        yield evaluate


def amounts(p: Parameters, c: Case) -> list[int]:
    price = economics.price(c.min_price, c.max_price, c.ramp_start, c.ramp_length, c.block)
    return [
        price,
        economics.escrow(c.max_price, c.verifiers, c.check_fee),
        economics.check_fee_bound(p, c.max_price),
        economics.detection(c.rate, c.verifiers, p.sybils),
        economics.stake(p, price, c.value_at_risk, c.rate, c.verifiers),
        economics.reward(p, price),
        economics.collateral(p, price, c.verifiers, c.check_fee),
        economics.penalty(p, price),
        economics.bond(p, price),
        economics.bond_share(p, price),
        economics.seat_deposit(p),
        economics.seed_block(c.block, p.lag, p.grid),
        economics.check_window(p, c.exec),
        economics.reveal_window(p, c.exec),
        economics.challenge_window(p, c.exec),
        economics.clock(p, c.exec),
        economics.lifetime(p, c.exec),
        int(economics.is_drawn(c.mix, c.task, c.rate)),
        economics.seat_of(c.mix, c.task, c.index, c.seats),
    ]


blocks, rates, amount = st.integers(0, 2**31), st.integers(0, WAD), st.integers(0, 2**96 - 1)
words = st.binary(min_size=32, max_size=32)
ranges: dict[str, st.SearchStrategy[Any]] = {f.name: blocks for f in fields(Parameters)} | {
    "max_exec": st.integers(0, 2**24 - 1), "grid": st.integers(1, 2**20), "eta": rates, "phi": rates,
    "check_floor": rates, "sybils": st.integers(0, WAD * 9 // 10), "stake_margin": st.integers(WAD, 2**64 - 1),
    "g_def": amount, "g_miss": amount, "min_stake": amount, "g_chk": amount, "g_chunk": amount,
}  # fmt: skip
parameters = st.builds(Parameters, **ranges)
cases = st.tuples(amount, amount).flatmap(
    lambda prices: st.builds(
        Case,
        min_price=st.just(min(prices)),
        max_price=st.just(max(prices)),
        ramp_start=blocks,
        ramp_length=blocks,
        block=blocks,
        check_fee=amount,
        rate=st.integers(WAD // 1000, WAD),
        verifiers=st.integers(1, 4),
        value_at_risk=amount,
        exec=st.integers(0, 2**24 - 1),
        mix=words,
        task=words,
        index=st.integers(0, 63),
        seats=st.integers(1, 2**32),
    )
)


@given(parameters, cases)
def test_every_formula_gives_what_the_contracts_give(evaluate: Evaluate, p: Parameters, case: Case) -> None:
    assert evaluate(astuple(p), astuple(case)) == amounts(p, case)
