"""The shares of a batch, as bytecode on a chain, against `eigentensor.economics.shares`; and its draw."""

from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from hashlib import sha256
from itertools import product
from math import sqrt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigentensor.economics import WAD, Parameters, shares
from support.formulas import Evaluate, evaluating


@dataclass(frozen=True)
class Offer:
    """What `Offer` has in Deals.sol, in its order."""

    operator: str
    signer: str
    nonce: int
    max_price: int
    check_price: int
    most: int
    risk_each: int
    risk_all: int
    check_rate: int
    verifiers: int
    exec: int
    epoch: int
    tail: int
    programs: bytes


@dataclass(frozen=True)
class Case:
    """What `SharesBatch.Case` has, in its order."""

    leaves: int
    rate: int
    verifiers: int
    mix: bytes
    batch: bytes
    share: int
    row: int
    draw: int
    check_price: int


@pytest.fixture(scope="module")
def evaluate() -> Iterator[Evaluate]:
    with evaluating("SharesBatch") as evaluate:
        yield evaluate


def amounts(p: Parameters, o: Offer, c: Case) -> list[int]:
    count, k = shares.shares(c.leaves, c.verifiers), shares.checked(c.leaves, c.rate, c.verifiers)
    return [
        shares.capacity(c.rate, c.verifiers),
        count,
        k,
        shares.draw_of(c.mix, c.batch, count, c.share, c.row),
        shares.calls_of(c.mix, c.batch, c.leaves, c.rate, c.verifiers, c.share),
        shares.call_of(c.mix, c.batch, c.leaves, k, c.draw),
        shares.fee(p, c.check_price, k, count),
        shares.least_amount(p, c.check_price, k),
        shares.collateral(p, o.max_price, c.verifiers),
        shares.stake(p, o),
        shares.window(p, o.exec),
        shares.lifetime(p, o.exec, o.epoch),
    ]


blocks, rates, amount = st.integers(0, 2**31), st.integers(0, WAD), st.integers(0, 2**96 - 1)
counts = st.one_of(st.integers(1, 300), st.integers(1, 2**20))
words = st.binary(min_size=32, max_size=32)
ranges: dict[str, st.SearchStrategy[Any]] = {f.name: blocks for f in fields(Parameters)} | {
    "max_exec": st.integers(0, 2**24 - 1), "grid": st.integers(1, 2**20), "eta": rates, "phi": rates,
    "check_floor": rates, "sybils": st.integers(0, WAD * 9 // 10), "stake_margin": st.integers(WAD, 2**64 - 1),
    "g_def": amount, "g_miss": amount, "min_stake": amount, "g_chk": amount, "g_chunk": amount,
}  # fmt: skip
parameters = st.builds(Parameters, **ranges)
offers = st.builds(
    Offer, operator=st.just("0x" + "01" * 20), signer=st.just("0x" + "02" * 20), nonce=st.just(0), max_price=amount,
    check_price=amount, most=amount, risk_each=amount, risk_all=amount, check_rate=st.integers(WAD // 1000, WAD),
    verifiers=st.integers(1, 4), exec=st.integers(0, 2**24 - 1), epoch=blocks, tail=st.just(8), programs=words,
)  # fmt: skip


@st.composite
def cases(draw: st.DrawFn) -> Case:
    leaves, rate = draw(counts), draw(st.integers(WAD // 1000, WAD))
    verifiers = draw(st.integers(1, 4))
    share = draw(st.integers(0, min(leaves, verifiers) - 1))
    taken = draw(st.integers(0, shares.checked(leaves, rate, verifiers) - 1))
    row = draw(st.integers(0, 2**16))
    return Case(leaves, rate, verifiers, draw(words), draw(words), share, row, taken, draw(amount))


@given(parameters, offers, cases())
def test_every_formula_gives_what_the_contracts_give(evaluate: Evaluate, p: Parameters, o: Offer, case: Case) -> None:
    assert evaluate(astuple(p), astuple(o), astuple(case)) == amounts(p, o, case)


def seed(*of: object) -> bytes:
    return sha256(repr(of).encode()).digest()


def drawn(mix: bytes, leaves: int, rate: int, verifiers: int) -> list[list[int]]:
    """The calls of each share of a batch."""
    count = shares.shares(leaves, verifiers)
    return [list(shares.numbers(mix, b"b" * 32, leaves, rate, verifiers, share)) for share in range(count)]


RATES = (WAD * 3 // 10, WAD * 9 // 10, WAD)


@pytest.mark.parametrize(("rate", "verifiers"), [*product(RATES, (1, 2, 3, 4))])
def test_as_many_calls_are_drawn_as_are_checked_and_none_twice(rate: int, verifiers: int) -> None:
    for leaves in range(1, 201):
        divided = drawn(seed(rate, verifiers, leaves), leaves, rate, verifiers)
        every = [number for share in divided for number in share]
        k = shares.checked(leaves, rate, verifiers)
        assert len(every) == len(set(every)) == k and all(0 <= number < leaves for number in every)
        assert {len(share) for share in divided} <= {k // len(divided), -(-k // len(divided))}
        if rate == WAD:
            assert sorted(every) == list(range(leaves))


@pytest.mark.parametrize(("rate", "verifiers"), [*product(RATES[:2], (1, 2, 3, 4))])
def test_a_call_is_drawn_with_the_same_probability_wherever_it_stands(rate: int, verifiers: int) -> None:
    tries, outside, all_calls = 300, 0, 0
    for leaves in (1, 2, 3, 5, 8, 13, 21, 34, 64, 101, 200):
        times = [0] * leaves
        for attempt in range(tries):
            for share in drawn(seed(rate, verifiers, leaves, attempt), leaves, rate, verifiers):
                for number in share:
                    times[number] += 1
        probability = shares.checked(leaves, rate, verifiers) / leaves
        sigma = sqrt(tries * probability * (1 - probability))
        outside += sum(abs(n - tries * probability) > 3 * sigma for n in times)
        all_calls += leaves
        assert all(abs(n - tries * probability) <= 4.5 * sigma for n in times)
    assert outside <= all_calls / 100  # 0.27 % are expected beyond three standard deviations


def test_no_verifier_knows_before_the_seed_which_part_of_a_batch_is_its_share() -> None:
    tries, leaves = 400, 40
    first = [drawn(seed("turn", attempt), leaves, WAD, 2)[0] for attempt in range(tries)]
    for number in range(leaves):
        assert abs(sum(number in share for share in first) - tries / 2) <= 4 * sqrt(tries / 4)
