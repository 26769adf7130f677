"""What the operator knows about one task: its life, and what it did itself about it, or means to do."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self

from eigentensor.program.cost import Needs
from eigentensor.task import Demanded, Happening, Life, Moved, Opened, Order, Shown, State
from eigentensor_operator.policy import Code, Reason


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

PAUSE = 8  # blocks between attempts at most


@dataclass(frozen=True, slots=True)
class Seal:
    """A result's root and the salt that hides it: drawn once for a task, whatever it is used for."""

    outputs_root: bytes
    salt: bytes


@dataclass(frozen=True, slots=True)
class Candidacy:
    """Where the draw by `mix` placed this operator, as of `block`: the lowest `index` of its seats, and the other
    operators that may answer `before` it. None: it may not answer; then these are all that may."""

    mix: bytes
    index: int | None
    before: frozenset[str] = frozenset()
    block: int = 0

    @property
    def rank(self) -> int:
        """How many others may answer before it."""
        return len(self.before)


@dataclass(frozen=True, slots=True)
class Play:
    """What the operator does in one game: the step under way, the block of its last transaction (until then, believe
    it), and that of the next attempt."""

    doing: Step | None = None
    visible_by: int = -1
    not_before: int = 0


@dataclass(frozen=True, slots=True)
class Case:
    """One task. `life` can be rolled back; `seal`, `uploaded`, `refused`, `published`, `dropped` and `halted` survive a
    restart. `plays` are those of games, by their numbers."""

    life: Life
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
    plays: Mapping[int, Play] = field(default_factory=dict)
    uploading: bool = False
    gateway_from: int = 0  # block of the next attempt to reach the gateway
    visible_by: int = -1  # the last transaction of this operator is in this block: until then, believe it
    not_before: int = 0  # block of the next attempt
    attempts: int = 0

    @property
    def uuid(self) -> bytes:
        """The task's uuid."""
        return self.life.uuid

    @property
    def order(self) -> Order:
        """The task's order."""
        return self.life.order

    @property
    def state(self) -> State:
        """Where the task stands on chain."""
        return self.life.state

    @property
    def demand(self) -> Demanded | None:
        """The client's demand, as long as the chain waits for an answer. Until it was asked, events decide: what
        happens inside of one transaction may undo what an event said before."""
        demanded = self.life.demanded
        if self.due is None or demanded is None:
            return self.life.demand
        return demanded if self.due == demanded.by else None

    @property
    def deadline(self) -> int:
        """The last block of what the chain waits for; 0: for nothing."""
        if self.state is State.REVEALED:
            return self.life.challenge_by if self.demand is None else self.demand.by
        return self.life.deadline or 0

    # ---- Learning ----

    def stepped(self, event: Happening) -> Self:
        """The case after one more event of its task's life; the same one twice is once."""
        life = self.life.step(event)
        if life is self.life:
            return self
        case = replace(self, life=life)
        if life.state is not self.state:
            case = replace(case, visible_by=-1, attempts=0, not_before=0)
        if isinstance(event, Demanded | Shown):
            case = replace(case, due=None)
        if isinstance(event, Opened | Moved):
            case = case.played(event.game_id, Play(self.play_in(event.game_id).doing))
        return case

    def rolled_back(self, block: int) -> Self:
        """As if nothing after `block` had happened."""
        life = self.life.rolled_back(block)
        visible_by = self.visible_by if self.visible_by <= block else -1
        looked = self.candidacy is not None and self.candidacy.block > block
        if life is self.life and visible_by == self.visible_by and not looked:
            return self
        case = replace(self, life=life, visible_by=visible_by, candidacy=None, due=None, attempts=0, not_before=0)
        for number, play in self.plays.items():
            if life.games.get(number) != self.life.games.get(number):
                case = case.played(number, Play(play.doing))
        return case

    # ---- Games ----

    def play_in(self, game: int) -> Play:
        """What the operator does in a game: nothing yet, unless something was begun."""
        return self.plays.get(game, Play())

    def played(self, game: int, play: Play) -> Self:
        """The case with another play; of a game that is not in the chain only what is under way."""
        plays = {**self.plays, game: play}
        if game not in self.life.games and play.doing is None:
            del plays[game]
        return replace(self, plays=plays)
