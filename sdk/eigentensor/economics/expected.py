"""What each agent expects of one task, in closed form: finite sums, no chance. Tokens, as floats.

α is the rate of the draw, n how many verifiers are wanted, r the share of seats that a cheat uses, w the probability
of a watcher. `a` is the probability that a stranger answers, `c = 1 − (1 − a)(1 − w)` that a lie is convicted.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from math import comb, exp
from typing import Any, Literal

from eigentensor.economics.agents import AGENTS, CHEATS, COLLUDING, Agent
from eigentensor.economics.situation import BURNED, CANDIDATES, Situation
from eigentensor.economics.terms import GAS_ACCEPT, GAS_ANSWER, GAS_CHALLENGE, GAS_COMMIT, GAS_DEFEND


class Expectation:
    """The quantities that the formulas share, for a coalition that uses `share` of the seats."""

    def __init__(self, x: Situation, share: float) -> None:
        self.x, self.m, self.share = x, x.amounts, share
        gas = x.gas_price
        self.answer, self.challenge, self.defend = GAS_ANSWER * gas, GAS_CHALLENGE * gas, GAS_DEFEND * gas
        self.spent = (GAS_ACCEPT + GAS_COMMIT) * gas
        self.awake = share + (1 - share) * x.diligence
        self.answers = _answers(x.verifiers, self.awake, share)
        self.a = x.rate * sum(p for _, strangers, p in self.answers if strangers)
        self.c = 1 - (1 - self.a) * (1 - x.watch)
        self.half = (1 - BURNED) * self.m.s

    def drawn(self, value: float = 1.0) -> float:
        """What a value comes to that is due only if the task is drawn; without one, how likely that is."""
        return self.x.rate * value

    def mean(self, *, own: bool) -> float:
        """How many of these answer a drawn task."""
        return sum((j if own else k) * p for j, k, p in self.answers)

    def unseen_fees(self) -> float:
        """Fees of the coalition's seats where no stranger answers."""
        return self.drawn(self.m.v * sum(j * p for j, k, p in self.answers if not k))

    # Executors

    def honest(self) -> float:
        """P − C"""
        return self.m.P - self.x.cost - self.spent

    def _lie(self, lost_to_seats: float, lost_to_watcher: float) -> float:
        """(1 − c)(P + gain) − what is lost: `lost_to_seats` includes the probability of it."""
        x, m = self.x, self.m
        fees = (1 - x.watch) * self.unseen_fees()
        won = (1 - self.c) * (m.P + x.gain) + fees - x.shortcut * x.cost - self.spent
        return won - self.drawn(self.mean(own=True)) * self.answer - lost_to_seats - (self.c - self.a) * lost_to_watcher

    def colluding(self) -> float:
        """(1 − c)(P + gain) − c(K + s)"""
        lost = self.m.K + self.m.s
        return self._lie(self.a * lost, lost)

    def laundering(self) -> float:
        """Convicts itself once it is caught: W comes back, and of s − b·s the part of its own answers, or all of it."""
        m = self.m
        lost = m.K + m.s - m.W + self.challenge
        back = (p * j * (m.v + self.half / (j + k)) for j, k, p in self.answers if k)
        return self._lie(self.a * lost - self.drawn(sum(back)), lost - self.half)

    def self_convicting(self) -> float:
        """Loses b·s and K − W at least: nothing becomes final."""
        x, m = self.x, self.m
        back = self.drawn(sum(p * j * (m.v + self.half / (j + k)) for j, k, p in self.answers if j + k))
        alone = self.half * (1 - self.drawn(sum(p for j, k, p in self.answers if j + k)))
        costs = x.shortcut * x.cost + self.spent + self.challenge + self.drawn(self.mean(own=True)) * self.answer
        return m.W + back + alone - m.K - m.s - costs

    def bribing(self) -> float:
        """Pays k strangers (1 − b)s + W each where that is less than what a conviction costs."""
        x, m = self.x, self.m
        price, worth = self.half + m.W, (1 - x.watch) * (m.P + x.gain + m.K + m.s)
        value = 0.0
        for j, k, p in self.answers:
            paid = k * price if k * price < worth else None
            caught = x.watch if not k or paid is not None else 1.0
            value += p * ((1 - caught) * (m.P + x.gain + j * m.v) - caught * (m.K + m.s))
            value -= p * ((paid or 0.0) + j * self.answer)
        alone = (1 - x.watch) * (m.P + x.gain) - x.watch * (m.K + m.s)
        return self.drawn(value) + (1 - x.rate) * alone - x.shortcut * x.cost - self.spent

    def bought_challenger(self) -> float:
        """A lost game of its own decides nothing: B − W more is burned if the lie stands, B if it does not."""
        m = self.m
        return self.colluding() - (1 - self.c) * (m.B - m.W) - self.c * m.B - self.challenge - self.defend

    def selective_reveal(self) -> float:
        """Drawn and not revealed is a conviction: K + s, of which its own answers get their parts."""
        m = self.m
        back = self.drawn(sum(p * j * (m.v + (self.half + m.W) / (j + k)) for j, k, p in self.answers if k))
        lost = m.K + m.s
        return self._lie(self.a * lost - back, lost)

    def many_seats(self) -> float:
        """P − C, and fees for checks that nobody made."""
        return self.honest() + self.drawn(self.mean(own=True)) * (self.m.v - self.answer)

    def withholding(self) -> float:
        """−C, −h where it is not drawn, −(K + s) where it is; W comes back if no verifier opened an answer."""
        x, m = self.x, self.m
        nobody = sum(p for j, k, p in self.answers if not j + k)
        return -x.cost - self.spent - (1 - x.rate) * m.h - self.drawn(m.K + m.s - m.W * nobody)

    def free_option(self) -> float:
        """P − C + E[(O − t)⁺] with t = P − C + h for an outside offer O that is exponentially distributed."""
        x, m = self.x, self.m
        commit = self.spent - GAS_ACCEPT * x.gas_price
        t = m.P - x.cost - commit + m.h
        return self.honest() + (x.outside * exp(-t / x.outside) if t >= 0 else x.outside - t)

    def selling(self) -> float:
        """Each drawn verifier pays C for the opening; the first of them exposes it, which costs W."""
        answered = self.drawn(sum(p for _, k, p in self.answers if k))
        return self.honest() + self.drawn(self.mean(own=False)) * self.x.cost - answered * self.m.W

    # Others

    def verifying(self) -> float:
        """v − C for each answer of an honest stranger, if the executor is honest."""
        return self.drawn(self.mean(own=False)) * (self.m.v - self.x.cost - self.answer)

    def copying(self) -> float:
        """−B: a guess differs, opens a game, and loses it."""
        return -self.drawn(self.mean(own=False)) * (self.m.B + self.answer)

    def griefing(self) -> float:
        """−B, and what watching costs."""
        return -self.m.B - self.challenge - self.x.watch * self.x.cost

    def served(self) -> float:
        """An honest client: what the result is worth, less P and α·n·v."""
        return self.x.benefit - self.m.P - self.drawn(self.mean(own=False)) * self.m.v

    def hostile_client(self) -> float:
        """Saves the fees with the check, and loses B."""
        return self.x.benefit - self.m.P - self.m.B - self.challenge


