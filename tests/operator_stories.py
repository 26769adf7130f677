"""The cast of the operator's stories: a market, an order, an operator, and a way to tell what happens."""

from dataclasses import dataclass, field, replace
from typing import Any

from eigentensor.chain import Order, State
from eigentensor.economics import WAD, Parameters
from eigentensor_operator.case import Case, Fact, Seal, Step
from eigentensor_operator.events import Do, Done, Event, Executed, Head, Inspected, Seen
from eigentensor_operator.machine import Operator, step
from eigentensor_operator.policy import Needs, Policy, Standing

ME, OTHER = "0x" + "11" * 20, "0x" + "22" * 20
TASK, SECOND = b"\xaa" * 32, b"\xbb" * 32
PARAMETERS = Parameters(
    max_exec=60, lag=2, grid=1, record=50, check=10, reveal=10, challenge=10, clock=60, margin=50,
    eta=WAD // 4, g_def=3 * WAD // 1000, g_miss=WAD // 1000,
)  # fmt: skip
POLICY = Policy(ME, PARAMETERS, operations_per_second=1e6, block_seconds=1.0)
NEEDS = Needs(operations=1_000_000, memory=1024)
SEAL = Seal(b"\1" * 32, b"\2" * 32, b"\3" * 32)
STANDING = Standing(block=10, balance=WAD, collateral=0, cap=WAD, delay=1000, member=True)


def an_order(**changes: Any) -> Order:
    terms: dict[str, Any] = {
        "client": "0x" + "33" * 20, "nonce": 1, "semantics": 1, "program": b"\5" * 32, "inputs": b"\6" * 32,
        "weights": bytes(32), "states": bytes(32), "variables": bytes(32), "repeat": 1, "min_price": WAD // 100,
        "max_price": WAD // 100, "ramp_start": 0, "ramp_length": 0, "check_fee": 0, "check_rate": 0, "verifiers": 0,
        "value_at_risk": 0, "exec": 20, "accept_by": 100, "operators": bytes(32),
    }  # fmt: skip
    return Order(**terms | changes)


@dataclass
class Story:
    """An operator and what it has been told."""

    operator: Operator = field(default_factory=lambda: Operator(POLICY))
    standing: Standing = STANDING

    def tell(self, event: Event) -> tuple[Do, ...]:
        self.operator, actions = step(self.operator, event)
        return actions

    def head(self, block: int) -> tuple[Do, ...]:
        self.standing = replace(self.standing, block=block)
        return self.tell(Head(self.standing))

    def posted(self, task: bytes = TASK, *, block: int = 10, **terms: Any) -> None:
        assert self.tell(Seen(task, Fact(State.OPEN, block), an_order(**terms))) == ()

    def seen(self, state: State, block: int, *, task: bytes = TASK, executor: str = "", claim: bytes = b"") -> None:
        assert self.tell(Seen(task, Fact(state, block, executor, claim))) == ()

    def case(self, task: bytes = TASK) -> Case:
        return self.operator.cases[task]

    def until_accept(self, task: bytes = TASK, **terms: Any) -> None:
        """Posted in block 10, looked at, and the acceptance is on its way."""
        self.posted(task, **terms)
        assert self.head(10) == (Do(Step.INSPECT, task),)
        assert self.tell(Inspected(task, NEEDS)) == (Do(Step.FETCH, task),)
        assert self.tell(Done(task, Step.FETCH)) == (Do(Step.ACCEPT, task),)

    def until_execute(self, task: bytes = TASK, **terms: Any) -> None:
        """Accepted in block 11, executing."""
        self.until_accept(task, **terms)
        assert self.tell(Done(task, Step.ACCEPT, 11)) == ()
        self.seen(State.ACCEPTED, 11, task=task, executor=ME)
        assert self.head(11) == (Do(Step.EXECUTE, task),)

    def until_commit(self, task: bytes = TASK) -> None:
        """Executed, and the commitment is on its way."""
        self.until_execute(task)
        assert self.tell(Executed(task, SEAL)) == (Do(Step.COMMIT, task),)

    def until_reveal(self, task: bytes = TASK) -> None:
        """Committed in block 12, and the reveal is on its way."""
        self.until_commit(task)
        assert self.tell(Done(task, Step.COMMIT, 12)) == ()
        self.seen(State.COMMITTED, 12, task=task, claim=SEAL.commitment)
        assert self.head(12) == (Do(Step.REVEAL, task),)

    def until_upload(self, task: bytes = TASK) -> None:
        """Revealed in block 13, and the results go to the gateway."""
        self.until_reveal(task)
        assert self.tell(Done(task, Step.REVEAL, 13)) == ()
        self.seen(State.REVEALED, 13, task=task, claim=SEAL.outputs_root)
        assert self.head(13) == (Do(Step.UPLOAD, task),)
