"""What operators have at stake now: asked of the node, and remembered for a few seconds, or until their turn comes."""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

from eigentensor.chain import Reader

SECONDS = 5.0
#: Operators that the node is asked about in SECONDS for lists of more: each of a thousand has its turn in minutes.
TURN = 16


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
        self._turn = 0.0, TURN  # when it began, and who has it yet
        self._burned = -SECONDS, 0

    def of(self, operators: Iterable[str]) -> dict[str, Standing]:
        """What is known of them, as of the last seconds; in a list of more than TURN perhaps as of some minutes ago, or
        not yet. Raises ChainError."""
        with self._lock:
            named, now = list(operators), time.monotonic()
            asked = {name: self._known[name][0] if name in self._known else 0.0 for name in named}
            old = sorted((name for name in named if asked[name] < now - SECONDS), key=asked.__getitem__)
            for operator in old[: self._left(now) if len(named) > TURN else TURN]:
                self._known[operator] = now, self._asked(operator)
            return {name: self._known[name][1] for name in named if name in self._known}

    def _left(self, now: float) -> int:
        """How many the node may be asked about now; they count as asked."""
        began, left = self._turn if now < self._turn[0] + SECONDS else (now, TURN)
        self._turn = began, 0
        return left

    def burned(self, account: str) -> int:
        """What the account of burned tokens has, in the market and outside, in wei. Raises ChainError."""
        with self._lock:
            asked, amount = self._burned
            if time.monotonic() - asked > SECONDS:
                amount = self._reader.market.balance_of(account).balance + self._reader.token.balance_of(account)
                self._burned = time.monotonic(), amount
            return amount

    def _asked(self, operator: str) -> Standing:
        stake = self._reader.stake
        locked = stake.locked_stake(operator)
        return Standing(stake.of(operator), locked, stake.worth_of(locked) if locked else 0)
