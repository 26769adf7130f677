"""What operators have at stake now: asked of the node, and remembered for a few seconds."""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

from eigentensor.chain import Reader

SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Standing:
    """`stake` is what is delegated to an operator, in wei of the token; `locked` the shares that its tasks hold."""

    stake: int
    locked: int


class Standings:
    """One question for many visitors."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, Standing]] = {}

    def of(self, operators: Iterable[str]) -> dict[str, Standing]:
        """Raises ChainError."""
        with self._lock:
            return {operator: self._one(operator) for operator in operators}

    def _one(self, operator: str) -> Standing:
        asked, standing = self._known.get(operator, (0.0, None))
        if standing is None or time.monotonic() - asked > SECONDS:
            standing = Standing(self._reader.stake.of(operator), self._reader.stake.locked_stake(operator))
            self._known[operator] = (time.monotonic(), standing)
        return standing
