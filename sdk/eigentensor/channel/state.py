"""Where batches and channels stand, and why a batch is convicted; Deals.sol by the same names."""

from enum import IntEnum


class BatchState(IntEnum):
    """Where a batch stands. It never leaves FINAL, FAILED, LAPSED and CONVICTED."""

    NONE = 0
    BEGUN = 1
    COMMITTED = 2
    FINAL = 3
    FAILED = 4
    LAPSED = 5
    CONVICTED = 6

    @property
    def is_terminal(self) -> bool:
        """Whether a batch in this state never changes it again."""
        return self >= BatchState.FINAL


class Breach(IntEnum):
    """Why a batch is convicted: its operator lost a game; did not show what was demanded; signed a receipt for another
    result than it signed or committed for the same call; left a call out that it had signed a receipt for; or executed
    what its offer does not name."""

    NONE = 0
    VERDICT = 1
    DEMAND = 2
    CONTRADICTION = 3
    OMISSION = 4
    OUTSIDE = 5


class ChannelState(IntEnum):
    """Where a channel stands. LEFT: its last batch is fixed. CONCLUDED: both signed a last voucher, which is paid."""

    NONE = 0
    OPEN = 1
    LEFT = 2
    CONCLUDED = 3
    ENDED = 4
