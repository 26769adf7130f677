"""What happened to pools, channels and batches, as values; the events of IChannels.sol by the same names."""

from collections.abc import Mapping
from dataclasses import dataclass

from eigentensor.channel.deals import Deal, Offer
from eigentensor.channel.lines import CallProof, Line
from eigentensor.channel.state import BatchState, Breach
from eigentensor.task.events import Deposited, Event, Leaf, Withdrawn
from eigentensor.task.order import Order


@dataclass(frozen=True, slots=True)
class PoolEvent(Event):
    """One about a pool."""

    pool: bytes


@dataclass(frozen=True, slots=True)
class ChannelEvent(Event):
    """One about a channel."""

    channel: bytes


@dataclass(frozen=True, slots=True)
class BatchEvent(Event):
    """One about a batch that is begun."""

    batch: bytes


@dataclass(frozen=True, slots=True)
class Offered(PoolEvent):
    operator: str
    offer: Offer


@dataclass(frozen=True, slots=True)
class Begun(PoolEvent):
    number: int
    batch: bytes
    commit_by: int
    lock_end: int


@dataclass(frozen=True, slots=True)
class Opened(ChannelEvent):
    pool: bytes
    client: str
    deal: Deal
    deposit: int


@dataclass(frozen=True, slots=True)
class Funded(ChannelEvent):
    payer: str
    amount: int


@dataclass(frozen=True, slots=True)
class Left(ChannelEvent):
    last: int


@dataclass(frozen=True, slots=True)
class Concluded(ChannelEvent):
    count: int
    amount: int
    refund: int


@dataclass(frozen=True, slots=True)
class Ended(ChannelEvent):
    refund: int


@dataclass(frozen=True, slots=True)
class Lined(BatchEvent):
    position: int
    line: Line


@dataclass(frozen=True, slots=True)
class Committed(BatchEvent):
    root: bytes
    lines: int
    leaves: int
    amount: int


@dataclass(frozen=True, slots=True)
class Answered(BatchEvent):
    index: int
    operator: str
    commitment: bytes


@dataclass(frozen=True, slots=True)
class RootsRevealed(BatchEvent):
    roots: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Revealed(BatchEvent):
    slot: int
    root: bytes
    agrees: bool


@dataclass(frozen=True, slots=True)
class Justified(BatchEvent):
    share: int
    part: int
    calls: tuple[CallProof, ...]


@dataclass(frozen=True, slots=True)
class Challenged(BatchEvent):
    game_id: int
    challenger: str
    bond: int
    slot: int
    order: Order
    outputs_root: bytes


@dataclass(frozen=True, slots=True)
class GameEnded(BatchEvent):
    game_id: int
    challenger: str
    executor_lost: bool


@dataclass(frozen=True, slots=True)
class Demanded(BatchEvent):
    number: int
    by: str
    leaves: tuple[Leaf, ...]
    show_by: int


@dataclass(frozen=True, slots=True)
class Shown(BatchEvent):
    number: int
    order: Order
    variables: bytes
    call: CallProof


@dataclass(frozen=True, slots=True)
class LeafShown(BatchEvent):
    number: int
    leaf: int
    data: bytes


@dataclass(frozen=True, slots=True)
class DemandReturned(BatchEvent):
    number: int
    by: str
    amount: int


@dataclass(frozen=True, slots=True)
class Convicted(BatchEvent):
    breach: Breach
    winner: str


@dataclass(frozen=True, slots=True)
class Closed(BatchEvent):
    state: BatchState
    paid: int
    returned: int


@dataclass(frozen=True, slots=True)
class Settled(BatchEvent):
    slot: int
    account: str
    amount: int


@dataclass(frozen=True, slots=True)
class Refunded(BatchEvent):
    channel: bytes
    account: str
    amount: int


@dataclass(frozen=True, slots=True)
class BondReturned(BatchEvent):
    game_id: int
    challenger: str
    amount: int


@dataclass(frozen=True, slots=True)
class Slashed(BatchEvent):
    slash_id: int
    shares: int
    caller: str


KINDS: Mapping[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        Deposited, Withdrawn, Offered, Begun, Opened, Funded, Left, Concluded, Ended, Lined, Committed, Answered,
        RootsRevealed, Revealed, Justified, Challenged, GameEnded, Demanded, Shown, LeafShown, DemandReturned,
        Convicted, Closed, Settled, Refunded, BondReturned, Slashed,
    )
}  # fmt: skip
