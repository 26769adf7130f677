"""What the client tells: plans before money is spent, tasks and their results after."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eigentensor.chain import State, TaskEvent
from eigentensor.errors import NotYet
from eigentensor.receipt import Receipt, checked_of, words_of
from eigentensor.task.order import NONE, Order

Tensors = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What an order would cost. Amounts are wei of the market's token, rates WAD, times blocks, sizes bytes.

    `detection` is the probability that somebody else than the executor re-executes the task; `stake` is locked until
    the task cannot be convicted any more, and lost with a conviction, as is `collateral`. `lowest_paid` and
    `highest_paid` are of the tasks, whatever those were, that members accepted last: None where there is none, or the
    gateway does not answer.
    """

    program: str
    calls: int
    evaluations: int
    upload: int
    memory: int
    results: int
    repeat: int
    min_price: int
    max_price: int
    check_rate: int
    verifiers: int
    check_fee: int
    value_at_risk: int
    escrow: int
    detection: int
    stake: int
    collateral: int
    penalty: int
    exec: int
    accept_within: int
    result_within: int
    final_after: int
    balance: int
    tokens: int
    operators: int | None
    lowest_paid: int | None
    highest_paid: int | None

    @property
    def affordable(self) -> bool:
        return self.balance + self.tokens >= self.escrow


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task as the chain shows it. `price` is what the executor gets at most now; `events` are in order.

    `stake` is what a conviction costs the executor. `seed_block` is 0 before the commit; `drawn` is None while the seed
    of that block is not recorded; verifiers answer until `check_by`. `answered`, `agreed`, `differed` count them;
    `games` are the open ones.
    """

    uuid: str
    order: Order
    state: State
    executor: str | None
    price: int | None
    deadline: int
    block: int
    stake: int | None = None
    seed_block: int = 0
    check_by: int = 0
    drawn: bool | None = None
    answered: int = 0
    agreed: int = 0
    differed: int = 0
    games: tuple[int, ...] = ()
    events: tuple[TaskEvent, ...] = ()

    @property
    def checked(self) -> str | None:
        """As `checked_of`."""
        return checked_of(self.state, self.agreed, self.answered, len(self.games))

    @property
    def words(self) -> str:
        """The state in the words of the glossary."""
        return words_of(self.state, self.agreed, self.answered, len(self.games))


@dataclass(frozen=True, slots=True)
class TaskResult:
    """A result whose bytes have the outputs root that the executor revealed on chain.

    `states_root` names the new states; `states` has them unless they were left where they are, as sessions do.
    `receipt_now` makes the task's receipt, for `receipt`.
    """

    task: TaskView
    outputs_root: bytes
    outputs: Tensors
    states: Tensors = field(default_factory=dict)
    states_root: bytes = NONE
    receipt_now: Callable[[], Receipt] | None = field(default=None, repr=False, compare=False)

    @property
    def receipt(self) -> Receipt:
        """The task's receipt as it stands when it is asked for; read from the chain each time."""
        if self.receipt_now is None:
            raise NotYet(f"the result of task {self.uuid} was not fetched by a client: it has no receipt")
        return self.receipt_now()

    @property
    def uuid(self) -> str:
        return self.task.uuid

    @property
    def executor(self) -> str | None:
        return self.task.executor

    @property
    def price(self) -> int | None:
        return self.task.price
