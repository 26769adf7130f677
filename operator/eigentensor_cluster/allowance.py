"""What members may take: seconds of slots in a minute. Pure; the clock is whoever calls.

Each member has a balance, at most a minute's allowance, to which time adds evenly. While it is above zero something may
begin; what is begun is charged with what it is expected to take, and settled when it has ended. So within any t seconds
a member's work takes at most its allowance, and t sixtieths of it, and what its last runs took longer than expected.
"""

from dataclasses import dataclass

MINUTE = 60.0  #: seconds


@dataclass(slots=True)
class _Account:
    """What a member may take now, as of when it was last looked at."""

    per_minute: float
    balance: float
    at: float

    def look(self, now: float) -> float:
        """The balance now."""
        passed = max(0.0, now - self.at)
        self.balance = min(self.per_minute, self.balance + passed * self.per_minute / MINUTE)
        self.at = max(self.at, now)
        return self.balance


class Allowances:
    """Members with an allowance, by name; all others may take what there is."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}

    def join(self, member: str, per_minute: float | None, now: float) -> None:
        """A member has this allowance from now on, or none. Who comes again finds the balance that it left."""
        if per_minute is None:
            self._accounts.pop(member, None)
        elif (account := self._accounts.get(member)) is None:
            self._accounts[member] = _Account(per_minute, per_minute, now)
        else:
            account.look(now)
            account.per_minute, account.balance = per_minute, min(account.balance, per_minute)

    def left(self, member: str, now: float) -> float | None:
        """Seconds of slots that it may take now, below zero if it has taken more; None if nothing bounds it."""
        account = self._accounts.get(member)
        return None if account is None else account.look(now)

    def wait(self, member: str, now: float) -> float:
        """Seconds until something of it may begin, if nothing of it ends before: zero if it may now."""
        account = self._accounts.get(member)
        if account is None or account.look(now) > 0:
            return 0.0
        # a little more than it takes, so that rounding leaves nobody at zero
        return (-account.balance / account.per_minute + 1e-6) * MINUTE

    def begin(self, member: str, expected: float, now: float) -> None:
        """Something of it has begun that is expected to take so many seconds of slots."""
        self._charge(member, max(expected, 0.0), now)

    def end(self, member: str, expected: float, seconds: float, now: float) -> None:
        """What was expected to take so long has ended, and took `seconds`."""
        self._charge(member, seconds - max(expected, 0.0), now)

    def _charge(self, member: str, seconds: float, now: float) -> None:
        if (account := self._accounts.get(member)) is not None:
            account.balance = min(account.per_minute, account.look(now) - seconds)
