"""Where a task stands, and why an executor is convicted; Tasks.sol by the same names."""

from enum import IntEnum


class State(IntEnum):
    """Where a task stands."""

    NONE = 0
    OPEN = 1
    ACCEPTED = 2
    COMMITTED = 3
    REVEALED = 4
    FINAL = 5
    CONVICTED = 6
    CANCELLED = 7
    EXPIRED = 8
    FAILED = 9

    @property
    def is_terminal(self) -> bool:
        """Whether a task in this state never changes it again."""
        return self >= State.FINAL


class Cause(IntEnum):
    """Why an executor is convicted: it lost a game, was drawn and did not reveal, or did not show what was demanded."""

    NONE = 0
    VERDICT = 1
    SILENCE = 2
    DEMAND = 3
