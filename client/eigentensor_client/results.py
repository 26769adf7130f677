"""What the client tells: plans before money is spent, tasks and their results after."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eigentensor.errors import NotYet
from eigentensor.receipt import Receipt
from eigentensor.task import NONE, Life, Order, State, TaskEvent, words

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
        """Whether balance and tokens cover the escrow."""
        return self.balance + self.tokens >= self.escrow


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task as the chain shows it in a block. `price` is what the executor gets at most, `stake` what a conviction
    takes of its stake, in wei. `drawn` is None while the seed is not recorded; `answered`, `agreed` and `differed`
    count verifiers; `games` are the open ones; `events` are in order."""

    life: Life
    block: int

    @property
    def uuid(self) -> str:
        """The task's name: 64 hex digits."""
        return self.life.uuid.hex()

    @property
    def order(self) -> Order:
        """What the client signed."""
        return self.life.order

    @property
    def state(self) -> State:
        """The contract's state of the task."""
        return self.life.state

    @property
    def executor(self) -> str | None:
        """The operator that accepted it; None before."""
        return self.life.executor

    @property
    def price(self) -> int | None:
        """Wei for the executor, fixed by its acceptance; None before."""
        return self.life.price

    @property
    def stake(self) -> int | None:
        """Wei of stake that a conviction takes; None before the acceptance."""
        return self.life.stake

    @property
    def deadline(self) -> int | None:
        """The last block of what it waits for; None at the end."""
        return self.life.deadline

    @property
    def drawn(self) -> bool | None:
        """Whether it was drawn for a check; None while the seed is not recorded."""
        return self.life.drawn

    @property
    def answered(self) -> int:
        """How many verifiers answered."""
        return len(self.life.answers)

    @property
    def agreed(self) -> int:
        """How many verifiers revealed the executor's root."""
        return self.life.agreed

    @property
    def differed(self) -> int:
        """How many verifiers revealed another root."""
        return len(self.life.differing)

    @property
    def games(self) -> tuple[int, ...]:
        """The numbers of open games about its result."""
        return self.life.open_games

    @property
    def events(self) -> tuple[TaskEvent, ...]:
        """The task's events, in order."""
        return tuple(event for event in self.life.events if isinstance(event, TaskEvent))

    @property
    def checked(self) -> str | None:
        """`checked(k)`: k verifiers re-executed it and agree; `unchecked`: nobody did; None: not known yet."""
        return words.checked(self.life.counts)

    @property
    def words(self) -> str:
        """Where it stands, in the words of the glossary."""
        return words.standing(self.life.counts)

    @property
    def waits_for(self) -> str:
        """What it waits for now, in words, with the block by which it comes."""
        return words.waits_for(self.life, self.block) or "nothing"


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
