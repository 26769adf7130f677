"""Pools, channels and batches of paid calls as JSON objects: how they stand, what happened to them."""

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from eigentensor.channel.deals import Deal, Offer
from eigentensor.channel.lines import Line
from eigentensor.texts import Address, Block, Hash, Name, Size, Wei, documented
from eigentensor.wire import Json, word

OfferJson = Annotated[dict[str, Any], Json(Offer)]
DealJson = Annotated[dict[str, Any], Json(Deal)]
LineJson = Annotated[dict[str, Any], Json(Line)]
BatchState = Annotated[str, word("begun", "committed", "final", "failed", "lapsed", "convicted")]
ChannelState = Annotated[str, word("open", "left", "concluded", "ended")]


@documented
class Pool(TypedDict):
    """An operator's offer on chain, which its channels share."""

    pool: Name
    """The hash of the offer."""
    operator: Address
    """Whose it is."""
    offered: Block
    """When it was offered."""
    begun: Size
    """The number of its newest batch; 0 before the first."""
    is_over: bool
    """Whether a batch was convicted before its commit: no more are begun."""
    channels: Size
    """How many channels are open."""
    offer: OfferJson
    """The terms."""


@documented
class Pools(TypedDict):
    """`eigentensor.pools/1`: a page of pools, newest first."""

    schema: Literal["eigentensor.pools/1"]
    """Says what this object is."""
    block: Block
    """As of which block."""
    pools: list[Pool]
    """The pools."""
    next: str | None
    """The cursor of the next page; null at the end."""


@documented
class Channel(TypedDict):
    """`eigentensor.channel/1`: a channel, as its newest committed batch leaves it."""

    schema: Literal["eigentensor.channel/1"]
    """Says what this object is."""
    block: Block
    """As of which block."""
    channel: Name
    """The hash of the deal."""
    state: ChannelState
    """Where it stands; left: its last batch is fixed."""
    operator: Address
    """Who executes its calls."""
    opened: Block
    """When it was opened."""
    deposit: Wei
    """Wei that are left for later batches."""
    paid: Wei
    """Wei that its calls in batches came to."""
    count: Size
    """How many calls stand in batches."""
    last: Size | None
    """The number of the last batch that it may stand in; null before it was left."""
    deal: DealJson
    """The terms."""


@documented
class BatchWindows(TypedDict):
    """Last blocks of what may happen to a batch; null: it is not known yet, or never comes."""

    commit_by: Block
    """Of the commit."""
    record_by: Block | None
    """Of the record of its seed."""
    check_by: Block | None
    """Of answers."""
    reveal_by: Block | None
    """Of the roots of the shares."""
    answers_by: Block | None
    """Of the openings of answers."""
    dispute_by: Block | None
    """Of disputes about calls."""
    close_from: Block | None
    """The first block that closes it, if nothing else happens; null: a game or a demand is open, or it is over."""
    lock_end: Block
    """Of a slash."""


@documented
class BatchDraw(TypedDict):
    """Which calls are checked: a block after the commit decides."""

    seed_block: Block | None
    """The block that decides; null before the commit."""
    known: bool
    """Whether it has decided."""
    shares: Size
    """Into how many shares the checked calls are divided."""
    checked: Size
    """How many calls are checked."""


@documented
class ShareAnswer(TypedDict):
    """A verifier's answer for a share."""

    index: Size
    """16 times the share, and the verifier's place among its candidates."""
    operator: Address
    """Who gave it."""
    block: Block
    """When."""
    agrees: bool | None
    """Whether it has the root that the operator revealed; null: it is not opened."""
    settled: Wei | None
    """Wei that it got in the end; null before."""


@documented
class ShareDemanded(TypedDict):
    """A share that is to be justified, since a verifier has another root."""

    share: Size
    """Which one."""
    by: Block
    """The last block for it."""
    justified: Block | None
    """When it was; null: it is not."""


@documented
class CallDemanded(TypedDict):
    """A call that somebody wants to see."""

    number: Size
    """Which call of the batch."""
    by: Address
    """Who wants it."""
    leaves: Size
    """How many leaves of its inputs are wanted, too."""
    show_by: Block
    """The last block for it."""


@documented
class CallChallenge(TypedDict):
    """A game about a call of the batch."""

    game: Size
    """Its number among the games about calls."""
    task: Name | None
    """The hash of the call's order."""
    challenger: Address
    """Who says that the result is wrong."""
    state: Annotated[str, word("open", "ended")]
    """Whether it is being played."""
    executor_lost: bool | None
    """Who lost it; null: nobody yet."""


@documented
class BatchConvicted(TypedDict):
    """Why a batch is convicted."""

    breach: Annotated[str, word("verdict", "demand", "contradiction", "omission", "outside")]
    """What its operator did."""
    winner: Address
    """Who is rewarded."""
    block: Block
    """When."""
    slashed: Block | None
    """When its stake was slashed; null: it is not."""


@documented
class BatchEvent(TypedDict):
    """Something that happened to a batch or to a game about its calls."""

    event: str
    """Its name: Begun, Lined, Committed, Answered, Closed, …"""
    block: Block
    """The number of its block."""
    transaction: Hash
    """The hash of its transaction."""
    arguments: dict[str, Any]
    """The members of its event in IChannels.sol or IDisputeGame.sol: numbers are decimal strings, bytes hex."""


@documented
class Batch(TypedDict):
    """`eigentensor.batch/1`: a batch of paid calls. A page of them leaves out lines, events and the offer."""

    schema: Literal["eigentensor.batch/1"]
    """Says what this object is."""
    block: Block
    """As of which block."""
    batch: Name
    """Its name: the hash of pool and number."""
    pool: Name
    """Its pool."""
    number: Size
    """Counts the batches of the pool from 1."""
    operator: Address
    """Who executes its calls."""
    state: BatchState
    """Where it stands."""
    begun: Block
    """When it was begun."""
    committed: Block | None
    """When it was committed; null before."""
    root: Hash | None
    """Of the tree over its lines; null before the commit."""
    calls: Size
    """How many calls it has."""
    amount: Wei
    """Wei that they cost."""
    channels: Size
    """How many channels stand in it."""
    draw: BatchDraw
    """What decides which calls are checked."""
    windows: BatchWindows
    """Last blocks."""
    answers: list[ShareAnswer]
    """Those of verifiers, by index."""
    share_demands: list[ShareDemanded]
    """Shares that are to be justified, or were."""
    demands: list[CallDemanded]
    """Calls that are still to be shown."""
    games: list[CallChallenge]
    """All games about its calls."""
    convicted: BatchConvicted | None
    """Why, if it is."""
    returned: Wei
    """Wei that clients get back."""
    offer: NotRequired[OfferJson]
    """The terms of its pool."""
    lines: NotRequired[list[LineJson]]
    """The channels in it, in their order."""
    events: NotRequired[list[BatchEvent]]
    """Everything that happened to it, in order."""


@documented
class Batches(TypedDict):
    """`eigentensor.batches/1`: a page of batches, newest first."""

    schema: Literal["eigentensor.batches/1"]
    """Says what this object is."""
    block: Block
    """As of which block."""
    batches: list[Batch]
    """The batches."""
    next: str | None
    """The cursor of the next page; null at the end."""
