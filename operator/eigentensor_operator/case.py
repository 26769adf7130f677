"""What the operator knows about one task: what the chain showed, and what was done about it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from eigentensor import economics
from eigentensor.program.cost import Needs
from eigentensor.task import (
    Answered,
    BondReturned,
    Challenged,
    Demanded,
    Exposed,
    GameEnded,
    Order,
    Revealed,
    Settled,
    Shown,
    Slashed,
    State,
    TaskEvent,
)
from eigentensor_operator.policy import Code, Policy, Reason


class Step(StrEnum):
    """What the machine can ask for."""

    INSPECT = "inspect"  # fetch the program alone, check it, compute its needs
    FETCH = "fetch"  # fetch inputs, weights and states, check that they fit the program
    PREPARE = "prepare"  # compile the program; before an acceptance also try it
    DECLINE = "decline"  # publish the reason
    ACCEPT = "accept"
    EXECUTE = "execute"  # execute, recheck a sample, keep the results, seal their root
    COMMIT = "commit"
    SEED = "seed"  # record the seed block's randomness, unless somebody did
    LOOK = "look"  # find out which answers the own seats may send
    ANSWER = "answer"
    REVEAL = "reveal"  # the executor's result or the verifier's answer
    UPLOAD = "upload"  # give the results to the gateway
    SHOW = "show"  # the leaves that the client demands
    PLAY = "play"  # the next move of a game
    TIMEOUT = "timeout"  # end a game whose other side used up its clock
    CLOSE = "close"
    SETTLE = "settle"  # take what an answer is due
    SLASH = "slash"
    HALT = "halt"  # convicted: stop accepting for good, and say so


class Role(StrEnum):
    """An operator's part in a task."""

    NONE = ""
    EXECUTOR = "executor"
    VERIFIER = "verifier"


_UNSENT = {Step.INSPECT, Step.FETCH, Step.PREPARE, Step.DECLINE, Step.EXECUTE, Step.LOOK, Step.UPLOAD, Step.HALT}
SENT = frozenset(Step) - _UNSENT
#: What the gateway is told. Other steps of a task are taken one after the other; these wait for none, and none waits.
BESIDE = frozenset({Step.DECLINE, Step.UPLOAD})
#: Missing one of these in time costs stake or a bond: they are tried again in every block.
URGENT = frozenset({Step.COMMIT, Step.SEED, Step.ANSWER, Step.REVEAL, Step.SHOW, Step.PLAY})
#: What is remembered of a task beside its life: what checks it, and what this is worth.
INCIDENTS = (Answered, Exposed, Revealed, Challenged, GameEnded, Demanded, Shown, Settled, BondReturned, Slashed)


@dataclass(frozen=True, slots=True)
class Seal:
    """A result's root and the salt that hides it: drawn once for a task, whatever it is used for."""

    outputs_root: bytes
    salt: bytes


@dataclass(frozen=True, slots=True)
class Fact:
    """A task's step on chain, in `block`. `executor` and `price` with ACCEPTED; `claim`: commitment or outputs root."""

    state: State
    block: int
    executor: str = ""
    claim: bytes = b""
    price: int = 0


