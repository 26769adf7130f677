"""What many tasks show: means with intervals, and how often what happened."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from eigentensor_economics.agents import Agent
from eigentensor_economics.simulation.events import play
from eigentensor_economics.simulation.ledger import BURNED, PARTIES, Amounts
from eigentensor_economics.situation import Situation

#: Standard errors to each side: 99 % of a normal distribution.
Z99 = 2.5758293035489


@dataclass(frozen=True, slots=True)
class Mean:
    """Of a payoff per task, in tokens; the interval holds the expectation in 99 of 100 estimates."""

    value: float
    error: float  # standard error

    @property
    def low(self) -> float:
        """The lower end of the 99 % interval."""
        return self.value - Z99 * self.error

    @property
    def high(self) -> float:
        """The upper end of the 99 % interval."""
        return self.value + Z99 * self.error


@dataclass(frozen=True, slots=True)
class Estimate:
    """`payoffs` by party, and what was burned; `rates` of what happened, in parts of all tasks."""

    agent: Agent
    tasks: int
    seed: int
    payoffs: dict[str, Mean]
    rates: dict[str, float]

    @property
    def payoff(self) -> Mean:
        """Of the agent's own party."""
        return self.payoffs[self.agent.party]


def estimate(x: Situation, agent: Agent, *, tasks: int = 100_000, seed: int = 0) -> Estimate:
    """The same numbers for the same arguments, everywhere."""
    outcome = play(x, agent, tasks, np.random.default_rng(seed))
    payoffs = {party: mean_of(outcome.ledger.payoff(party)) for party in PARTIES}
    payoffs[BURNED] = mean_of(outcome.ledger.paid[BURNED])
    happened = ("drawn", "final", "failed", "convicted", "wrong")
    return Estimate(agent, tasks, seed, payoffs, {name: float(getattr(outcome, name).mean()) for name in happened})


def mean_of(values: Amounts) -> Mean:
    """The mean of an element a task, with its standard error; one task alone has an infinite one."""
    error = float(values.std(ddof=1)) / sqrt(len(values)) if len(values) > 1 else float("inf")
    return Mean(float(values.mean()), error)
