"""What an operator knows of one batch beside its life, and what it did about it, or means to do."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self

from eigentensor.channel.life import CallDemand
from eigentensor.task import Leaf
from eigentensor_operator.case import PAUSE
from eigentensor_operator.policy import Reason


class Step(StrEnum):
    """What the machine can ask for: of a pool OFFER, CONCLUDE, BEGIN and their DEPOSIT, of a batch the rest."""

    OFFER = "offer"  # put an own pool on chain
    DEPOSIT = "deposit"  # pay in what the next message holds
    CONCLUDE = "conclude"  # send the last vouchers that clients were to send
    BEGIN = "begin"  # begin the next batch of a pool
    COMMIT = "commit"
    SEED = "seed"  # record the seed block's randomness, unless somebody did
    REVEAL_ROOTS = "reveal_roots"
    JUSTIFY = "justify"  # show the parts of the shares that are demanded
    SHOW = "show"  # show the calls that are demanded
    LOOK = "look"  # find out which answers the own seats may send
    FETCH = "fetch"  # fetch the share from its operator, check its proofs and what it binds
    EXECUTE = "execute"  # execute the calls of the share, compare each with its leaf
    ANSWER = "answer"
    REVEAL = "reveal"  # open the own answer
    DEMAND = "demand"  # of a call that is withheld, or wrong
    JUDGE = "judge"  # fetch and execute a call that was withheld, then shown
    CHALLENGE = "challenge"
    OUTSIDE = "outside"  # convict for a call that the offer does not allow
    DENOUNCE = "denounce"  # what was demanded was not shown
    DENOUNCE_SHARE = "denounce_share"
    PLAY = "play"  # the next move of a game
    TIMEOUT = "timeout"  # end a game whose other side used up its clock
    CLOSE = "close"
    SETTLE = "settle"  # take what the own answer is due, or won bonds
    REFUND = "refund"  # give clients what they get back of lines
    REFUND_BOND = "refund_bond"  # take back the bond of a game that a conviction made idle
    SLASH = "slash"
    HALT = "halt"  # convicted: begin nothing more, and say so


class Strand(StrEnum):
    """Steps of one strand are taken one after the other; strands wait for none, and none waits."""

    MAIN = "main"
    SHOW = "show"
    JUSTIFY = "justify"
    GAME = "game"


_UNSENT = {Step.LOOK, Step.FETCH, Step.EXECUTE, Step.JUDGE, Step.HALT}
SENT = frozenset(Step) - _UNSENT
#: Missing one of these in time costs stake, a bond or what clients paid: they are tried again in every block.
URGENT = frozenset({
    Step.COMMIT, Step.SEED, Step.JUSTIFY, Step.SHOW, Step.ANSWER, Step.REVEAL, Step.DEMAND, Step.CHALLENGE,
    Step.OUTSIDE, Step.PLAY, Step.BEGIN, Step.CONCLUDE,
})  # fmt: skip


def strand_of(step: Step) -> Strand:
    """The strand in which a step is taken."""
    match step:
        case Step.SHOW:
            return Strand.SHOW
        case Step.JUSTIFY:
            return Strand.JUSTIFY
        case Step.PLAY | Step.TIMEOUT:
            return Strand.GAME
        case _:
            return Strand.MAIN


@dataclass(frozen=True, slots=True)
class Attempt:
    """Where a strand is: the step under way, the block of its last transaction (until then, believe it), the block of
    the next attempt, and how many failed."""

    doing: Step | None = None
    visible_by: int = -1
    not_before: int = 0
    failed: int = 0

    def is_waiting(self, head: int) -> bool:
        """Whether nothing is to be begun at this head."""
        return self.doing is not None or head < max(self.not_before, self.visible_by)

    def begun(self, step: Step) -> Self:
        """With a step under way."""
        return replace(self, doing=step)

    def done(self, block: int, head: int) -> Self:
        """After a step; `block` is that of its transaction, 0 where nothing had to be sent."""
        if block:
            return replace(self, doing=None, visible_by=block, not_before=head + 1, failed=0)
        return replace(self, doing=None, not_before=0, failed=0)

    def undone(self, head: int) -> Self:
        """After a step that failed: it is tried again, less and less often where that costs nothing."""
        pause = 1 if self.doing in URGENT else min(1 << self.failed, PAUSE)
        return replace(self, doing=None, not_before=head + pause, failed=self.failed + 1)

    def rolled_back(self, block: int) -> Self:
        """As if nothing after `block` had happened; what is under way is."""
        return replace(self, visible_by=self.visible_by if self.visible_by <= block else -1, not_before=0, failed=0)


@dataclass(frozen=True, slots=True)
class Drawn:
    """Where the draw by `mix` placed this operator, as of the block `block`: the index 16 g + c of the best of its
    seats, and the other operators that may answer for share g `before` it. None: it may not answer."""

    mix: bytes
    index: int | None
    before: frozenset[str] = frozenset()
    block: int = 0


@dataclass(frozen=True, slots=True)
class Seal:
    """A share's root, the index that it is answered at, and the salt that hides it: drawn once for a batch."""

    index: int
    root: bytes
    salt: bytes


@dataclass(frozen=True, slots=True)
class Doubt:
    """A call of the share, by its number in the batch, whose result differs from `root`, which is what this operator
    computed; None: it is withheld, and beside it these `leaves` of what it binds. `is_outside`: the offer does not
    allow it."""

    number: int
    root: bytes | None = None
    leaves: tuple[Leaf, ...] = ()
    is_outside: bool = False

    def is_about(self, demand: CallDemand) -> bool:
        """Whether a demand shows what is withheld: of a call of which nothing else lacks, any demand of it."""
        return demand.number == self.number and (not self.leaves or demand.leaves == self.leaves)


@dataclass(frozen=True, slots=True)
class Case:
    """One batch. `drained`, `seal`, `doubt`, `unanswered` and `halted` survive a restart."""

    batch: bytes
    drained: bool = False  # its sheets are taken: they are committed, or what they say convicts
    seal: Seal | None = None
    doubt: Doubt | None = None
    unanswered: Reason | None = None  # why no answer is given, though drawn
    halted: bool = False  # its conviction was acted upon
    drawn: Drawn | None = None
    fetched: bool = False
    withheld: tuple[int, ...] = ()  # the calls of the share that were not served when it was fetched, in any order
    executed: bool = False  # all that is served of a share which is not served as a whole
    closed: frozenset[CallDemand] = frozenset()  # of which the chain says that nobody waits for them any more
    strands: Mapping[tuple[Strand, int], Attempt] = field(default_factory=dict)

    def attempt(self, strand: Strand = Strand.MAIN, number: int = 0) -> Attempt:
        """Where a strand is; `number` is the game."""
        return self.strands.get((strand, number), Attempt())

    def attempted(self, attempt: Attempt, strand: Strand = Strand.MAIN, number: int = 0) -> Self:
        """With a strand elsewhere."""
        return replace(self, strands={**self.strands, (strand, number): attempt})

    def rolled_back(self, block: int) -> Self:
        """As if nothing after `block` had happened."""
        strands = {key: attempt.rolled_back(block) for key, attempt in self.strands.items()}
        drawn = self.drawn if self.drawn is None or self.drawn.block <= block else None
        return replace(self, drawn=drawn, closed=frozenset(), strands=strands)

    def is_doing(self, step: Step) -> bool:
        """Whether a step is under way."""
        return any(attempt.doing is step for attempt in self.strands.values())