def expected(x: Situation, agent: Agent) -> float:
    """The payoff per task of a named agent's party. KeyError for a mixture, which has no closed form here."""
    return _brings(Expectation(x, x.share if agent.owns else 0.0), agent)


def _brings(e: Expectation, agent: Agent) -> float:
    if AGENTS.get(agent.name) != agent:
        raise KeyError(agent.name)
    formula = "colluding" if agent.name == "lazy" else agent.name.replace(" ", "_").replace("-", "_")
    value: float = getattr(e, formula)()
    return value


def baseline(x: Situation, agent: Agent) -> float:
    """What the agent's party expects if it is honest, too; a challenger that challenges nothing wrong has 0."""
    e = Expectation(x, 0.0)
    return {"executor": e.honest(), "verifiers": e.verifying(), "client": e.served(), "challengers": 0.0}[agent.party]


@lru_cache(maxsize=1024)
def _answers(verifiers: int, awake: float, share: float) -> tuple[tuple[int, int, float], ...]:
    """(own, strangers, probability) of the answers to a drawn task, of candidates of which so many are awake."""
    most = CANDIDATES * verifiers
    fewer = [_binomial(k, most, awake) for k in range(verifiers)]
    rho = share / awake if awake else 0.0
    return tuple(
        (own, count - own, p * _binomial(own, count, rho))
        for count, p in enumerate([*fewer, 1 - sum(fewer)])
        for own in range(count + 1)
    )


def _binomial(k: int, n: int, p: float) -> float:
    return float(comb(n, k) * p**k * (1 - p) ** (n - k))


Quantity = Literal["share", "gain", "diligence", "rate", "watch"]


def advantage(x: Situation, agent: Agent) -> float:
    """What a deviation brings more than honesty does; it pays if that is positive."""
    return expected(x, agent) - baseline(x, agent)


def worst_cheat(x: Situation) -> tuple[Agent, float]:
    """The way to a wrong result that costs least, and what its author expects of it."""
    seats = {False: Expectation(x, 0.0), True: Expectation(x, x.share)}
    return max(((agent, _brings(seats[agent.owns], agent)) for agent in CHEATS), key=lambda of: of[1])


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
    """Where a monotone function changes its sign, to nine digits or decimals."""
    rising = of(high) > 0
    if (of(low) > 0) == rising:
        return None
    while high - low > 1e-9 * max(1.0, abs(high)):
        middle = (low + high) / 2
        low, high = (low, middle) if (of(middle) > 0) == rising else (middle, high)
    return high
