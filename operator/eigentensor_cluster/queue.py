"""Whose work is next: deficit round robin by the seconds that work takes on a slot. Pure.

Each session has a balance in seconds of a slot. Whoever has one above zero may begin; what is begun is charged with
what it is expected to take, and settled when it has ended. When none that waits may begin, each of them is given a
quantum by its weight, as often as one of them needs. An idle session saves nothing up.
"""

from collections.abc import Collection
from math import ceil

QUANTUM = 0.01  #: seconds of a slot that a weight of one is given at once


class Turns:
    """Sessions that take turns, by number."""

    def __init__(self, quantum: float = QUANTUM) -> None:
        self._quantum = quantum
        self._weights: dict[int, float] = {}
        self._balances: dict[int, float] = {}
        self._order: list[int] = []  # the one whose turn it is first

    def join(self, session: int, weight: float = 1.0) -> None:
        """A session takes part from now on."""
        self._weights[session], self._balances[session] = weight, 0.0
        self._order.append(session)

    def leave(self, session: int) -> None:
        """It does not any more; what it has under way is not settled."""
        del self._weights[session], self._balances[session]
        self._order.remove(session)

    def balance(self, session: int) -> float:
        """Seconds that a session may still take before others."""
        return self._balances[session]

    def next(self, waiting: Collection[int]) -> int | None:
        """The session among those that wait that begins something now; None where none waits."""
        if not waiting:
            return None
        able = [session for session in self._order if session in waiting and self._balances[session] > 0]
        if not able:
            self._give(waiting)
            able = [session for session in self._order if session in waiting and self._balances[session] > 0]
        chosen = able[0]
        at = self._order.index(chosen)
        self._order = [*self._order[at:], *self._order[:at]]  # it goes on until its balance is spent
        return chosen

    def begin(self, session: int, expected: float) -> None:
        """It has begun something that is expected to take so many seconds."""
        self._balances[session] -= max(expected, 0.0)
        if self._balances[session] <= 0 and self._order[0] == session:
            self._order.append(self._order.pop(0))

    def end(self, session: int, expected: float, seconds: float) -> None:
        """What was expected to take so long has ended, and took `seconds`."""
        if session in self._balances:
            self._balances[session] += max(expected, 0.0) - seconds

    def rest(self, session: int) -> None:
        """It has nothing to begin and nothing under way: it keeps its debt, and no credit."""
        self._balances[session] = min(self._balances[session], 0.0)

    def _give(self, waiting: Collection[int]) -> None:
        """As many quanta to each as lift the first one above zero."""
        rounds = min(ceil(-self._balances[s] / (self._quantum * self._weights[s])) for s in waiting)
        for session in waiting:
            self._balances[session] += max(1, rounds) * self._quantum * self._weights[session]
        # rounding may leave the best of them at zero or a hair below
        best = max(waiting, key=self._balances.__getitem__)
        self._balances[best] = max(self._balances[best], self._quantum * self._weights[best] * 1e-6)
