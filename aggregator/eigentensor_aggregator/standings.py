"""What operators have at stake now: asked of the node, and remembered for a few seconds."""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

from eigentensor.chain import Reader

SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Standing:
    """`stake` is what is delegated to an operator, in wei of the token; `locked` the shares that its tasks hold, and
    `held` what they are worth in wei."""

    stake: int
    locked: int
    held: int

    @property
    def free(self) -> int:
        """Wei of stake that no task holds."""
        return max(0, self.stake - self.held)


class Standings:
    """One question for many visitors."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, Standing]] = {}
        self._burned = -SECONDS, 0

    def of(self, operators: Iterable[str]) -> dict[str, Standing]:
        """Raises ChainError."""
        with self._lock:
            return {operator: self._one(operator) for operator in operators}

    def burned(self, account: str) -> int:
        """What the account of burned tokens has, in the market and outside, in wei. Raises ChainError."""
        with self._lock:
            asked, amount = self._burned
            if time.monotonic() - asked > SECONDS:
                amount = self._reader.market.balance_of(account).balance + self._reader.token.balance_of(account)
                self._burned = time.monotonic(), amount
            return amount

    def _one(self, operator: str) -> Standing:
        asked, standing = self._known.get(operator, (0.0, None))
        if standing is None or time.monotonic() - asked > SECONDS:
            stake, locked = self._reader.stake, self._reader.stake.locked_stake(operator)
            standing = Standing(stake.of(operator), locked, stake.worth_of(locked) if locked else 0)
            self._known[operator] = (time.monotonic(), standing)
        return standing
