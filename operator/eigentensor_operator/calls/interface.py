"""What those that commit batches on chain ask of those that serve the calls in them, and what they feed them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from eigentensor.channel import CallReceipt, Deal, Offer, Sheet, Voucher
from eigentensor.reexecution.inputs import BoundProgram
from eigentensor.task import Event, Order

#: Gas that a batch's commit takes for a line, and for a call of its tail; what a block admits of it.
LINE_GAS, TAIL_GAS, COMMIT_GAS = 31_300, 5_200, 14_000_000
FULL = 5, 4  #: what has four fifths of what it may have is nearly full


@dataclass(frozen=True, slots=True)
class Load:
    """What a pool executed that no batch has: calls and what they cost in wei, channels that had any, and calls that
    their newest vouchers do not acknowledge."""

    leaves: int = 0
    amount: int = 0
    lines: int = 0
    tails: int = 0

    def __add__(self, other: "Load") -> "Load":
        return Load(
            self.leaves + other.leaves, self.amount + other.amount, self.lines + other.lines, self.tails + other.tails
        )  # fmt: skip

    def __sub__(self, other: "Load") -> "Load":
        return Load(
            self.leaves - other.leaves, self.amount - other.amount, self.lines - other.lines, self.tails - other.tails
        )  # fmt: skip

    @property
    def gas(self) -> int:
        """What the commit of it takes, at most."""
        return LINE_GAS * self.lines + TAIL_GAS * self.tails


@dataclass(frozen=True, slots=True)
class Call:
    """A call that was executed: its receipt with the operator's signature, and what it was to compute."""

    receipt: CallReceipt
    signature: bytes
    order: Order
    variables: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class DrawnShare:
    """A share that somebody may check: its calls by their numbers in batch `number` of a pool, as they are drawn."""

    pool: bytes
    number: int
    calls: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Conclusion:
    """That a channel is concluded: its last voucher, the signatures of both sides, and the block in which the operator
    gave its own."""

    voucher: Voucher
    payers: bytes
    signers: bytes
    since: int


class Draws(Protocol):
    """What those that serve calls ask of those that follow the chain. Safe for several threads."""

    def drawn(self, batch: bytes, share: int, account: str) -> DrawnShare:
        """A share of an own batch whose seed is recorded. Raises TaskNotFound if there is none; CallRefused unless the
        account is a candidate of it, or the signer of one."""


class Calls(Protocol):
    """The calls of an operator, safe for several threads. What it returns is on disk, and the same after a restart."""

    def pools(self) -> Mapping[bytes, Offer]:
        """The offers that calls are served by, which are to be on chain, by the names of their pools."""

    def concluding(self, pool: bytes) -> Mapping[bytes, Conclusion]:
        """The channels of a pool that are concluded, and not yet on chain, with calls that no batch has, and none will:
        they have to be on chain before the next commit."""

    def deal_of(self, channel: bytes) -> Deal:
        """The terms of a channel. Raises ChannelClosed."""

    def is_wanted(self, pool: bytes) -> bool:
        """Whether anybody wants calls: a deal that may still be opened was signed, or a channel is open."""

    def is_short(self, pool: bytes) -> bool:
        """Whether a channel's calls near what its deal lets them cost in a batch, though its deposit pays for more:
        then it goes on only after a commit."""

    def observe(self, event: Event) -> None:
        """An event of `eigentensor.channel.events`, each once, in the order of the chain; others change nothing."""

    def advance(self, block: int) -> None:
        """The newest block, when all its events were observed. Nothing is served before the first."""

    def rolled_back(self, block: int) -> None:
        """What was observed after this block happened no more."""

    def load(self, pool: bytes) -> Load:
        """What was executed, and stands in no sheet of a batch that is committed or may be."""

    def sheets(self, pool: bytes, number: int) -> tuple[Sheet, ...]:
        """What the commit of batch `number` brings: the same each time.

        The first time it drains: no receipt names this batch any more, calls under way end, and then every channel
        whose calls stand in no sheet gives one. Calls are refused until a later batch is begun. Blocks for as long as a
        call may take. Raises ServiceBusy while a channel of the pool is being concluded.
        """

    def calls_of(self, pool: bytes, number: int) -> Sequence[Call]:
        """The calls of a batch whose sheets were drained, by line and index: call x of the batch is at x. Empty once it
        is closed."""

    def leaves_of(self, channel: bytes) -> Sequence[bytes]:
        """The leaves of all calls of a channel's life, which the paths of its calls come from."""

    def bound_of(self, order: bytes) -> BoundProgram:
        """All that a call's order, named by its hash, binds: to be executed again, shown and disputed. Raises
        BlobNotFound once its batch is closed."""
