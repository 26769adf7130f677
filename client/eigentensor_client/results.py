"""What the client tells: plans before money is spent, tasks and their results after."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eigentensor.chain import State, TaskEvent
from eigentensor.chain.order import Order

Tensors = dict[str, np.ndarray[Any, Any]]

#: Words of the glossary for what a client can wait for, in the order in which they come true.
STAGES = ("result", "checked", "final")


@dataclass(frozen=True, slots=True)
class Plan:
    """What an order would cost. Amounts are wei of the market's token, times are blocks, sizes are bytes."""

    program: str
    calls: int
    evaluations: int
    upload: int
    memory: int
    results: int
    repeat: int
    min_price: int
    max_price: int
    collateral: int
    penalty: int
    exec: int
    accept_within: int
    final_after: int
    balance: int
    tokens: int
    operators: int | None

    @property
    def escrow(self) -> int:
        """What leaves the account when the order is posted; what the price leaves of it comes back."""
        return self.max_price

    @property
    def affordable(self) -> bool:
        return self.balance + self.tokens >= self.escrow


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task as the chain shows it. `price` is what the executor gets at most now; `events` are in order."""

    uuid: str
    order: Order
    state: State
    executor: str | None
    price: int | None
    deadline: int
    block: int
    events: tuple[TaskEvent, ...] = ()

    @property
    def checked(self) -> str:
        """How the result was checked: nobody re-executes results yet."""
        return "unchecked"

    @property
    def words(self) -> str:
        """The state in the words of the glossary."""
        words = {State.REVEALED: "result", State.FINAL: f"final ({self.checked})"}
        return words.get(self.state, self.state.name.lower())


@dataclass(frozen=True, slots=True)
class TaskResult:
    """A result whose bytes have the outputs root that the executor revealed on chain."""

    task: TaskView
    outputs_root: bytes
    outputs: Tensors
    states: Tensors = field(default_factory=dict)

    @property
    def uuid(self) -> str:
        return self.task.uuid

    @property
    def executor(self) -> str | None:
        return self.task.executor

    @property
    def price(self) -> int | None:
        return self.task.price
