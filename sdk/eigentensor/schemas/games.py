"""Games about results, as `eigentensor.chain.transcript` tells them. aggregator/README.md says what moves publish."""

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from eigentensor.chain.descent import Part
from eigentensor.texts import Address, Block, Hash, Name, Wei, documented
from eigentensor.wire import Json

Side = Literal["executor", "challenger"]


@documented
class Clocks(TypedDict):
    """Blocks that both sides have left for all their moves, as of the last one."""

    executor: int
    """Those of the executor."""
    challenger: int
    """Those of the challenger."""


@documented
class Move(TypedDict):
    """A move of a game."""

    by: str
    """executor, challenger or anybody."""
    account: Address | None
    """Who sent it; null until its receipt was seen."""
    move: str
    """The contract's function; `verdict` for every one that judges a step."""
    what: str
    """What it did, in words."""
    block: Block
    """When it was made."""
    transaction: Hash
    """The transaction that made it."""
    gas: int | None
    """The gas of that transaction; null until its receipt was seen."""
    phase: str | None
    """What is to be done after it; null after the last move."""
    clocks: Clocks | None
    """What both have left after it; null after the last move."""
    path: list[Annotated[dict[str, Any], Json(Part)]] | None
    """What is disputed after it, from the calls down; null after the last move."""
    position: dict[str, Any] | None
    """The position after it, by the names of IDisputeGame.sol; null after the last move."""
    data: dict[str, Any]
    """What it published or picked: hashes and bytes as hex, values with their types."""


@documented
class Payout(TypedDict):
    """What followed from a game: money that moved."""

    block: Block
    """When it moved."""
    to: Address
    """Who got it."""
    amount: Wei
    """How much, in wei."""
    what: str
    """What for: bond, reward, escrow, share of the slash, …"""


@documented
class Challenge(TypedDict):
    """`eigentensor.challenge/1`: a whole game about a result. Amounts are wei, times blocks, bytes hex."""

    schema: Literal["eigentensor.challenge/1"]
    """Says what this object is."""
    game: int
    """Its number."""
    task: Name
    """The task that it is about."""
    executor: Address
    """Who defends the result."""
    challenger: Address
    """Who says that it is wrong."""
    bond: Wei
    """Wei that the challenger put down."""
    reward: Wei
    """Wei that a conviction brings the challenger."""
    state: Literal["open", "idle", "ended"]
    """`idle`: its task ended before it did, and its bond is not back."""
    lost_by: Side | None
    """Who lost; null before."""
    why: Literal["verdict", "collect", "determined", "clock"] | None
    """How it ended; null before."""
    opened: Block
    """When it was opened."""
    block: Block
    """The block as of which this is told."""
    phase: str
    """What is to be done next."""
    turn: Side | None
    """Who is to do it; null when nobody's clock runs."""
    until: Block | None
    """The last block for it."""
    clocks: Clocks
    """What both have left."""
    about: str
    """What is disputed, in words."""
    path: list[Annotated[dict[str, Any], Json(Part)]]
    """What is disputed, from the calls down; a part comes again when it gets narrower."""
    position: dict[str, Any]
    """What the contract keeps as a hash, by the names of IDisputeGame.sol; numbers are decimal strings."""
    moves: list[Move]
    """All moves, in order."""
    payouts: list[Payout]
    """What followed."""
    follows: NotRequired[str]
    """What happens next, in words; told by `challenge show`."""
    body: NotRequired[list[str] | None]
    """The text of what the disputed call computes; told by `challenge show`."""


@documented
class ListedChallenge(TypedDict):
    """A game in a list."""

    game: int
    """Its number."""
    task: Name
    """The task that it is about."""
    executor: Address
    """Who defends the result."""
    challenger: Address
    """Who says that it is wrong."""
    state: Literal["open", "idle", "ended"]
    """`idle`: its task ended before it did, and its bond is not back."""
    opened: Block
    """When it was opened."""


@documented
class Challenges(TypedDict):
    """`eigentensor.challenges/1`: games, newest first."""

    schema: Literal["eigentensor.challenges/1"]
    """Says what this object is."""
    challenges: list[ListedChallenge]
    """The games of this page."""
    block: NotRequired[Block]
    """The block as of which this is told; told by the gateway."""
    next: NotRequired[str | None]
    """The `cursor` of the next page, null at the end. The command lists all and leaves it out."""
