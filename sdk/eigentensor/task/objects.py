"""Tasks: how they stand, what happened to them, why they are where they are."""

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from eigentensor.task.order import Order
from eigentensor.texts import Address, Block, Count, Data, Hash, Name, Size, Wei, documented
from eigentensor.wire import Json, word

_STATES = (
    "asked", "open", "accepted", "committed", "revealed", "final", "convicted", "cancelled", "expired", "failed",
    "void", "local", "signed",
)  # fmt: skip
TaskState = Annotated[str, word(*_STATES)]
OrderJson = Annotated[dict[str, Any], Json(Order)]


@documented
class Place(TypedDict):
    """Where in the chain something happened."""

    block: Block
    """The number of its block."""
    transaction: Hash
    """The hash of its transaction."""


@documented
class Leaf(TypedDict):
    """A part of a result that a client demanded to see."""

    state: bool
    """Whether it is of the new states rather than of the outputs."""
    tensor: Count
    """Counts the tensors by name."""
    index: Count
    """The leaf in its tensor."""


@documented
class TaskEvent(TypedDict):
    """Something that happened to a task. Beside its name and place it has the members of its event in ITaskMarket.sol:
    amounts are wei and numbers decimal strings, bytes hex."""

    event: str
    """Its name: Posted, Accepted, Committed, Answered, Revealed, Closed, …"""
    block: Block
    """The number of its block."""
    transaction: Hash
    """The hash of its transaction."""
    client: NotRequired[Address]
    """Who posted it."""
    executor: NotRequired[Address]
    """Who accepted it."""
    operator: NotRequired[Address]
    """Who answered, or whose stake it is."""
    challenger: NotRequired[Address]
    """Who challenged the result."""
    caller: NotRequired[Address]
    """Who sent the message, and may be rewarded for it."""
    account: NotRequired[Address]
    """Who was paid."""
    winner: NotRequired[Address]
    """Who is rewarded for the conviction."""
    beneficiaries: NotRequired[list[Address]]
    """Who shares what was slashed."""
    price: NotRequired[Wei]
    """Wei for the executor."""
    collateral: NotRequired[Wei]
    """Wei that the executor put down."""
    amount: NotRequired[Wei]
    """Wei that moved."""
    bond: NotRequired[Wei]
    """Wei that the challenger put down."""
    paid: NotRequired[Wei]
    """Wei that the executor got."""
    refund: NotRequired[Wei]
    """Wei of the escrow that came back."""
    penalty: NotRequired[Wei]
    """Wei of the collateral that an executor without a result lost."""
    share: NotRequired[Wei]
    """Wei for each beneficiary."""
    burned: NotRequired[Wei]
    """Wei that nobody got."""
    shares: NotRequired[Count]
    """Shares of the market's strategy, locked or slashed."""
    end: NotRequired[Count]
    """The block until which stake is locked."""
    slash_id: NotRequired[Count]
    """The number of the slash in EigenLayer."""
    commitment: NotRequired[Hash]
    """The hash of a result and a salt."""
    outputs_root: NotRequired[Hash]
    """The root of the revealed result."""
    slot: NotRequired[Count]
    """0 is the executor, verifiers follow."""
    index: NotRequired[Count]
    """Counts the drawn verifiers."""
    number: NotRequired[Count]
    """Counts the demanded leaves."""
    leaves: NotRequired[list[Leaf]]
    """What was demanded."""
    by: NotRequired[Count]
    """The last block for showing it."""
    data: NotRequired[Data]
    """What was shown."""
    cause: NotRequired[str]
    """Why the executor was convicted: verdict, silence or demand."""
    game_id: NotRequired[Count]
    """The number of the game."""
    executor_lost: NotRequired[bool]
    """Who lost the game."""
    position: NotRequired[dict[str, Any]]
    """The position of the game, by the names of IDisputeGame.sol."""
    reason: NotRequired[str]
    """Why the game ended."""


@documented
class Event(TaskEvent):
    """`eigentensor.event/1`: one line of `task logs --json`."""

    schema: Literal["eigentensor.event/1"]
    """Says what this object is."""
    task: Name
    """The task's uuid."""