@dataclass(frozen=True, slots=True)
class Candidacy:
    """Where the draw by `mix` placed this operator: the lowest `index` of its seats (None: none was drawn), and how
    many other operators have a lower one."""

    mix: bytes
    index: int | None
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Case:
    """One task. `history` and `incidents` can be rolled back; `seal`, `uploaded`, `refused`, `published`, `dropped` and
    `halted` survive a restart."""

    uuid: bytes
    order: Order
    history: tuple[Fact, ...] = ()
    incidents: tuple[TaskEvent, ...] = ()
    needs: Needs | None = None
    compile_seconds: float = 0.0  # expected of one processor, if nothing of the program is in the cache
    fetched: bool = False
    prepared: bool = False
    candidacy: Candidacy | None = None
    due: int | None = None  # the chain's deadline of an own task with a demand, at the head; None: it was not asked
    seal: Seal | None = None
    uploaded: bool = False
    refused: Reason | None = None  # why it is not accepted
    published: Code | None = None  # the refusal that was published last
    dropped: Reason | None = None  # why it is not finished, though accepted
    unanswered: Reason | None = None  # why it is not checked, though drawn for this operator
    halted: bool = False  # its conviction was acted upon
    doing: Step | None = None
    uploading: bool = False
    gateway_from: int = 0  # block of the next attempt to tell the gateway something
    visible_by: int = -1  # the last transaction of this operator is in this block: until then, believe it
    not_before: int = 0  # block of the next attempt
    attempts: int = 0

    @property
    def now(self) -> Fact:
        return self.history[-1] if self.history else Fact(State.NONE, 0)

    def at(self, state: State) -> Fact | None:
        """The task's step to this state, if it took it."""
        return next((fact for fact in self.history if fact.state is state), None)

    @property
    def executor(self) -> str:
        accepted = self.at(State.ACCEPTED)
        return accepted.executor if accepted else ""

    @property
    def price(self) -> int:
        accepted = self.at(State.ACCEPTED)
        return accepted.price if accepted else 0

    # ---- Windows: last blocks, unless named otherwise ----

    def deadline(self, policy: Policy) -> int:
        """The last block of what the chain waits for, as the market's `deadlineOf`; of an acceptance while Open."""
        match self.now.state:
            case State.OPEN:
                return self.order.accept_by
            case State.ACCEPTED:
                return self.now.block + self.order.exec
            case State.COMMITTED:
                return self.reveal_by(policy)
            case State.REVEALED:
                return self.now.block + economics.challenge_window(policy.parameters, self.order.exec)
            case _:
                return 0

    def seed_block(self, policy: Policy) -> int:
        """S, of a task that was committed."""
        committed = self.at(State.COMMITTED)
        assert committed is not None
        return economics.seed_block(committed.block, policy.parameters.lag, policy.parameters.grid)

    def check_by(self, policy: Policy) -> int:
        return self.seed_block(policy) + self.order.exec + policy.parameters.check

    def reveal_by(self, policy: Policy) -> int:
        return self.seed_block(policy) + economics.reveal_window(policy.parameters, self.order.exec)

    def answers_by(self, policy: Policy) -> int:
        """The verifiers' deadline: for their reveals, not for their answers."""
        revealed = self.at(State.REVEALED)
        return (revealed.block if revealed else self.reveal_by(policy)) + policy.parameters.reveal

    def end(self, policy: Policy) -> int:
        """END: until then the executor's stake is locked."""
        accepted = self.at(State.ACCEPTED)
        return (accepted.block if accepted else 0) + economics.lifetime(policy.parameters, self.order.exec)

    # ---- Incidents ----

    def answers(self) -> Iterator[Answered]:
        return (e for e in self.incidents if isinstance(e, Answered))

    def answer_of(self, operator: str) -> Answered | None:
        return next((answer for answer in self.answers() if answer.operator == operator), None)

    def opened(self, answer: Answered) -> bytes | None:
        """The outputs root that the answer was revealed to hide."""
        revealed = self._opening(answer)
        return revealed.outputs_root if revealed else None

    def _opening(self, answer: Answered) -> Revealed | None:
        return next((e for e in self.incidents if isinstance(e, Revealed) and e.slot == answer.index + 1), None)

    def is_over(self, answer: Answered) -> bool:
        """Whether the answer is paid, or was exposed: nothing can be done for it any more."""
        return any(isinstance(e, Settled | Exposed) and e.slot == answer.index + 1 for e in self.incidents)

    def has_lost(self, answer: Answered) -> bool:
        """Whether the answer's bond went in a lost game: the one that began when it was opened."""
        opened = self._opening(answer)
        at = (answer.operator, opened.place.transaction) if opened else None
        games = (e for e in self.incidents if isinstance(e, Challenged) and (e.challenger, e.place.transaction) == at)
        numbers = {game.game_id for game in games}
        ends = (e for e in self.incidents if isinstance(e, GameEnded) and e.game_id in numbers)
        return any(not end.executor_lost for end in ends)

    def is_settled(self, answer: Answered) -> bool:
        """Whether nothing is due to the answer any more. A lost one may still have a part in a conviction."""
        return self.is_over(answer) or (self.now.state is State.FINAL and self.has_lost(answer))

    @property
    def open_games(self) -> set[int]:
        opened = {e.game_id for e in self.incidents if isinstance(e, Challenged)}
        return opened - {e.game_id for e in self.incidents if isinstance(e, GameEnded)}

    @property
    def demand(self) -> Demanded | None:
        """The client's demand, as long as the chain waits for an answer. Until it was asked, events tell: what happens
        inside of one transaction may undo what an event said before."""
        told = (e for e in reversed(self.incidents) if isinstance(e, Demanded | Shown))
        last = next((e for e in told if self.due is None or isinstance(e, Demanded)), None)
        return last if isinstance(last, Demanded) and self.due in (None, last.by) else None

    @property
    def is_slashed(self) -> bool:
        return any(isinstance(e, Slashed) for e in self.incidents)

    # ---- Learning ----

    def learned(self, fact: Fact) -> Self:
        """With one more fact; the same one twice is once."""
        if self.history and fact.state <= self.now.state:
            return self
        return replace(self, history=(*self.history, fact), visible_by=-1, attempts=0, not_before=0)

    def noted(self, incident: TaskEvent) -> Self:
        """With one more incident; the same one twice is once."""
        if incident in self.incidents:
            return self
        return replace(self, incidents=(*self.incidents, incident), due=None)

    def rolled_back(self, block: int) -> Self:
        """As if nothing after `block` had happened."""
        history = tuple(f for f in self.history if f.block <= block)
        incidents = tuple(e for e in self.incidents if e.place.block <= block)
        visible_by = self.visible_by if self.visible_by <= block else -1
        if (history, incidents, visible_by) == (self.history, self.incidents, self.visible_by):
            return self
        known = replace(self, history=history, incidents=incidents, visible_by=visible_by)
        return replace(known, candidacy=None, due=None, attempts=0, not_before=0)
