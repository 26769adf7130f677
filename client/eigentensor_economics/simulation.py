"""What happens to each party in many tasks: `play` lives them all at once, `estimate` says what that shows."""

from dataclasses import dataclass, field
from math import sqrt
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from eigentensor.economics.agents import Agent, Reveals, SelfConviction
from eigentensor.economics.situation import BURNED, CANDIDATES, Situation
from eigentensor.economics.terms import GAS_ACCEPT, GAS_ANSWER, GAS_CHALLENGE, GAS_COMMIT, GAS_DEFEND

Amounts: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

PARTIES = ("client", "executor", "verifiers", "challengers")


class Ledger:
    """`paid` is what the market and EigenLayer moved; `private` what a party spent on computing and gas, or got out of
    a result. Both in tokens, an element a task."""

    def __init__(self, tasks: int) -> None:
        self.paid: dict[str, Amounts] = {account: np.zeros(tasks) for account in (*PARTIES, "burned")}
        self.private: dict[str, Amounts] = {party: np.zeros(tasks) for party in PARTIES}

    def move(self, payer: str, receiver: str, amount: Amounts | float, where: Mask | Amounts) -> None:
        """`where` are the tasks in which it is paid, or how often."""
        moved = amount * where
        self.paid[payer] -= moved
        self.paid[receiver] += moved

    def spend(self, party: str, amount: Amounts | float, where: Mask | Amounts) -> None:
        """What a party loses beside the market, in tokens; `where` as in `move`."""
        self.private[party] -= amount * where

    def gain(self, party: str, amount: Amounts | float, where: Mask | Amounts) -> None:
        """What a party gets beside the market, in tokens; `where` as in `move`."""
        self.private[party] += amount * where

    def payoff(self, party: str) -> Amounts:
        """Tokens that a party ends up with, an element a task."""
        return self.paid[party] + self.private[party]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How tasks went, an element a task."""

    ledger: Ledger
    drawn: Mask
    final: Mask
    failed: Mask
    convicted: Mask
    wrong: Mask  # final with a wrong result


def play(x: Situation, agent: Agent, tasks: int, rng: np.random.Generator) -> Outcome:
    """`agent` against honest others, `tasks` times over, independently."""
    return _Play(x, agent, tasks, rng).run()


@dataclass(slots=True)
class _Play:
    x: Situation
    agent: Agent
    tasks: int
    rng: np.random.Generator
    ledger: Ledger = field(init=False)

    def run(self) -> Outcome:
        self.ledger = Ledger(self.tasks)
        committed = self._commit()
        drawn = committed & self._happens(self.x.rate)
        own, strangers = self._answer(drawn)
        agreeing, differing = self._opinions(strangers)
        revealed = self._reveal(committed, strangers)
        silent = drawn & ~revealed
        failed = ~drawn & ~revealed
        verdict = self._challenge(revealed, own, differing)
        final = revealed & ~verdict
        self._silence(silent, own, strangers)
        self.ledger.move("executor", "burned", self.x.amounts.h, failed)
        self._final(final, own, agreeing)
        wrong = final & (not self.agent.works)
        return Outcome(self.ledger, drawn, final, failed, silent | verdict, wrong)

    def _happens(self, probability: float) -> Mask:
        return self.rng.random(self.tasks) < probability

    def _gas(self, party: str, gas: int, where: Mask | Amounts) -> None:
        self.ledger.spend(party, gas * self.x.gas_price, where)

    def _commit(self) -> Mask:
        """Who walks away does so before it has worked, for whatever is better than the price and the penalty."""
        x, m = self.x, self.x.amounts
        self._gas("executor", GAS_ACCEPT, np.ones(self.tasks))
        outside = self.rng.exponential(x.outside, self.tasks)
        cost = x.cost if self.agent.works else x.shortcut * x.cost
        better = outside - m.h > m.P - cost - GAS_COMMIT * x.gas_price
        walked = better & self.agent.walks
        self.ledger.gain("executor", outside, walked)
        self.ledger.spend("executor", cost, ~walked)
        self._gas("executor", GAS_COMMIT, ~walked)
        return np.asarray(~walked)

    def _answer(self, drawn: Mask) -> tuple[Amounts, Amounts]:
        """How many seats of the coalition, and of strangers, are among the first that answer. Who is silent is
        replaced by the next of the drawn seats, as long as there are any."""
        x = self.x
        share = x.share if self.agent.owns else 0.0
        awake = share + (1 - share) * x.diligence
        answers = np.minimum(x.verifiers, self.rng.binomial(CANDIDATES * x.verifiers, awake, self.tasks)) * drawn
        own = self.rng.binomial(answers, share / awake if awake else 0.0)
        strangers = (answers - own) * (not self.agent.starves)
        self._gas("executor", GAS_ANSWER, own.astype(float))
        self._gas("verifiers", GAS_ANSWER, strangers.astype(float))
        if not (self.agent.guesses or self.agent.sells):
            self.ledger.spend("verifiers", x.cost, strangers.astype(float))
        return own.astype(float), strangers.astype(float)

    def _opinions(self, strangers: Amounts) -> tuple[Amounts, Amounts]:
        """How many strangers agree with what was committed, and differ so that the referee will convict."""
        agent, x, m = self.agent, self.x, self.x.amounts
        none = np.zeros(self.tasks)
        if agent.guesses:
            self.ledger.move("verifiers", "executor", m.W, strangers)
            self.ledger.move("verifiers", "burned", m.B - m.W, strangers)
            return none, none
        if agent.sells:
            self.ledger.move("verifiers", "executor", x.cost, strangers)
            self.ledger.move("executor", "verifiers", m.W / 2, strangers > 0)
            self.ledger.move("executor", "burned", m.W / 2, strangers > 0)
        if agent.works:
            return strangers, none
        if not agent.bribes:
            return none, strangers
        price = strangers * bribe(x)
        bribed = (strangers > 0) & (price < worth_of_bribes(x))
        self.ledger.move("executor", "verifiers", price, bribed)
        return strangers * bribed, strangers * ~bribed

    def _reveal(self, committed: Mask, strangers: Amounts) -> Mask:
        match self.agent.reveals:
            case Reveals.ALWAYS:
                return committed
            case Reveals.NEVER:
                return np.zeros(self.tasks, bool)
        return np.asarray(committed & (strangers == 0))

    def _challenge(self, revealed: Mask, own: Amounts, differing: Amounts) -> Mask:
        """Every game about a revealed result; says where it was convicted."""
        agent, m = self.agent, self.x.amounts
        looked = revealed & self._happens(self.x.watch)
        self.ledger.spend("challengers", self.x.cost, looked)
        if agent.works:
            self._grief(revealed)
            return np.zeros(self.tasks, bool)
        seen = revealed & (differing > 0)
        caught = seen | looked
        itself = {
            SelfConviction.NEVER: np.zeros(self.tasks, bool),
            SelfConviction.CORNERED: caught,
            SelfConviction.ALWAYS: revealed,
        }[agent.convicts]
        verdict = caught | itself
        if agent.buys:
            self._gas("executor", GAS_CHALLENGE + GAS_DEFEND, revealed)
            self.ledger.move("executor", "burned", m.B - m.W, revealed & ~verdict)
            self.ledger.move("executor", "burned", m.B, verdict)
        reports = own * (itself & (seen | (agent.convicts is SelfConviction.ALWAYS)))
        self._gas("executor", GAS_CHALLENGE, itself)
        self._gas("verifiers", GAS_CHALLENGE, seen & ~itself)
        self._gas("challengers", GAS_CHALLENGE, looked & ~seen & (agent.convicts is not SelfConviction.ALWAYS))
        self._verdict(verdict, itself, reports, differing * verdict)
        return np.asarray(verdict)

    def _verdict(self, verdict: Mask, itself: Mask, own: Amounts, strangers: Amounts) -> None:
        """Stake and collateral of a convicted executor; `own` and `strangers` are the answers that differ."""
        m, move = self.x.amounts, self.ledger.move
        reports, half = own + strangers, (1 - BURNED) * m.s
        by_seat, by_watcher = verdict & ~itself & (strangers > 0), verdict & ~itself & (strangers == 0)
        move("executor", "verifiers", half, _parts(strangers, reports))
        move("executor", "challengers", half, by_watcher & (reports == 0))
        move("executor", "verifiers", m.v, strangers)
        move("executor", "verifiers", m.W, by_seat)
        move("executor", "challengers", m.W, by_watcher)
        move("executor", "burned", BURNED * m.s + m.K - m.W - m.v * reports, verdict)

    def _silence(self, silent: Mask, own: Amounts, strangers: Amounts) -> None:
        """Drawn and not revealed. Nobody answered: W is the caller's of `slash`, an account of the executor."""
        m, move = self.x.amounts, self.ledger.move
        answers, half = (own + strangers) * silent, (1 - BURNED) * m.s
        move("executor", "verifiers", half + m.W, _parts(strangers * silent, answers))
        move("executor", "verifiers", m.v, strangers * silent)
        move("executor", "burned", half, silent & (answers == 0))
        move("executor", "burned", BURNED * m.s + m.K - m.W - m.v * answers, silent)

    def _grief(self, revealed: Mask) -> None:
        """Challenges of a right result, which the executor wins all."""
        m, many = self.x.amounts, revealed * np.float64(self.agent.griefs)
        by = "client" if self.agent.party == "client" else "challengers"
        self.ledger.move(by, "executor", m.W, many)
        self.ledger.move(by, "burned", m.B - m.W, many)
        self._gas(by, GAS_CHALLENGE, many)
        self._gas("executor", GAS_DEFEND, many)
        self.ledger.spend("executor", self.x.cost, many)

    def _final(self, final: Mask, own: Amounts, agreeing: Amounts) -> None:
        m, move = self.x.amounts, self.ledger.move
        move("client", "executor", m.P, final)
        move("client", "executor", m.v, own * final)
        move("client", "verifiers", m.v, agreeing * final)
        if self.agent.works:
            self.ledger.gain("client", self.x.benefit, final)
        else:
            self.ledger.gain("executor", self.x.gain, final)


