"""What the chain remembers of tasks and stake, as values; Tasks.sol and IServiceManager.sol by the same names."""

from dataclasses import dataclass
from enum import IntEnum

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
