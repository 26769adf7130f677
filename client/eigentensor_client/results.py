"""What the client tells: plans before money is spent, results after."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from eigentensor.errors import EigenTensorError, NotYet
from eigentensor.task.order import NONE
from eigentensor.wire import BOOLEAN, DECIMAL, INTEGER, OPTIONAL, Name, Object, Size, Wei, or_null
from eigentensor_client.notebook import download, facts, tokens

if TYPE_CHECKING:
    from eigentensor.receipt import Receipt
    from eigentensor_client.files import Tensors
    from eigentensor_client.task_view import TaskView

#: What is null where a service executes a task itself: wei and rates, numbers.
Paid = Annotated[int, or_null(DECIMAL)]
Number = Annotated[int, or_null(INTEGER)]


@dataclass(frozen=True, slots=True)
class Plan(Object, schema="eigentensor.plan/1"):
    """`eigentensor.plan/1`: what a task would cost, before anything is sent. Amounts are wei and rates WAD (10¹⁸ is 1),
    both as decimal strings; times are blocks, sizes bytes. Where a service executes itself (`local`), what is about
    money is null; where it calls an operator, all but what the call costs."""

    program: Name
    """The program root."""
    calls: int
    """Kernel calls in all repetitions."""
    evaluations: int
    """Evaluated operations in all repetitions: the work."""
    upload: Size
    """Bytes of the program and all that is bound to it."""
    memory: Size
    """Bytes that an execution takes."""
    results: Size
    """Bytes of outputs and new states."""
    repeat: int
    """How many times the program is executed."""
    products: str | None
    """How weights of eight bits are multiplied: `integers`, as they are, `floats`, as what they stand for, or `integers
    and floats`; null without such weights."""
    game: int
    """Operations that a player of a game about the result evaluates at most, beside executing it again."""
    witness: Size
    """Bytes of the longest step that the referee may have to see."""
    referee_gas: int
    """The gas of the dearest step that it may have to compute."""
    min_price: Paid
    """Wei offered at first."""
    max_price: Paid
    """Wei offered at most."""
    hold: Number
    """Blocks in which the price stays what it is at first."""
    ramp: Number
    """Blocks in which it rises then."""
    quotes: Number
    """How many operators publish what they reckon with, and would take it by that."""
    lowest_asked: Wei | None
    """The lowest price in wei that one of them would ask for it; null if there is none."""
    median_asked: Wei | None
    """The one in the middle."""
    check_rate: Paid
    """How probably others re-execute it."""
    verifiers: Number
    """How many re-execute a task that is drawn."""
    check_fee: Paid
    """Wei for each of them, paid only then."""
    value_at_risk: Paid
    """Wei that a wrong result could gain its executor beyond the price."""
    escrow: Paid
    """Wei that can be spent at most: held until the end."""
    detection: Paid
    """How probably somebody else than the executor re-executes it."""
    stake: Paid
    """What a conviction takes of the executor's stake, in wei."""
    collateral: Paid
    """Wei that the executor puts down."""
    penalty: Paid
    """Wei that it loses if it gives no result."""
    exec: Number
    """Blocks that the executor has for its commit."""
    accept_within: Number
    """Blocks in which it can be accepted."""
    result_within: Number
    """Blocks from the acceptance to the result, at most."""
    final_after: Number
    """Blocks from the result to the end."""
    balance: Paid
    """Wei of the payer in the market."""
    tokens: Paid
    """Wei of the payer's tokens in its wallet."""
    operators: int | None
    """Members that could accept it; null if the gateway does not answer."""
    lowest_paid: Wei | None
    """The lowest price in wei for which they accepted tasks lately, whatever those were; null if there is none."""
    highest_paid: Wei | None
    """The highest one."""
    affordable: Annotated[bool, or_null(BOOLEAN)]
    """Whether the payer has the escrow."""
    local: Annotated[Literal[True] | None, OPTIONAL] = None
    """A service executes it itself: nothing is paid, nobody checks."""

    def __repr__(self) -> str:
        price = "executed here" if self.local else f"at most {self.escrow} wei"
        return f"<Plan of program {self.program[:10]}: {self.evaluations:,} evaluations, {price}>"

    def _repr_html_(self) -> str:
        asked = f"{tokens(self.lowest_asked)} at least, by {self.quotes}" if self.lowest_asked is not None else ""
        rows = [
            ("work", f"{self.evaluations:,} evaluations in {self.calls:,} calls"),
            ("bytes", f"{self.upload:,} up, {self.results:,} down"),
            ("asked", asked),
            ("all that it can cost", "nothing: executed here" if self.local else tokens(self.escrow)),
            ("at stake", tokens(self.stake)),
        ]
        return facts(f"plan of program {self.program[:10]}", rows)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """A result whose bytes have the outputs root that the executor revealed on chain.

    `states_root` names the new states; `states` has them unless they were left where they are, as sessions do.
    `receipt_now` makes the task's receipt, for `receipt`; `earlier` are tasks for the same work that ended without a
    result, by their uuids.
    """

    task: "TaskView"
    outputs_root: bytes
    outputs: "Tensors"
    states: "Tensors" = field(default_factory=dict)
    states_root: bytes = NONE
    receipt_now: "Callable[[], Receipt] | None" = field(default=None, compare=False)
    earlier: tuple[str, ...] = ()

    def __repr__(self) -> str:
        some = [f"{name} {array.dtype} {array.shape}" for name, array in list(self.outputs.items())[:2]]
        more = ", …" if len(self.outputs) > len(some) else ""
        return f"<TaskResult {self.uuid[:10]}: {self.task.words}; {', '.join(some)}{more}>"

    def _repr_html_(self) -> str:
        outputs = [(name, f"{array.dtype} {array.shape}") for name, array in self.outputs.items()]
        try:
            link = download(f"{self.uuid[:10]}.receipt", self.receipt.to_bytes())
        except EigenTensorError:  # what stands on chain cannot be read now
            link = ""
        return facts(f"result of task {self.uuid[:10]}", [*self.task.rows(), *outputs], link)

    @property
    def receipt(self) -> "Receipt":
        """The task's receipt as it stands when it is asked for; read from the chain each time."""
        if self.receipt_now is None:
            raise NotYet(f"the result of task {self.uuid} was not fetched by a client: it has no receipt")
        return self.receipt_now()

    @property
    def uuid(self) -> str:
        """The task's name: 64 hex digits."""
        return self.task.uuid

    @property
    def executor(self) -> str | None:
        """The operator that executed it."""
        return self.task.executor

    @property
    def price(self) -> int | None:
        """Wei that it is paid at most."""
        return self.task.price

    @property
    def saved(self) -> int | None:
        """Wei of the highest price that this one leaves the client."""
        return self.task.saved
