"""Channels: what a client has with operators, what a look at one came to, receipts of single calls."""

from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from eigentensor.receipt.calls import CallStanding
from eigentensor.receipt.rules import Proved
from eigentensor.texts import Address, Block, Hash, Name, Size, Wei, documented
from eigentensor.wire import Json
from eigentensor_client.schemas.results import Executed


@documented
class ChannelLine(TypedDict):
    """A channel in a batch."""

    number: Size
    """Of the batch in its pool."""
    first: Size
    """The first call of the channel that stands in it."""
    count: Size
    """How many calls of the channel do."""
    amount: Wei
    """Wei that they cost."""
    block: Block
    """When it was committed."""
    state: str
    """Where the batch stands, in a word."""
    checked: Size
    """How many of these calls were confirmed by a verifier that was drawn for them."""


@documented
class ChannelFacts(TypedDict):
    """A channel, as far as its client has looked at it."""

    channel: Name
    """The hash of its deal."""
    url: str
    """Where the operator takes calls."""
    operator: Address
    """Executes them; its stake answers for them."""
    pool: Name
    """The hash of the offer."""
    stage: Literal["agreed", "open", "left", "ended"]
    """Where it stands; `agreed`: its opening may be under way."""
    deposit: Wei
    """Wei that are left on chain."""
    paid: Wei
    """Wei that its batches came to."""
    owed: Wei
    """Wei that are signed for, those of its batches included."""
    left: Wei
    """Wei that calls may still cost before the next commit."""
    calls: Size
    """Calls that have a response."""
    under_way: Size
    """Calls that were signed, and have none yet."""
    lines: list[ChannelLine]
    """Its batches, in order."""


@documented
class ChannelAccount(ChannelFacts):
    """`eigentensor.channel-account/1`: a channel, as its client knows it."""

    schema: Literal["eigentensor.channel-account/1"]
    """Says what this object is."""


@documented
class Channels(TypedDict):
    """`eigentensor.channels/1`: the channels of this user on a network."""

    schema: Literal["eigentensor.channels/1"]
    """Says what this object is."""
    channels: list[ChannelFacts]
    """Oldest first."""


@documented
class ChannelLook(TypedDict):
    """`eigentensor.channel-look/1`: something that the watch of a channel saw or did."""

    schema: Literal["eigentensor.channel-look/1"]
    """Says what this object is."""
    channel: Name
    """The hash of its deal."""
    number: Size
    """Of the batch in its pool."""
    state: str
    """Where the batch stands, in a word."""
    what: str
    """What was seen or done, in words."""


@documented
class CallReceiptFacts(TypedDict):
    """What a call receipt is about."""

    channel: Name
    """The hash of the deal."""
    index: Size
    """Which call of the channel, from zero."""
    order: Hash
    """The hash of the call's order."""
    outputs_root: Hash
    """What the call gave."""
    number: Size
    """Of the batch that owes it."""


@documented
class CallReceiptFile(CallReceiptFacts):
    """`eigentensor.call-receipt-file/1`: a call receipt that was written."""

    schema: Literal["eigentensor.call-receipt-file/1"]
    """Says what this object is."""
    state: str
    """How the call stands, as far as its batch was looked at."""
    file: str
    """Where it was written."""


@documented
class CallReceiptCheck(CallReceiptFacts):
    """`eigentensor.call-receipt-check/1`: what a call receipt proves, and what it leaves open."""

    schema: Literal["eigentensor.call-receipt-check/1"]
    """Says what this object is."""
    lines: list[Annotated[dict[str, Any], Json(Proved)]]
    """Everything that was checked."""
    leaves_open: list[str]
    """What does not follow, in sentences, and what would help."""
    now: Annotated[dict[str, Any], Json(CallStanding)] | None
    """How the call stands on the chain; null without `--chain`."""
    executed: Executed | None
    """What came of a second execution; null without `--deep`."""
