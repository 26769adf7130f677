"""Sessions: tasks that go on from each other's states."""

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from eigentensor.task.objects import OrderJson, Task, Tensor
from eigentensor.texts import Address, Name, documented
from eigentensor.wire import Json
from eigentensor_client.history import Void
from eigentensor_client.orders import Terms


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
    terms: Annotated[dict[str, Any], Json(Terms)]
    """What is offered for a step."""
    steps: list[SessionStep]
    """What was done, in order."""
    under_way: SessionTask | None
    """The step that has no result yet."""
    void: list[Annotated[dict[str, Any], Json(Void)]]
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
