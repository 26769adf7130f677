"""Whose turn it is: shares of worker-seconds come out by weight, whatever sessions ask for."""

import random
from dataclasses import dataclass, field
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor_cluster.queue import QUANTUM, Turns


@dataclass
class Simulated:
    """Slots that execute what sessions have, by a clock of their own. Work of a session takes what its list says."""

    slots: int
    work: dict[int, list[float]]
    weights: dict[int, float] = field(default_factory=dict)
    spent: dict[int, float] = field(default_factory=dict)

    def run(self, seconds: float) -> dict[int, float]:
        """Seconds of slots that each session had by then."""
        turns, now, running = Turns(), 0.0, list[tuple[float, int, float]]()
        last = dict.fromkeys(self.work, QUANTUM)
        for session in self.work:
            turns.join(session, self.weights.get(session, 1.0))
            self.spent[session] = 0.0
        while now < seconds:
            while len(running) < self.slots and (chosen := turns.next({s for s, left in self.work.items() if left})):
                took = self.work[chosen].pop()
                turns.begin(chosen, last[chosen])
                running.append((now + took, chosen, took))
            running.sort()
            if not running:
                break
            now, session, took = running.pop(0)
            turns.end(session, last[session], took)
            last[session], self.spent[session] = took, self.spent[session] + took
        return self.spent


def test_five_clients_one_of_which_is_greedy_have_a_fifth_each() -> None:
    chance = random.Random(0)
    work = {s: [chance.uniform(0.001, 0.02) for _ in range(40_000)] for s in range(2, 6)}
    work[1] = [chance.uniform(0.1, 0.5) for _ in range(40_000)]  # as many, each thirty times as long
    for slots in (1, 2, 8):
        spent = Simulated(slots, {s: list(w) for s, w in work.items()}).run(60.0)
        total = sum(spent.values())
        assert all(abs(seconds / total - 0.2) <= 0.05 for seconds in spent.values()), (slots, spent)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.floats(0.5, 4.0), st.floats(0.002, 0.08)), min_size=2, max_size=5),
)
def test_shares_are_those_of_the_weights_whatever_a_run_takes(slots: int, clients: list[tuple[float, float]]) -> None:
    work = {number + 1: [each] * ceil(100 / each) for number, (_, each) in enumerate(clients)}  # more than all slots do
    weights = {number + 1: weight for number, (weight, _) in enumerate(clients)}
    spent = Simulated(slots, work, weights).run(20.0)
    total, heavy = sum(spent.values()), sum(weights.values())
    assert all(abs(spent[s] / total - weights[s] / heavy) <= 0.05 for s in spent)


def test_an_idle_session_saves_nothing_up_and_keeps_no_one_waiting() -> None:
    turns = Turns()
    for session in (1, 2):
        turns.join(session)
    assert turns.next(set()) is None
    for _ in range(100):  # 2 is idle all the while
        assert turns.next({1}) == 1
        turns.begin(1, 1.0)
        turns.end(1, 1.0, 1.0)
        turns.rest(2)
    assert turns.balance(2) == 0.0 and turns.balance(1) > -1.1
    first = [turns.next({1, 2}), turns.next({1, 2})]
    assert first == [2, 2]
    turns.begin(2, 1.0)
    turns.leave(2)
    turns.end(2, 1.0, 1.0)  # what comes too late changes nothing
    assert turns.next({1}) == 1


def test_credit_is_lost_at_rest_and_debt_is_not() -> None:
    turns = Turns()
    turns.join(1)
    turns.next({1})
    assert turns.balance(1) > 0
    turns.rest(1)
    assert turns.balance(1) == 0
    turns.begin(1, 5.0)
    turns.rest(1)
    assert turns.balance(1) == pytest.approx(-5.0)
