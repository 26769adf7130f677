"""What the machine of batches is told, and what it asks for: plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from eigentensor import task
from eigentensor.channel import Offer
from eigentensor.channel.life import CallDemand
from eigentensor_operator.batches.case import Doubt, Drawn, Seal, Step
from eigentensor_operator.calls.interface import Load
from eigentensor_operator.events import RolledBack
from eigentensor_operator.policy import Claims, Reason, Standing


class Do(NamedTuple):
    """An action: what, for which batch (or pool); `number` is the game, or the wei of a deposit."""

    step: Step
    subject: bytes
    number: int = 0


@dataclass(frozen=True, slots=True)
class Serving:
    """An own pool that calls are served by: its offer, what it executed that no batch has, whether anybody wants it,
    and whether a channel of it goes on only after a commit. `concluding`: since which block a channel of it is
    concluded that is not so on chain; None: there is none."""

    offer: Offer
    load: Load = field(default_factory=Load)
    is_wanted: bool = False
    is_short: bool = False
    concluding: int | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """All events up to `standing.block` have been seen. `balance` is what the operator has in the market for paid
    calls, of which its signer may still hold `cap`, both in wei; `promised` is what its tasks are about to hold."""

    standing: Standing
    balance: int
    cap: int
    serving: Mapping[bytes, Serving] = field(default_factory=dict)
    promised: Claims = field(default_factory=Claims)
    draining: bool = False
    testing: bool = False
    faulty: bool = False
    slack: int | None = None
    """Blocks by which what tasks were promised can be later; None: nothing was."""


@dataclass(frozen=True, slots=True)
class Looked:
    """Where the draw placed this operator is known."""

    subject: bytes
    drawn: Drawn


@dataclass(frozen=True, slots=True)
class Fetched:
    """What is served of the share is here. `withheld` are the calls of which something is not, in a random order:
    nobody knows which are demanded. `reason`: why it cannot be answered for; None: all is here."""

    subject: bytes
    withheld: tuple[int, ...] = ()
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Sealed:
    """All calls of the share were executed, and agree with their leaves."""

    subject: bytes
    seal: Seal


@dataclass(frozen=True, slots=True)
class Doubted:
    """A call is wrong, or more of it is to be seen. `unanswered`: no doubt is left, but the share cannot be answered
    for either."""

    subject: bytes
    step: Step
    doubt: Doubt | None
    unanswered: Reason | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """Any other step is done. A transaction is in `block`; 0 where nothing had to be sent. `closed` are demands that
    the chain does not wait for."""

    subject: bytes
    step: Step
    block: int = 0
    number: int = 0
    closed: frozenset[CallDemand] = frozenset()


@dataclass(frozen=True, slots=True)
class Undone:
    """A step failed. A lasting reason ends what it was for; otherwise it is tried again."""

    subject: bytes
    step: Step
    reason: Reason
    number: int = 0


Outcome = Looked | Fetched | Sealed | Doubted | Done | Undone
#: What the chain shows, what it takes back, and all that is no fact of the chain.
Event = task.Event | RolledBack | Head | Outcome
