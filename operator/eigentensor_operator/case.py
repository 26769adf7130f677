"""What the operator knows about one task: what the chain showed, and what was done about it."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from eigentensor import economics
from eigentensor.chain import Order, State
from eigentensor_operator.policy import Code, Needs, Policy, Reason


class Step(StrEnum):
    """What the machine can ask for."""

    INSPECT = "inspect"  # fetch the program alone, check it, compute its needs
    FETCH = "fetch"  # fetch inputs, weights and states, check that they fit the program, compile it
    DECLINE = "decline"  # publish the reason
    ACCEPT = "accept"
    EXECUTE = "execute"  # execute, recheck a sample, keep the results, seal their root
    COMMIT = "commit"
    REVEAL = "reveal"
    UPLOAD = "upload"  # give the results to the gateway
    CLOSE = "close"
    FAIL = "fail"


SENT = frozenset({Step.ACCEPT, Step.COMMIT, Step.REVEAL, Step.CLOSE, Step.FAIL})


@dataclass(frozen=True, slots=True)
class Seal:
    """A result's root, the salt that hides it, and the commitment to both. Drawn once for a task."""

    outputs_root: bytes
    salt: bytes
    commitment: bytes


@dataclass(frozen=True, slots=True)
class Fact:
    """A task's step on chain, in `block`. `executor` from ACCEPTED on; `claim`: the commitment or the outputs root."""

    state: State
    block: int
    executor: str = ""
    claim: bytes = b""


@dataclass(frozen=True, slots=True)
class Case:
    """One task. `history` can be rolled back; `seal`, `uploaded`, `refused` and `dropped` survive a restart."""

    uuid: bytes
    order: Order
    history: tuple[Fact, ...] = ()
    needs: Needs | None = None
    fetched: bool = False
    seal: Seal | None = None
    uploaded: bool = False
    refused: Reason | None = None  # why it is not accepted
    published: Code | None = None  # the refusal that was published last
    dropped: Reason | None = None  # why it is not finished, though accepted
    doing: Step | None = None
    visible_by: int = -1  # the last transaction of this operator is in this block: until then, believe it
    not_before: int = 0  # block of the next attempt
    attempts: int = 0

    @property
    def now(self) -> Fact:
        return self.history[-1] if self.history else Fact(State.NONE, 0)

    @property
    def executor(self) -> str:
        return next((f.executor for f in reversed(self.history) if f.state is State.ACCEPTED), "")

    def deadline(self, policy: Policy) -> int:
        """The last block of what the chain waits for, as the market's `deadlineOf`; of an acceptance while Open."""
        match self.now.state:
            case State.OPEN:
                return self.order.accept_by
            case State.ACCEPTED:
                return self.now.block + self.order.exec
            case State.COMMITTED:
                return self.now.block + economics.reveal_window(policy.parameters, self.order.exec)
            case State.REVEALED:
                return self.now.block + economics.challenge_window(policy.parameters, self.order.exec)
            case _:
                return 0

    def learned(self, fact: Fact) -> Self:
        """With one more fact; the same one twice is once."""
        if self.history and fact.state <= self.now.state:
            return self
        return replace(self, history=(*self.history, fact), visible_by=-1, attempts=0, not_before=0)

    def rolled_back(self, block: int) -> Self:
        """As if nothing after `block` had happened."""
        kept = tuple(f for f in self.history if f.block <= block)
        return self if kept == self.history else replace(self, history=kept, attempts=0, not_before=0)
