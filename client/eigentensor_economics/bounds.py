"""How far the incentives reach: where a deviation begins to pay, in closed form or by bisection of one."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from eigentensor.economics.terms import GAS_CHALLENGE
from eigentensor_economics.agents import CHEATS, COLLUDING, Agent
from eigentensor_economics.expected import Expectation, baseline, expected
from eigentensor_economics.situation import Situation

Quantity = Literal["share", "gain", "diligence", "rate", "watch"]


def advantage(x: Situation, agent: Agent) -> float:
    """What a deviation brings more than honesty does; it pays if that is positive."""
    return expected(x, agent) - baseline(x, agent)


def worst_cheat(x: Situation) -> tuple[Agent, float]:
    """The way to a wrong result that costs least, and what its author expects of it."""
    agent = max(CHEATS, key=lambda cheat: expected(x, cheat))
    return agent, expected(x, agent)


def break_even(x: Situation, agent: Agent, of: Quantity, low: float, high: float) -> float | None:
    """The value of one quantity between `low` and `high` at which the deviation is worth as much as honesty; None if it
    pays at both ends, or at neither."""

    def at(value: float) -> float:
        changed: dict[str, Any] = {of: value}
        return advantage(replace(x, **changed), agent)

    return root(at, low, high)


def break_even_fraud(x: Situation, laundered: float = 0.0) -> float:
    """Which part of all results must be wrong before watching pays by itself: C / ((1 − q)(W + (1 − b)s) − gas). Above
    1: it never does. `laundered`, q: the part of the liars that a friend's challenge convicts before the watcher's."""
    e = Expectation(x, 0.0)
    won = (1 - laundered) * (e.m.W + e.half) - GAS_CHALLENGE * x.gas_price
    return x.cost / won if won > 0 else float("inf")


def capital_ratio(x: Situation) -> float | None:
    """What liars must put up for each token that verifiers need as bonds to keep lying unprofitable: who wants to
    exhaust verifiers locks s and K for each lie, of which only some are drawn. None if no break-even is there."""
    needed = break_even(x, COLLUDING, "diligence", 0.0, 1.0)
    if needed is None:
        return None
    m = x.amounts
    return (m.s + m.K) / (needed * x.rate * x.verifiers * m.B)


def root(of: Callable[[float], float], low: float, high: float) -> float | None:
    """Where a monotone function changes its sign."""
    rising = of(high) > 0
    if (of(low) > 0) == rising:
        return None
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if (of(middle) > 0) == rising else (middle, high)
    return high