@documented
class Draw(TypedDict):
    """Whether a task is re-executed by others: a block after the commit decides."""

    seed_block: Block | None
    """The block that decides; null before the commit."""
    known: bool
    """Whether it has decided."""
    drawn: bool | None
    """Whether the task is checked; null until it is known."""


@documented
class Verifiers(TypedDict):
    """How many verifiers did what."""

    asked: int
    """So many are paid for an answer that agrees; more may answer."""
    answered: int
    """They committed to a result."""
    agreed: int
    """They revealed the executor's."""
    differed: int
    """They revealed another one."""


@documented
class Answer(TypedDict):
    """A drawn verifier's answer."""

    index: int
    """Counts the drawn verifiers."""
    operator: Address
    """Who answered."""
    block: Block
    """When it committed to a result."""
    revealed: bool
    """Whether it opened its commitment."""
    agrees: bool | None
    """Whether its result is the executor's; null until both are revealed."""
    exposed: bool
    """Whether somebody else showed what it had committed to before its time."""
    settled: Wei | None
    """Wei that came back to it, bond and fee; null before the end."""


@documented
class Slash(TypedDict):
    """What EigenLayer took of a stake."""

    slash_id: int
    """Its number there."""
    shares: Count
    """Shares of the market's strategy."""


@documented
class Conviction(TypedDict):
    """Why an executor was convicted, and what became of its stake."""

    cause: str
    """verdict: it lost a game; silence: it was drawn and did not reveal; demand: it did not show what was demanded."""
    winner: Address
    """Who is rewarded."""
    refund: Wei
    """Wei of the escrow that went back to the client."""
    block: Block
    """When it was convicted."""
    slash: Slash | None
    """Null until its stake is slashed."""
    paid: Wei | None
    """Wei that each beneficiary of the slash got; null before."""


@documented
class Task(TypedDict):
    """`eigentensor.task/1`: a task as it stands. Amounts are wei as decimal strings, times are blocks.

    A task that a service with `--local` executes itself has neither order nor money: those members are null. Of a paid
    call (`serve --channels`) what its receipt does not have is null.
    """

    schema: Literal["eigentensor.task/1"]
    """Says what this object is."""
    task: Name
    """The task's uuid: 64 hex digits, the hash of its order."""
    state: TaskState
    """Where it stands. `asked`: in no block yet; `void`: it never came into one; `local`: executed by the service;
    `signed`: a paid call, which no batch has committed yet."""
    stage: str
    """The same in one word of the glossary: open, accepted, committed, result, checked(k) or unchecked, final, …"""
    checked: str | None
    """`checked(k)`: k verifiers agree; `unchecked`: nobody re-executed it; null: not known (yet)."""
    waits_for: str | None
    """What it waits for, in words; null at the end."""
    deadline: Block | None
    """The last block of what it waits for."""
    block: Block | None
    """The block as of which this is told."""
    client: Address | None
    """Who pays."""
    executor: Address | None
    """The operator that accepted it."""
    price: Wei | None
    """Wei for the executor, as the acceptance fixed it."""
    collateral: Wei | None
    """Wei that the executor put down."""
    stake: Wei | None
    """What a conviction takes of the executor's stake, in wei."""
    penalty: Wei | None
    """Wei that the executor lost because it gave no result."""
    outputs_root: Name | None
    """The root of the revealed result."""
    posted: Place | None
    """Where the order came into the chain."""
    draw: Draw | None
    """Whether it is checked."""
    verifiers: Verifiers | None
    """What those who check it said."""
    games: list[int]
    """The numbers of all games about its result, ascending."""
    order: OrderJson | None
    """What the client signed."""
    events: NotRequired[list[TaskEvent]]
    """What happened to it, in order; left out in lists."""
    answers: NotRequired[list[Answer]]
    """Verifier by verifier; left out where a service executes the task itself."""
    convicted: NotRequired[Conviction | None]
    """Why the executor was convicted, if it was; left out where a service executes the task itself."""
    earlier: NotRequired[list[Name]]
    """Tasks for the same work that ended without a result before this one was posted, in order; left out where there
    are none, told by `eigentensor serve`."""


@documented
class Tasks(TypedDict):
    """`eigentensor.tasks/1`: tasks, newest first."""

    schema: Literal["eigentensor.tasks/1"]
    """Says what this object is."""
    tasks: list[Task]
    """The tasks of this page."""
    block: NotRequired[Block]
    """The block as of which this is told; told by the gateway."""
    next: NotRequired[str | int | None]
    """The `cursor` of the next page, null at the end. The command lists all and leaves it out."""


