"""What the chain remembers, as values; Tasks.sol, IServiceManager.sol and Deals.sol by the same names."""

from dataclasses import dataclass
from enum import IntEnum

from eigentensor.channel.state import BatchState, Breach, ChannelState
from eigentensor.task.state import Cause, State


@dataclass(frozen=True, slots=True)
class Task:
    """What the chain remembers of a task; see `Task` in ITaskMarket.sol. The last three are bitmaps over answers."""

    executor: str
    state: State
    accepted_at: int
    since: int
    exec: int
    claim: bytes
    committed_at: int
    seats: int
    answered: int
    agreed: int
    differed: int


class Stage(IntEnum):
    """Where an answer stands. LOST: its bond went in a lost game, or, of a batch, it differed and its bond is back;
    EXPOSED: somebody opened it too early."""

    NONE = 0
    HIDDEN = 1
    AGREED = 2
    DIFFERED = 3
    LOST = 4
    EXPOSED = 5
    PAID = 6


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a drawn verifier: its commitment while that is hidden, its outputs root then."""

    operator: str
    stage: Stage
    claim: bytes


@dataclass(frozen=True, slots=True)
class Challenge:
    """A bond at stake in a game: the challenger's own (slot 0), or that of answer `slot - 1`.

    `ended`: the game ended before the task did, or the bond was returned. `crowded`: its challenger opened it while
    others were open already that an executor has to bear for nothing.
    """

    challenger: str
    slot: int
    ended: bool
    crowded: bool = False


@dataclass(frozen=True, slots=True)
class Conviction:
    """Why a task is Convicted, who won the deciding game (the zero address: nobody), and whether stake is slashed.

    `crowded`: the executor let its clock run out in a crowded game, which proves nothing about its result.
    """

    cause: Cause
    winner: str
    slashed: bool
    crowded: bool = False


@dataclass(frozen=True, slots=True)
class LeafProof:
    """Shows a leaf under an outputs root, or that there is none; see `LeafProof` in ITaskMarket.sol."""

    other: bytes
    count: int
    name: bytes
    binding: tuple[bytes, ...]
    dtype: int
    elements: int
    tree: bytes
    data: bytes
    path: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Balance:
    """What an account has in the market, in wei: free to withdraw, and held as collateral or bonds."""

    balance: int
    collateral: int


@dataclass(frozen=True, slots=True)
class Seat:
    """A place in the list of verifiers. Nobody's (the zero address): its operator has left it."""

    operator: str
    since: int


@dataclass(frozen=True, slots=True)
class Lock:
    """Shares of an executor's stake that one task holds until the block `end`, and what is kept back for rounding."""

    shares: int
    rounding: int
    end: int


@dataclass(frozen=True, slots=True)
class Note:
    """What waits to be paid of a slash: wei, half of it for the beneficiaries. Zero: paid, or never noted."""

    task: bytes
    amount: int
    beneficiaries: tuple[str, ...]


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
