"""Who has what after a task, for many tasks at once. What one account loses, another gets: burned is an account."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Amounts: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

PARTIES = ("client", "executor", "verifiers", "challengers")
BURNED = "burned"


class Ledger:
    """`paid` is what the market and EigenLayer moved; `private` what a party spent on computing and gas, or got out of
    a result. Both in tokens, an element a task."""

    def __init__(self, tasks: int) -> None:
        self.paid: dict[str, Amounts] = {account: np.zeros(tasks) for account in (*PARTIES, BURNED)}
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
