"""Sessions: tasks that go on from each other's states."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from eigentensor.task.objects import OrderJson, Task, Tensor
from eigentensor.texts import Address, Name, Rate, Wei, documented


@documented
class AppTerms(TypedDict):
    """What an app offers for a task: amounts in wei, rates in WAD (10¹⁸ is 1), times in blocks."""

    max_price: Wei
    """Wei at most."""
    min_price: Wei | None
    """Wei at first; null: `max_price`."""
    ramp: int
    """Blocks in which the price rises."""
    check_rate: Rate
    """How probably others re-execute it."""
    verifiers: int
    """How many re-execute a task that is drawn."""
    check_fee: Wei | None
    """Wei for each of them; null: the least that the market allows."""
    value_at_risk: Wei
    """Wei that a wrong result could gain its executor beyond the price."""
    exec: int | None
    """Blocks that the executor has for its commit; null: as many as usual, or as the market allows."""
    accept_within: int
    """Blocks in which it can be accepted."""
    operators: Name
    """The root of the operators that may accept it; zeros: all."""


@documented
class SessionTask(TypedDict):
    """An order for a step. It may have been sent, or not yet."""

    task: Name
    """The task's uuid."""
    variables: dict[str, int]
    """The values of the program's variables."""
    order: OrderJson
    """What was signed."""


@documented
class SessionStep(TypedDict):
    """A step with a result."""

    task: Name
    """The task's uuid."""
    variables: dict[str, int]
    """The values of the program's variables."""
    order: OrderJson
    """What was signed."""
    outputs: Name
    """The bindings root of its outputs."""
    states: Name
    """The bindings root of its new states, with which the next step begins."""
    final: bool
    """Whether its executor was paid: it stands for good."""


@documented
class VoidStep(TypedDict):
    """A task that counts no more."""

    task: Name
    """The task's uuid."""
    step: int
    """As which step it was ordered, beginning with 0."""
    why: str
    """Why it does not count, in words."""


@documented
class Session(TypedDict):
    """`eigentensor.session/1`: one account's session with one program on one market, as its file has it."""

    schema: Literal["eigentensor.session/1"]
    """Says what this object is."""
    chain_id: int
    """The chain, as EIP-155 counts."""
    market: Address
    """The contract TaskMarket."""
    client: Address
    """Who pays."""
    program: Name
    """The program root."""
    weights: Name
    """The bindings root of its weights; zeros where it has none."""
    states: Name
    """The bindings root of the states before the first step."""
    terms: AppTerms
    """What is offered for a step."""
    steps: list[SessionStep]
    """What was done, in order."""
    under_way: SessionTask | None
    """The step that has no result yet."""
    void: list[VoidStep]
    """What counts no more."""


@documented
class Step(TypedDict):
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
    tensor: NotRequired[Tensor]
    """The only output, where there is one and it is named `output`."""


@documented
class States(TypedDict):
    """`eigentensor.states/1`: states that were written to a file."""

    schema: Literal["eigentensor.states/1"]
    """Says what this object is."""
    step: int
    """The step that begins with them."""
    states: Name
    """Their bindings root."""
    file: str
    """The safetensors file that has them."""
