"""Sessions: tasks that go on from each other's states."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from eigentensor.task.objects import Task, Tensor
from eigentensor.texts import Name, documented


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