@documented
class Opinion(TypedDict):
    """What an operator said about a task that waits for an acceptance."""

    operator: Address
    """Who said it."""
    reason: str
    """`accepted`, `silent`, or a word for why not: price, exec, busy, stake, memory, …"""
    needed: str | None
    """What it would need, in its own words."""
    offered: str | None
    """What it was offered instead."""
    block: Block | None
    """When it said so."""
    helps: NotRequired[str | None]
    """What would help, in words; told by the command."""


@documented
class Offer(TypedDict):
    """What is offered for a task."""

    now: Wei | None
    """Wei in the next block."""
    maximum: Wei | None
    """Wei at most."""


@documented
class Explanation(TypedDict):
    """`eigentensor.explanation/1`: why a task is where it is."""

    schema: Literal["eigentensor.explanation/1"]
    """Says what this object is."""
    task: Name
    """The task's uuid."""
    state: TaskState
    """Where it stands."""
    waits_for: str | None
    """What it waits for, in words."""
    deadline: Block | None
    """The last block of what it waits for."""
    block: Block | None
    """The block as of which this is told."""
    price: Offer
    """What is offered."""
    operators: list[Opinion]
    """Operator by operator what it said."""
    helps: NotRequired[list[str]]
    """What would help with most operators first, in words; told by the command."""
    payable_from: NotRequired[Block]
    """The first block in which those who found the executor wrong can be paid of its stake; absent where nothing is
    slashed, or it is paid. Told by the command and `eigentensor serve`."""
    now: NotRequired[Task]
    """The task as it stands; told by the command and `eigentensor serve`."""


@documented
class Posted(TypedDict):
    """`eigentensor.posted/1`: the task that an order has become."""

    schema: Literal["eigentensor.posted/1"]
    """Says what this object is."""
    task: Name
    """The task's uuid."""
    transaction: Hash | None
    """The transaction that posted it; null if it was there already."""


@documented
class Declined(TypedDict):
    """`eigentensor.decline/1`: what an operator said is kept."""

    schema: Literal["eigentensor.decline/1"]
    """Says what this object is."""


@documented
class Tensor(TypedDict):
    """A tensor of a result."""

    dtype: str
    """float32, int32, bool, …"""
    shape: list[Size]
    """Its extents, outermost first."""
    data: NotRequired[str]
    """Its elements in row-major order, little-endian, as base64. The command writes a file instead."""
    values: NotRequired[Any]
    """Its elements as nested lists of numbers or booleans, instead of `data`, where the request had such lists: `NaN`,
    `Infinity` and `-Infinity` are words, bfloat16 is its patterns."""
    first: NotRequired[list[Any]]
    """Its first elements in row-major order, at most six, where the command wrote the file: numbers, booleans, or
    `NaN`, `Infinity` and `-Infinity` as words; of bfloat16 its patterns."""


@documented
class Files(TypedDict):
    """Where the command wrote what came of a task."""

    outputs: str | None
    """The safetensors file of the outputs; null where none could be written that was not asked for."""
    states: str | None
    """That of the new states; null unless it was asked for."""
    receipt: str | None
    """The task's receipt; null unless it was asked for."""


@documented
class Result(TypedDict):
    """`eigentensor.result/1`: verified outputs, and the task that they are of."""

    schema: Literal["eigentensor.result/1"]
    """Says what this object is."""
    task: Task
    """The task as it stands."""
    outputs_root: Name | None
    """The root of outputs and new states, which the executor revealed."""
    states_root: Name
    """The bindings root of the new states, from which another task can go on; zeros where there are none."""
    outputs: dict[str, Tensor]
    """The outputs by their names in the program."""
    saved: NotRequired[Wei | None]
    """Wei of the highest price that was offered which the price leaves the client; told by the command."""
    earlier: NotRequired[list[Name]]
    """Tasks for the same work that ended without a result before it was posted again; told by the command, and by
    `eigentensor serve` where there are some."""
    tensor: NotRequired[Tensor]
    """The only output, where there is one and it is named `output`."""
    files: NotRequired[Files]
    """What the command wrote."""
