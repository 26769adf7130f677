"""Where a game stands: what the contract keeps of it, as one hash. Names and order are those of IDisputeGame.sol."""

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from enum import IntEnum
from operator import attrgetter
from struct import Struct
from typing import TYPE_CHECKING

from eigentensor.abi import encode
from eigentensor.addresses import to_checksum_address
from eigentensor.errors import IllegalMove
from eigentensor.keccak import keccak
from eigentensor.leaves import NOTHING

if TYPE_CHECKING:
    from eigentensor.tracing import Claim

#: Instead of a reduction's number: the final expression.
FINAL = 255


class Side(IntEnum):
    EXECUTOR = 0
    CHALLENGER = 1


class Phase(IntEnum):
    """What the side to move is to do."""

    PUBLISH = 0
    CALL = 1
    TRACE = 2
    OUTPUTS = 3
    RESULT = 4
    TREE = 5
    NODE = 6
    LEAF = 7
    ELEMENT = 8
    BORDERS = 9
    SPAN = 10
    VERDICT = 11

    @property
    def side(self) -> Side:
        """Whose clock runs."""
        return Side.EXECUTOR if self in _EXECUTORS else Side.CHALLENGER


_EXECUTORS = frozenset((Phase.PUBLISH, Phase.TRACE, Phase.OUTPUTS, Phase.TREE, Phase.LEAF, Phase.BORDERS))


class Reason(IntEnum):
    """Why a game ended."""

    VERDICT = 0
    COLLECT = 1
    DETERMINED = 2
    CLOCK = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """A game that is over."""

    executor_lost: bool
    reason: Reason


@dataclass(frozen=True, slots=True)
class Position:
    """The fields of the Solidity struct. What a phase does not use keeps its value."""

    task: bytes
    executor: str
    challenger: str
    phase: Phase
    since: int
    executor_left: int
    challenger_left: int
    claim: bytes = NOTHING
    number: int = 0
    node: bytes = NOTHING
    rooted: bool = False
    level: int = 0
    opened: int = 0
    index: int = 0
    dtype: int = 0
    elements: int = 0
    reductions: int = 0
    kernel: bytes = NOTHING
    element: int = 0
    results: bytes = NOTHING
    reduction: int = 0
    low: int = 0
    high: int = 0
    low_value: int = 0
    high_value: int = 0
    borders: bytes = NOTHING

    def hash(self, game: int) -> bytes:
        """What the contract keeps of a game in this position."""
        return keccak(encode(["uint256", POSITION], [game, self.pack()]))

    def pack(self) -> tuple[bytes, ...]:
        """The ten words that messages and events carry; their layout is in Positions.sol."""
        task, executor, since, executor_left, challenger_left, challenger, *rest = _PACKED(self)
        players = bytes.fromhex(executor[2:]), since, executor_left, challenger_left, bytes.fromhex(challenger[2:])
        data = _WORDS.pack(task, *players, *rest)
        return tuple(data[at : at + 32] for at in range(0, len(data), 32))

    @classmethod
    def unpack(cls, words: Iterable[bytes]) -> "Position":
        """The inverse. Bits that are no field's are not read: no game has words with such bits."""
        values = dict(zip(_NAMES, _WORDS.unpack(b"".join(words)), strict=True))
        for player in ("executor", "challenger"):
            values[player] = to_checksum_address(values[player])
        return cls(**values | {"phase": Phase(values["phase"]), "rooted": bool(values["rooted"])})

    @property
    def left(self) -> int:
        """Blocks on the clock that runs, as of `since`."""
        return self.executor_left if self.phase.side is Side.EXECUTOR else self.challenger_left


#: The fields in the order of the words, big-endian, nothing between them but the two bytes that end the third word.
_WORDS = Struct(">32s 20s3I 20sI6B2x 4Q 4Q 32s 32s 32s 32s 32s")
_NAMES = (
    "task", "executor", "since", "executor_left", "challenger_left", "challenger", "number", "phase", "rooted", "level",
    "opened", "dtype", "reduction", "index", "elements", "reductions", "element", "low", "high", "low_value",
    "high_value", "claim", "node", "kernel", "results", "borders",
)  # fmt: skip
_PACKED = attrgetter(*_NAMES)

#: Types of what messages carry.
POSITION = "bytes32[10]"
CLAIM = "(bytes32,bytes32,bytes32,bytes32,bytes32,uint32,bytes32,bytes32)"


def deadline_of(position: Position) -> int:
    """The last block in which the side to move may move; after it anybody may end the game by its clock."""
    return position.since + position.left - 1


def claim_hash(claim: "Claim") -> bytes:
    """What a position keeps of a claim."""
    return keccak(encode([CLAIM], [astuple(claim)]))


def check_claim(position: Position, claim: "Claim") -> None:
    """Raises IllegalMove for another claim than the position's."""
    if claim_hash(claim) != position.claim:
        raise IllegalMove("the claim is another one")