def bribe(x: Situation) -> float:
    """What a drawn stranger loses if it agrees with a lie: it would be the only one to differ, as others are bribed."""
    return (1 - BURNED) * x.amounts.s + x.amounts.W


def worth_of_bribes(x: Situation) -> float:
    """What an executor that is about to be convicted would pay at most; in vain if somebody watches."""
    m = x.amounts
    return (1 - x.watch) * (m.P + x.gain + m.K + m.s)


def _parts(part: Amounts, whole: Amounts) -> Amounts:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


#: Standard errors to each side: 99 % of a normal distribution.
Z99 = 2.5758293035489


@dataclass(frozen=True, slots=True)
class Mean:
    """Of a payoff per task, in tokens; the interval holds the expectation in 99 of 100 estimates."""

    value: float
    error: float  # standard error

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.value - Z99 * self.error

    @property
    def high(self) -> float:
        """The upper end of the interval."""
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
    payoffs["burned"] = mean_of(outcome.ledger.paid["burned"])
    happened = ("drawn", "final", "failed", "convicted", "wrong")
    return Estimate(agent, tasks, seed, payoffs, {name: float(getattr(outcome, name).mean()) for name in happened})


def mean_of(values: Amounts) -> Mean:
    """The mean of payoffs, an element a task, with its standard error."""
    error = float(values.std(ddof=1)) / sqrt(len(values)) if len(values) > 1 else float("inf")
    return Mean(float(values.mean()), error)
