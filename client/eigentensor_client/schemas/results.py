"""Results: those of a session's steps, and results held to what was promised: receipts, challenges, what they bring."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from eigentensor.chain.transcript import Value
from eigentensor.receipt.rules import Proved
from eigentensor.task.objects import Files, Task, Tensor
from eigentensor.texts import Address, Block, Hash, Name, Size, Wei, documented
from eigentensor.wire import Json, Object


@documented
class ReceiptFacts(TypedDict):
    """What a receipt is about."""

    task: Name
    """The task's uuid."""
    state: str
    """How the task stood, in words."""
    block: Block
    """When that was."""
    executor: Address
    """Who executed it."""
    price: Wei
    """Wei for the executor."""
    outputs_root: Hash | None
    """The root of the revealed result; null where none was revealed."""


@documented
class ReceiptFile(ReceiptFacts):
    """`eigentensor.receipt-file/1`: a receipt that was written, and what it is about."""

    schema: Literal["eigentensor.receipt-file/1"]
    """Says what this object is."""
    file: str
    """Where it was written."""


@documented
class LookedAt(TypedDict):
    """Blocks, both ends included."""

    first: Block
    """The first one."""
    last: Block
    """The last one."""


@documented
class Now(TypedDict):
    """How a task stands on the chain."""

    block: Block
    """The block that was asked."""
    state: str
    """How it stands there, in words."""


@documented
class Executed(TypedDict):
    """What came of executing a task again."""

    agrees: bool
    """Whether the result is the revealed one."""
    outputs_root: Hash
    """The root of the result as this machine computes it."""


@documented
class ReceiptCheck(ReceiptFacts):
    """`eigentensor.receipt-check/1`: what a receipt proves, and what it leaves open."""

    schema: Literal["eigentensor.receipt-check/1"]
    """Says what this object is."""
    lines: list[Annotated[dict[str, Any], Json(Proved)]]
    """Everything that was checked."""
    proves: list[str]
    """What follows, in sentences."""
    leaves_open: list[str]
    """What does not follow, in sentences, and what would help."""
    looked_at: LookedAt | None
    """The blocks in which other events were looked for; null without `--chain`."""
    now: Now | None
    """How the task stands on the chain; null without `--chain`."""
    executed: Executed | None
    """What came of a second execution; null without `--deep`."""


@dataclass(frozen=True, slots=True)
class Difference(Object):
    """Where a result first differs from what this machine computes."""

    call: int | None
    """The number of the executed call that wrote the tensor; null for one that was given."""
    name: str
    """The tensor's name."""
    element: int
    """The element in row-major order."""
    index: tuple[Size, ...]
    """The same as a place in the tensor's shape."""
    claimed: Value
    """What the executor says."""
    computed: Value
    """What this machine computes."""
    elements: int
    """How many elements of all results differ."""

    @property
    def words(self) -> str:
        """The element, and both values with their bits, in words."""
        place = f"{self.name}[{', '.join(map(str, self.index))}]"
        by = "" if self.call is None else f", which executed call {self.call} wrote"
        values = (f"{value['value']} ({value['bits']})" for value in (self.claimed, self.computed))
        return "{}{}: {} is claimed, {} was computed here".format(place, by, *values)


@documented
class Challenging(TypedDict):
    """`eigentensor.challenging/1`: what happens before a game: amounts are wei."""

    schema: Literal["eigentensor.challenging/1"]
    """Says what this object is."""
    event: Literal["agrees", "differs", "opened"]
    """What happened."""
    task: Name
    """The task's uuid."""
    claimed: NotRequired[Name]
    """The outputs root that the executor revealed; told by `agrees` and `differs`."""
    computed: NotRequired[Name]
    """The one that this machine computes; told by `agrees` and `differs`."""
    difference: NotRequired[Annotated[dict[str, Any], Json(Difference)] | None]
    """The first difference; null where there is none, or where the executor's bytes are at no gateway."""
    bond: NotRequired[Wei]
    """Wei that a challenger puts down; told by `differs` and `opened`."""
    reward: NotRequired[Wei]
    """Wei that a conviction brings at once; told by `differs`."""
    share: NotRequired[Wei]
    """Wei of the slashed stake that come later, if no verifier shares them; told by `differs`."""
    gas_price: NotRequired[Wei]
    """Wei of the chain's coin for a unit of gas; told by `differs`."""
    until: NotRequired[Block]
    """The last block for a challenge; told by `differs`."""
    game: NotRequired[int]
    """The number of the game; told by `opened`."""


@documented
class Due(TypedDict):
    """Something that is due from a game."""

    message: Literal["timeout", "refund", "settle", "slash", "pay"]
    """The message that brings it."""
    task: Name
    """The task's uuid."""
    game: int
    """The number of the game."""
    brings: Wei
    """Wei that come."""
    what: str
    """What for, in words."""
    first: Block
    """The first block for the message."""
    last: Block | None
    """The last one; null: for ever."""


@documented
class Claimed(Due):
    """The same, and what became of it."""

    state: Literal["sent", "waits", "due"]
    """What became of it."""
    waits: str | None
    """What it waits for, in words."""
    block: Block | None
    """When it was sent."""
    transaction: Hash | None
    """With which transaction."""
    gas: int | None
    """The gas of that transaction."""


@documented
class Claim(TypedDict):
    """`eigentensor.claim/1`: what is due to an account from games."""

    schema: Literal["eigentensor.claim/1"]
    """Says what this object is."""
    account: Address
    """Whose it is."""
    claims: list[Claimed]
    """What is due, and what became of it."""
    balance: Wei
    """Wei that the account has in the market."""
    withdrawn: Wei
    """Wei that were taken out into the wallet just now."""


@documented
class StepResult(TypedDict):
    """`eigentensor.step/1`: a step's result, and beside it the members of `eigentensor.result/1`."""

    schema: Literal["eigentensor.step/1"]
    """Says what this object is."""
    step: int
    """Counts the steps from 0."""
    states: Name
    """The bindings root of the new states, with which the next step begins."""
    task: Task
    """The task as it stands."""
    outputs_root: Name | None
    """The root of outputs and new states, which the executor revealed."""
    states_root: Name
    """The same as `states`."""
    outputs: dict[str, Tensor]
    """The outputs by their names in the program."""
    saved: NotRequired[Wei | None]
    """Wei of the highest price that was offered which the price leaves the client."""
    earlier: NotRequired[list[Name]]
    """Tasks for the same work that ended without a result before it was posted again."""
    tensor: NotRequired[Tensor]
    """The only output, where there is one and it is named `output`."""
    files: NotRequired[Files]
    """What the command wrote."""


@documented
class StepStates(TypedDict):
    """`eigentensor.states/1`: states that were written to a file."""

    schema: Literal["eigentensor.states/1"]
    """Says what this object is."""
    step: int
    """The step that begins with them."""
    states: Name
    """Their bindings root."""
    file: str
    """The safetensors file that has them."""
