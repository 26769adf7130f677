"""The payoff matrix with which EigenTensor began: what a node expects of computing, and of not computing.

Others check it with probability α and may collude against an honest node. Kept as it was published, in exact
fractions, with what follows from it. This protocol is a special case: a referee makes β = 0, and γ is the share of
strangers among the checkers.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple


class Row(NamedTuple):
    """One row of the matrix: what happens with which probability, given the strategy, and what it pays."""

    strategy: str
    scenario: str
    probability: Fraction
    payoff: Fraction


@dataclass(frozen=True, slots=True)
class Payoffs:
    """P, C, S in one unit of money; ε, α, β, γ in 0…1."""

    payment: Fraction
    cost: Fraction
    stake: Fraction
    shortcut: Fraction
    check: Fraction
    collusion: Fraction
    caught: Fraction

    def rows(self) -> tuple[Row, ...]:
        """The six rows, in their published order."""
        honest, cheap = self.payment - self.cost, self.payment - self.shortcut * self.cost
        a, b, c = self.check, self.collusion, self.caught
        return (
            Row("honest", "no check", 1 - a, honest),
            Row("honest", "check, others honest", a * (1 - b), honest),
            Row("honest", "check, others collude", a * b, -self.stake),
            Row("dishonest", "no check", 1 - a, cheap),
            Row("dishonest", "check, not caught", a * (1 - c), cheap),
            Row("dishonest", "check, caught", a * c, -self.stake),
        )

    @property
    def honest(self) -> Fraction:
        """(1 − αβ)(P − C) − αβS"""
        lost = self.check * self.collusion
        return (1 - lost) * (self.payment - self.cost) - lost * self.stake

    @property
    def dishonest(self) -> Fraction:
        """(1 − αγ)(P − εC) − αγS"""
        lost = self.check * self.caught
        return (1 - lost) * (self.payment - self.shortcut * self.cost) - lost * self.stake

    @property
    def minimum_stake(self) -> Fraction | None:
        """S from which honesty is as good: C·((1 − αβ) − ε(1 − αγ)) / (α(γ − β)) − P. None where no stake does it:
        whoever is honest is slashed as often (γ ≤ β), or nobody is checked."""
        edge = self.check * (self.caught - self.collusion)
        if edge <= 0:
            return None
        kept = 1 - self.check * self.collusion - self.shortcut * (1 - self.check * self.caught)
        return max(Fraction(0), self.cost * kept / edge - self.payment)

    @property
    def maximum_stake(self) -> Fraction | None:
        """S up to which an honest node takes part: (1 − αβ)(P − C) / (αβ); None where any S is borne. Stake drives
        honest nodes out as soon as they can be slashed."""
        lost = self.check * self.collusion
        return (1 - lost) * (self.payment - self.cost) / lost if lost else None

    @property
    def break_even_check(self) -> Fraction | None:
        """α from which honesty is as good: (1 − ε)C / (γ(P + S − εC) − β(P + S − C)); None where no rate does it."""
        whole = self.payment + self.stake
        edge = self.caught * (whole - self.shortcut * self.cost) - self.collusion * (whole - self.cost)
        return _rate((1 - self.shortcut) * self.cost, edge)

    @property
    def break_even_caught(self) -> Fraction | None:
        """γ from which honesty is as good; None where none is."""
        if not self.check:
            return None
        whole = self.payment + self.stake
        gap = (1 - self.shortcut) * self.cost / self.check + self.collusion * (whole - self.cost)
        return _rate(gap, whole - self.shortcut * self.cost)

    @property
    def break_even_collusion(self) -> Fraction | None:
        """β up to which honesty is as good; None where it is not even for honest checkers, or P + S ≤ C."""
        whole = self.payment + self.stake
        if not self.check or whole <= self.cost:
            return None
        left = self.caught * (whole - self.shortcut * self.cost) - (1 - self.shortcut) * self.cost / self.check
        beta = left / (whole - self.cost)
        return beta if beta >= 0 else None


def _rate(part: Fraction, whole: Fraction) -> Fraction | None:
    return part / whole if whole > 0 and part <= whole else None


def check_rate(cost: Fraction, payment: Fraction, stake: Fraction, share: Fraction, burned: Fraction) -> Fraction:
    """α from which honesty is the only equilibrium, C / ((1 − r)(P + b·S)): a proof of sampling, where of a slashed
    stake only b is lost to whoever cheats and convicts itself through another account."""
    return cost / ((1 - share) * (payment + burned * stake))
