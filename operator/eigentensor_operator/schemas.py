"""The JSON objects that `eigentensor operator` prints, by the word in their member `schema`.

Importing them imports pydantic: those who make them import them where types are checked.
"""

from typing import Literal

from typing_extensions import TypedDict

from eigentensor.texts import Address, Block, Data, Name, Rate, Size, Wei, documented

Role = Literal["executor", "verifier"]


@documented
class RaisedAlarm(TypedDict):
    """Something that the operator's owner should look at."""

    alarm: str
    """Its name, which labels metrics too."""
    what: str
    """What is the matter, in words."""
    fix: str
    """What to do about it."""


@documented
class Dropped(TypedDict):
    """Why an operator does nothing more for a task."""

    code: str
    """The reason's name."""
    needed: str
    """What it would take."""
    offered: str
    """What there is."""
    lasting: bool
    """Whether waiting cannot change it."""


@documented
class OperatorTask(TypedDict):
    """A task in which the operator has a part."""

    task: Name
    """The task's uuid."""
    role: Role
    """Its part."""
    state: str
    """How the task stood when it was last seen."""
    bond: Wei
    """Wei that it put down."""
    games: list[int]
    """The open games that it plays, by number."""
    uploaded: bool
    """Whether the gateway has its result."""
    dropped: Dropped | None
    """Why it does nothing more; null while it does."""


@documented
class OperatorStatus(TypedDict):
    """`eigentensor.operator/1`: what an operator has in a market, and its tasks."""

    schema: Literal["eigentensor.operator/1"]
    """Says what this object is."""
    network: str
    """The network's name."""
    operator: Address
    """Its account in EigenLayer."""
    symbol: str
    """What people call the market's token."""
    signer: Address
    """The hot key that signs for it."""
    member: bool
    """Whether it is in the market's operator set."""
    draining: bool
    """Whether it accepts nothing more."""
    seats: int
    """How often it stands in the list that verifiers are drawn from."""
    other_seats: int
    """How often others do."""
    balance: Wei
    """Wei of its tokens that are free in the market."""
    collateral: Wei
    """Wei of its tokens that the market holds for tasks."""
    cap: Wei
    """Wei of collateral and bonds that the signer may have put down at a time, for all tasks together."""
    bonds: Wei
    """Wei that it put down in its tasks."""
    stake: Wei
    """Wei of its slashable stake."""
    free: Wei
    """Wei of stake that no task locks."""
    locked: Wei
    """Wei of stake that tasks lock."""
    stake_cap: Wei
    """Wei of stake that the signer may have locked at a time, for all tasks together."""
    alarms: list[RaisedAlarm]
    """What its owner should look at."""
    tasks: list[OperatorTask]
    """Those that are not forgotten, oldest first."""


@documented
class OwnerCall(TypedDict):
    """A message that the owner's key has to send."""

    function: str
    """The contract's function."""
    to: Address
    """The contract."""
    value: Literal["0"]
    """Wei of the chain's coin that go with it."""
    data: Data
    """Its bytes."""


@documented
class PlanStep(TypedDict):
    """A step of an owner's plan."""

    step: str
    """Its name."""
    what: str
    """What holds once it is done, in words."""
    status: Literal["done", "to do", "waiting", "blocked"]
    """How it stands; `blocked` by something that no step can change."""
    why: str
    """Why it waits or is blocked, in words."""
    until_block: Block | None
    """The block that it waits for."""
    until: str | None
    """About when that is there (RFC 3339)."""
    calls: list[OwnerCall]
    """What is to be sent for it."""


@documented
class OperatorPlan(TypedDict):
    """`eigentensor.operator-plan/2`: how to become an operator, or to leave, and how far that is."""

    schema: Literal["eigentensor.operator-plan/2"]
    """Says what this object is."""
    operator: Address
    """Its account in EigenLayer."""
    signer: Address | Literal[""]
    """The hot key that is to sign for it; empty for who leaves."""
    block: Block
    """The block as of which this is told."""
    complete: bool
    """Whether all steps are done."""
    outage: int
    """An operator that is away for so many blocks may be convicted: it can miss a reveal, or a clock."""
    steps: list[PlanStep]
    """In their order."""


@documented
class PricingRates(TypedDict):
    """What an operator reckons with: amounts in wei, rates in WAD (10¹⁸ is 1)."""

    min_price: Wei
    """Wei that a task must pay, whatever it costs."""
    price_per_hour: Wei
    """Wei that an hour of the machine has to bring."""
    margin: Rate
    """What is asked beyond the costs, as a part of them."""
    interest: Rate
    """What locked tokens cost a year, as a part of them."""
    disputed: Rate
    """The part of right results that somebody challenges."""
    coin_price: Wei
    """Wei of the token for one of the chain's coins."""


@documented
class TaskCosts(TypedDict):
    """What one task costs, in wei of the token."""

    computing: Wei
    """Of the machine."""
    gas: Wei
    """Of its messages."""
    games: Wei
    """Of games about right results, on average."""
    lock: Wei
    """Of what it locks."""


@documented
class MeasuredProgram(TypedDict):
    """A program that was measured, and what it has to pay."""

    program: str
    """Its name."""
    operations: int
    """Evaluated operations."""
    memory: Size
    """Bytes of its tensors."""
    seconds: float
    """How long it took."""
    operations_per_second: float
    """Its rate."""
    expected_seconds: float
    """What the daemon will expect it to take."""
    exec: int
    """Blocks that its order has for the execution."""
    costs: TaskCosts | None
    """What it costs; null where no price is asked."""
    price: Wei | None
    """Wei that it has to pay; null: no price is enough."""


@documented
class OperatorBench(TypedDict):
    """`eigentensor.operator-bench/1`: how fast a machine is, and what it asks for in a market."""

    schema: Literal["eigentensor.operator-bench/1"]
    """Says what this object is."""
    device: str
    """The device that executes, by tinygrad's name."""
    startup_seconds: float
    """Seconds of every execution, with sandbox and recheck."""
    operations_per_second: float
    """Of its slowest program."""
    bytes_per_second: float
    """Bytes of buffers that it reads, moves and writes."""
    store_bytes_per_second: float
    """Bytes of blobs that it hashes and keeps."""
    gateway_bytes_per_second: float | None
    """Bytes that it fetches and verifies; null: the gateway took none."""
    gas_price: Wei
    """Wei of the coin for a unit of gas."""
    pricing: PricingRates
    """What it reckons with."""
    programs: list[MeasuredProgram]
    """What was measured."""
    settings: dict[str, str]
    """What `--write` keeps, by the names of settings."""
    written: bool
    """Whether that was kept."""


@documented
class OperatorDrain(TypedDict):
    """`eigentensor.operator-drain/1`: whether an operator accepts tasks, and what it has not finished."""

    schema: Literal["eigentensor.operator-drain/1"]
    """Says what this object is."""
    draining: bool
    """Whether it accepts nothing more."""
    unfinished: list[Name]
    """The uuids of its tasks of which something may still come."""
