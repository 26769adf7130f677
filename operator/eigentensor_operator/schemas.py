"""The JSON objects that `eigentensor operator` prints beside its report, by the word in their member `schema`.

Those who make them import them where types are checked: `--help` stays quick.
"""

from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from eigentensor.economics.pricing import Costs, Pricing
from eigentensor.texts import Address, Block, Data, Name, Size, Wei, documented
from eigentensor.wire import Json


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
    costs: Annotated[dict[str, Any], Json(Costs)] | None
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
    pricing: Annotated[dict[str, Any], Json(Pricing)]
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
