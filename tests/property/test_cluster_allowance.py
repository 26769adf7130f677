"""What members take of slots in a minute, by a clock of the test's own: never more than they may, and no less."""

import random
from heapq import heappop, heappush

from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor_cluster.allowance import Allowances

RUNS = st.lists(st.floats(0.1, 2.0), min_size=1, max_size=8)


def taken(per_minute: float, runs: list[float], slots: int, until: float, guess: float) -> list[tuple[float, float]]:
    """When each run of a member began that always has some, one after the other from these, and what it took. What is
    expected of one is what the one before took, `guess` of the first."""
    allowances, now, running, began = Allowances(), 0.0, list[tuple[float, float, float]](), list[tuple[float, float]]()
    allowances.join("a", per_minute, now)
    expected = guess
    while now < until:
        wait = allowances.wait("a", now)
        if not wait and len(running) < slots:
            seconds = runs[len(began) % len(runs)]
            allowances.begin("a", expected, now)
            heappush(running, (now + seconds, seconds, expected))
            began.append((now, seconds))
            continue
        later = [now + wait] if wait and len(running) < slots else []
        if running and (not later or running[0][0] <= later[0]):
            now, seconds, was = heappop(running)
            allowances.end("a", was, seconds, now)
            expected = seconds
        else:
            now = later[0]
    return began


@settings(max_examples=60, deadline=None)
@given(st.floats(0.5, 120.0), RUNS, st.integers(1, 6), st.floats(0.0, 3.0))
def test_a_member_takes_what_it_may_and_no_less(per_minute: float, runs: list[float], slots: int, guess: float) -> None:
    until = 120.0
    began = taken(per_minute, runs, slots, until, guess)
    longest, total = max(runs), 0.0
    for at, seconds in began:
        # it had something left when it began, unless what is under way takes longer than was expected
        assert total <= per_minute * (1 + at / 60) + slots * (longest + 1e-3)
        total += seconds
    # a slot that is always there, or the allowance: whichever is less
    least = min(per_minute * until / 60, until * slots) - slots * (longest + guess + 1e-3)
    assert total >= least


@settings(max_examples=50, deadline=None)
@given(st.floats(0.5, 60.0), st.integers(0, 2**32))
def test_who_goes_and_comes_again_has_no_more(per_minute: float, seed: int) -> None:
    chance, now, total = random.Random(seed), 0.0, 0.0
    allowances = Allowances()
    for _ in range(200):
        allowances.join("a", per_minute, now)
        if not allowances.wait("a", now):
            seconds = chance.uniform(0.0, 3.0)
            allowances.begin("a", seconds, now)
            allowances.end("a", seconds, seconds, now)
            total += seconds
        now += chance.uniform(0.0, 2.0)
    assert total <= per_minute * (1 + now / 60) + 3.0


def test_those_without_an_allowance_never_wait() -> None:
    allowances = Allowances()
    allowances.join("a", None, 0.0)
    allowances.begin("a", 1e9, 0.0)
    assert allowances.wait("a", 0.0) == 0 and allowances.left("a", 0.0) is None
    allowances.join("a", 6.0, 1.0)
    assert allowances.left("a", 1.0) == 6.0
    allowances.begin("a", 9.0, 1.0)
    assert allowances.left("a", 1.0) == -3.0 and abs(allowances.wait("a", 1.0) - 30.0) < 0.001
    allowances.join("a", None, 1.0)
    assert allowances.wait("a", 1.0) == 0
