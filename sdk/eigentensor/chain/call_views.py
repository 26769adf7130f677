"""What the chain remembers of paid calls, as values; Deals.sol by the same names."""

from dataclasses import dataclass

from eigentensor.channel.state import BatchState, Breach, ChannelState


@dataclass(frozen=True, slots=True)
class Pool:
    """What a pool has come to. `next` is the number of the oldest batch that can still be committed, `reserved` what
    its open channels put at risk, in wei. `over`: no batch is begun or committed any more."""

    offered: bool
    over: bool
    begun: int
    next: int
    reserved: int


@dataclass(frozen=True, slots=True)
class Batch:
    """What the chain remembers of a batch; see `Batch` in Deals.sol. Blocks are 0 for what has not happened."""

    state: BatchState
    begun_at: int
    committed_at: int
    revealed_at: int
    shown_until: int
    seats: int
    games: int
    demands: int
    agreed: int
    amount: int
    leaves: int
    lines: int
    refunded: int
    won: int
    answered: int


@dataclass(frozen=True, slots=True)
class Roots:
    """What an operator committed to: the root over the lines; the hash of the shares' roots once these are shown."""

    lines: bytes
    shares: bytes


@dataclass(frozen=True, slots=True)
class Payback:
    """What clients get back of a batch, in wei: in all, and what has not gone yet."""

    returned: int
    left: int


@dataclass(frozen=True, slots=True)
class Channel:
    """What the chain remembers of a channel: wei that are left and that are paid, committed calls, the last batch that
    it stands in, and the last one that it may stand in once it was left."""

    deposit: int
    paid: int
    count: int
    number: int
    client: str
    last: int
    state: ChannelState


@dataclass(frozen=True, slots=True)
class Judgment:
    """Why a batch is convicted, who won by it, whether stake is slashed. `crowded`: by a clock in a crowded game."""

    winner: str
    breach: Breach
    slashed: bool
    crowded: bool


@dataclass(frozen=True, slots=True)
class ShareDemand:
    """The demand to justify a share of which a verifier has another root; bit q of `parts`: part q is there."""

    since: int
    justified_at: int
    slot: int
    parts: int


@dataclass(frozen=True, slots=True)
class Windows:
    """The last blocks of commit, answers, the operator's reveal, the answers' reveals, and disputes of a batch."""

    commit_by: int
    check_by: int
    reveal_by: int
    answers_by: int
    dispute_by: int
