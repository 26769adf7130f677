"""A market, its operators, and the blobs at its gateway."""

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from eigentensor.economics.pricing import Ask
from eigentensor.texts import Address, Block, Count, Name, Size, Wei, documented
from eigentensor.wire import Json


@documented
class Token(TypedDict):
    """What is paid with (ERC-20)."""

    address: Address
    """Its contract."""
    symbol: str
    """What people call it."""
    decimals: int
    """10 to this power of wei are a whole one."""


@documented
class Core(TypedDict):
    """EigenLayer's contracts."""

    allocationManager: Address
    """Stake and its slashing."""
    delegationManager: Address
    """Who is an operator."""
    strategyManager: Address
    """Shares of deposits."""
    strategy: Address
    """What the market's stake is of."""
    strategyFactory: NotRequired[Address]
    """Where the strategy was made."""


@documented
class Delays(TypedDict):
    """EigenLayer's delays, in blocks."""

    deallocation: int
    """Until freed stake cannot be slashed any more."""
    withdrawal: int
    """Until stake can leave."""
    slashResolution: int
    """Until a slash can be paid out."""


@documented
class Deployment(TypedDict):
    """Where the contracts of a market are, by the names of their deployment's file."""

    network: NotRequired[str]
    """Its name."""
    chainId: int
    """The chain, as EIP-155 counts."""
    block: Block
    """The block of the deployment: no event is older."""
    taskMarket: Address
    """Orders, acceptances, results, money."""
    disputeGame: Address
    """Games about results."""
    channels: Address
    """Paid calls: deposits, batches, their money."""
    channelsGame: Address
    """Games about paid calls."""
    referee: Address
    """Computes a disputed step."""
    bounty: Address
    """Pays for messages that others should have sent."""
    serviceManager: Address
    """The market's face to EigenLayer."""
    core: Core
    """EigenLayer's contracts."""
    token: Token
    """What is paid with."""
    burn: Address
    """Where burned tokens go."""
    parameters: dict[str, int | str]
    """The market's constants, by the names of Parameters.sol: blocks, wei, WAD."""
    delays: NotRequired[Delays]
    """EigenLayer's delays."""


@documented
class Network(TypedDict):
    """`eigentensor.network/1`: a market, and how to reach it."""

    schema: Literal["eigentensor.network/1"]
    """Says what this object is."""
    name: str
    """What people call it."""
    rpc_url: str | None
    """A node of its chain; null if the gateway knows no public one."""
    deployment: Deployment
    """Its contracts."""
    block: Block | None
    """The block that the one who tells this is at; null where the chain does not answer."""
    gateway_url: NotRequired[str]
    """Its gateway; told by the command."""
    operators: NotRequired[int | None]
    """How many members it has, null where the gateway does not answer; told by the command."""
    chosen_by: NotRequired[str]
    """What made the command choose it; told by the command."""
    file: NotRequired[str]
    """The file that describes it; told by the command."""
    key: NotRequired[str]
    """Where the command's key comes from; told by the command."""


@documented
class Lately(TypedDict):
    """What the chain says of the tasks that an operator accepted last: 16 at most, whatever those were."""

    tasks: int
    """How many they are."""
    lowest_price: Wei
    """Wei for the cheapest one."""
    median_price: Wei
    """Wei for the one in the middle."""
    highest_price: Wei
    """Wei for the dearest one."""
    median_blocks: int | None
    """Blocks from an acceptance to its commitment, in the middle; null if it committed to none."""


@documented
class Operator(TypedDict):
    """An operator that joined a market at some time."""

    operator: Address
    """Its account in EigenLayer."""
    member: bool
    """Whether it is in the market's operator set now."""
    signer: Address | None
    """The hot key that signs for it."""
    collateral_cap: Wei
    """Wei of collateral and bonds that its signer may have put down at a time, for all tasks together."""
    stake_cap: Wei
    """Wei of stake that its signer may have locked at a time, for all tasks together."""
    seats: Count
    """How often it stands in the list that verifiers are drawn from."""
    stake: Wei | None
    """Its slashable stake in wei; null where the node did not answer."""
    locked_shares: Count | None
    """Shares that its tasks lock; null where the node did not answer."""
    tasks: dict[str, int]
    """How many of the tasks that it accepted are in which state."""
    lately: Lately | None
    """For which prices it worked lately, and how fast; null if it never accepted a task."""
    asks: NotRequired[Annotated[dict[str, Any], Json(Ask)] | None]
    """What it reckons with when it makes a price; null if it has not said so for a minute. Older gateways leave it
    out."""


@documented
class Operators(TypedDict):
    """`eigentensor.operators/1`: every operator that ever joined a market."""

    schema: Literal["eigentensor.operators/1"]
    """Says what this object is."""
    operators: list[Operator]
    """By their addresses."""


@documented
class Asked(TypedDict):
    """`eigentensor.asked/1`: what an operator reckons with is kept."""

    schema: Literal["eigentensor.asked/1"]
    """Says what this object is."""


@documented
class Blob(TypedDict):
    """`eigentensor.blob/1`: all names of some bytes."""

    schema: Literal["eigentensor.blob/1"]
    """Says what this object is."""
    blob: Name
    """The blob root, of any bytes."""
    size: Size
    """How many bytes it has."""
    kind: Literal["program", "tensors", "variables", "results", "other"]
    """What the bytes are."""
    computed: Name | None
    """The root of what they say (program root, bindings root, …), by which orders name them; null for other bytes."""
    pieces: NotRequired[list[Name]]
    """The tree roots of its pieces of 1 MiB, which fold to the blob root; told by the gateway."""
    file: NotRequired[str]
    """Where the command wrote it."""


@documented
class Upload(TypedDict):
    """`eigentensor.upload/1`: how far an upload is."""

    schema: Literal["eigentensor.upload/1"]
    """Says what this object is."""
    received: Size
    """Bytes that are verified and kept: the next one to send."""
    complete: bool
    """Whether the blob can be read."""


@documented
class GatewayHealth(TypedDict):
    """Whether a gateway can do its work."""

    status: Literal["ok", "stale", "away"]
    """With 503: `stale` if the chain is silent, `away` if the database or the folder of blobs does not answer."""
    block: Block
    """The block that it is at."""
    leads: bool
    """Whether it takes what is sent; else another process on its database does, and this one stands by."""
