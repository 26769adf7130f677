"""Receipts as files: who vouches for what stands in client/docs/pages/guides/receipts.md."""

from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from eigentensor.schemas.network import Token
from eigentensor.task.objects import OrderJson
from eigentensor.texts import Address, Block, Count, Data, Hash, Name, Wei, documented


@documented
class ReceiptMarket(TypedDict):
    """Where the task lived."""

    address: Address
    """The contract TaskMarket."""
    chain_id: int
    """The chain, as EIP-155 counts."""
    token: Token
    """What its amounts are of."""
    parameters: dict[str, Count]
    """The market's constants, as decimal strings."""


@documented
class Head(TypedDict):
    """A block."""

    block: Block
    """Its number."""
    hash: Hash
    """Its hash."""


@documented
class ReceiptEvent(TypedDict):
    """An event of the task."""

    event: str
    """Its name."""
    block: Block
    """The number of its block."""
    block_hash: Hash
    """The hash of its block."""
    transaction: Hash
    """The hash of its transaction."""
    log: int
    """Its place in the block."""
    data: dict[str, Any]
    """Its members in ITaskMarket.sol: numbers are decimal strings, bytes hex."""
    proof: dict[str, Data] | None
    """What proves it; null where that is its transaction, or the chain alone."""


#: A transaction as it was signed, in a form for members with such names: `from` is a word of Python's.
ReceiptTransaction = TypedDict(
    "ReceiptTransaction",
    {
        "hash": Annotated[Hash, Field(description="By it events name it.")],
        "from": Annotated[Address, Field(description="Who signed it.")],
        "to": Annotated[Address | None, Field(description="The contract that it was sent to.")],
        "raw": Annotated[Data, Field(description="Its bytes.")],
    },
)


@documented
class ReceiptResult(TypedDict):
    """The roots of what was computed."""

    outputs_root: Hash | None
    """The root that the executor revealed."""
    outputs: Hash | None
    """The bindings root of the outputs; null if the gateway did not know it."""
    states: Hash | None
    """The bindings root of the new states; null if the gateway did not know it."""


@documented
class ReceiptExecutor(TypedDict):
    """Who executed the task."""

    operator: Address
    """The operator that accepted it."""
    signer: Address | None
    """Who signed its commit; null where the transaction is not in the receipt."""
    commitment: Hash
    """What it committed to."""


@documented
class ReceiptMoney(TypedDict):
    """Amounts in wei."""

    price: Wei
    """What the acceptance fixed."""
    escrow: Wei
    """What could be spent at most."""
    collateral: Wei
    """What the executor put down."""
    stake: Wei
    """What a conviction takes of its stake."""
    paid: Wei | None
    """What the executor got; null before the end."""
    refund: Wei | None
    """What the client got back; null before the end."""


@documented
class ReceiptAnswer(TypedDict):
    """A drawn verifier's answer."""

    index: int
    """Counts the drawn verifiers."""
    verifier: Address
    """Who answered."""
    seat: int | None
    """The drawn place in the list of seats."""
    commitment: Hash
    """What it committed to."""
    outputs_root: Hash | None
    """What it revealed."""
    agrees: bool | None
    """Whether that is the executor's result."""
    exposed: bool
    """Whether somebody else showed it before its time."""


@documented
class ReceiptChecks(TypedDict):
    """Whether the task was checked, and by whom."""

    seats: int
    """How many seats there were at the commit."""
    seed_block: Block
    """The block that decided."""
    seed: Hash | None
    """Its random value."""
    drawn: bool | None
    """Whether it was drawn."""
    answers: list[ReceiptAnswer]
    """Verifier by verifier."""


@documented
class ReceiptGame(TypedDict):
    """A game about the result."""

    game: int
    """Its number."""
    challenger: Address
    """Who said that the result is wrong."""
    bond: Wei
    """Wei that it put down."""
    lost_by: str | None
    """executor or challenger; null while it is open."""
    reason: str | None
    """How it ended."""


@documented
class Window(TypedDict):
    """Blocks in which something could be done."""

    first: Block
    """The first one."""
    last: Block
    """The last one."""


@documented
class Receipt(TypedDict):
    """`eigentensor.receipt/1`: what became of a task, and what proves it; `eigentensor receipt check` verifies it. The
    bytes have one form (ASCII, sorted keys, no spaces): keep them as they came."""

    schema: Literal["eigentensor.receipt/1"]
    """Says what this object is."""
    software: str
    """What wrote it."""
    task: Name
    """The task's uuid."""
    market: ReceiptMarket
    """Where the task lived."""
    order: OrderJson
    """What the client signed."""
    head: Head
    """The block that the receipt is of."""
    events: list[ReceiptEvent]
    """What happened, in order."""
    transactions: list[ReceiptTransaction]
    """The signed transactions that prove events, in their order."""
    result: ReceiptResult
    """What was computed."""
    executor: ReceiptExecutor
    """Who computed it."""
    state: str
    """How the task stood, in words: `final, checked(1)`."""
    money: ReceiptMoney
    """What was paid, and what was at stake."""
    checks: ReceiptChecks
    """Who checked it."""
    games: list[ReceiptGame]
    """Who disputed it."""
    windows: dict[str, Window | None]
    """When what could be done; null for what has not begun."""
    digest: Name
    """sha256 over the rest: finds damage, no forgery."""
