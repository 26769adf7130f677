"""A task as its events tell it, and the windows of what may happen to it. Pure.

The windows have the names and the values of `Lives` in Lives.sol: last blocks, unless named otherwise.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from eigentensor import economics
from eigentensor.dispute.position import Position, Reason
from eigentensor.economics import Parameters
from eigentensor.task.events import (
    Accepted,
    Answered,
    BondReturned,
    Cancelled,
    Challenged,
    Closed,
    Committed,
    Convicted,
    Demanded,
    Ended,
    Event,
    Expired,
    Exposed,
    Failed,
    GameEnded,
    Moved,
    Opened,
    Paid,
    Place,
    Posted,
    Revealed,
    Seeded,
    Settled,
    Shown,
    Slashed,
    TaskEvent,
)
from eigentensor.task.order import Order
from eigentensor.task.state import Cause, State
from eigentensor.task.windows import Windows

#: What happens to a task: its own events, and the record of its seed block's random value.
Happening = TaskEvent | Seeded
_Played = Opened | Challenged | Moved | Ended | GameEnded | BondReturned


@dataclass(frozen=True, slots=True)
class Answer:
    """A verifier's, by the index of its draw. `root` is what it revealed, in the transaction `revealed`; `settled` is
    what it got in the end, in wei. Somebody else may have `exposed` it too early: then it counts for nothing."""

    index: int
    operator: str
    block: int
    commitment: bytes
    root: bytes | None = None
    revealed: bytes | None = None
    settled: int | None = None
    exposed: bool = False

    @property
    def is_over(self) -> bool:
        """Whether it is paid, or was exposed: nothing can be done for it any more."""
        return self.exposed or self.settled is not None


@dataclass(frozen=True, slots=True)
class Game:
    """A challenge and its dispute. `executor_lost` is None while it is played; `counted` where the market took notice:
    a game that ends after its task changes nothing, and its bond is to be given back."""

    number: int
    challenger: str
    bond: int
    opened: Place
    position: Position | None = None
    executor_lost: bool | None = None
    reason: Reason | None = None
    counted: bool = False
    returned: bool = False

    @property
    def is_stranded(self) -> bool:
        """Whether its bond, if it has one of its own, is still held after the end of its task."""
        return not self.counted and not self.returned


@dataclass(frozen=True, slots=True)
class Conviction:
    """`slash` is the number of the slash in EigenLayer's core and its shares, None while nobody has sent it; `paid`
    is what each beneficiary got of it in wei, None while the core holds it back."""

    cause: Cause
    winner: str
    refund: int
    block: int
    slash: tuple[int, int] | None = None
    slashed_at: int = 0
    paid: int | None = None


class Counts(NamedTuple):
    """What the words for a task are made of: answers, those of them that agree, and open games."""

    state: State
    answered: int
    agreed: int
    games: int


@dataclass(frozen=True, slots=True)
class Life(Windows):
    """A task of one market from its order on: before it is in a block its state is NONE.

    `since` is the block of its last step from state to state, `mix` its seed once that is recorded. Prices and amounts
    are wei. `events` are what it was made of, in the order of the chain.
    """

    uuid: bytes
    order: Order
    parameters: Parameters
    state: State = State.NONE
    since: int = 0
    posted: Place | None = None
    executor: str | None = None
    price: int | None = None
    collateral: int | None = None
    accepted_at: int | None = None
    committed_at: int | None = None
    commitment: bytes | None = None
    revealed_at: int | None = None
    outputs_root: bytes | None = None
    penalty: int | None = None
    demanded: Demanded | None = None
    shown: bool = False
    conviction: Conviction | None = None
    mix: bytes | None = None
    answers: Mapping[int, Answer] = field(default_factory=dict)
    games: Mapping[int, Game] = field(default_factory=dict)
    events: tuple[Happening, ...] = ()

    # ---- Learning ----

    def step(self, event: Happening) -> "Life":
        """The task after one more event; the same one twice is once, another task's seed is none of its events."""
        if self.events and event.place <= self.events[-1].place and event in self.events:
            return self
        life, changed = self, dict[str, Any]()
        if isinstance(event, Seeded):
            if self.committed_at is None or event.seed_block != self.seed_block:
                return self
            changed = {"mix": event.mix}
        elif isinstance(event, Posted):
            life = Life(self.uuid, self.order, self.parameters)
            changed = {"state": State.OPEN, "posted": event.place, "since": event.place.block}
        else:
            changed = _forward(event) | _beside(self, event)
        return replace(life, events=(*self.events, event), **changed)

    def rolled_back(self, block: int) -> "Life":
        """As if nothing after `block` had happened."""
        kept = [event for event in self.events if event.place.block <= block]
        if len(kept) == len(self.events):
            return self
        life = Life(self.uuid, self.order, self.parameters)
        for event in kept:
            life = life.step(event)
        return life

    # ---- Windows ----

    @property
    def deadline(self) -> int | None:
        """The last block of what the task waits for, as the market's `deadlineOf`: there None is 0, also while Open."""
        match self.state:
            case State.OPEN:
                return self.order.accept_by
            case State.ACCEPTED:
                return self.since + self.order.exec
            case State.COMMITTED:
                return self.reveal_by if self.mix is not None else self.record_by
            case State.REVEALED:
                return self.demand.by if self.demand is not None else self.challenge_by
            case _:
                return None

    @property
    def exec(self) -> int:
        """Blocks that the executor has for its commit."""
        return self.order.exec

    @property
    def challenge_by(self) -> int:
        """The last block of a challenge to the revealed result."""
        assert self.revealed_at is not None
        return self.revealed_at + economics.challenge_window(self.parameters, self.order.exec)

    @property
    def end(self) -> int:
        """END: until then the executor's stake is locked."""
        assert self.accepted_at is not None
        return self.accepted_at + economics.lifetime(self.parameters, self.order.exec)

    # ---- What it comes to ----

    @property
    def drawn(self) -> bool | None:
        """Whether the task is checked; None until its seed is known."""
        return None if self.mix is None else economics.is_drawn(self.mix, self.uuid, self.order.check_rate)

    @property
    def stake(self) -> int | None:
        """What a conviction takes of the executor's stake, in wei; None before the acceptance."""
        o, p, price = self.order, self.parameters, self.price
        return None if price is None else economics.stake(p, price, o.value_at_risk, o.check_rate, o.verifiers)

    @property
    def demand(self) -> Demanded | None:
        """What the client demands to see, until it is shown."""
        return None if self.shown else self.demanded

    @property
    def agreed(self) -> int:
        """Verifiers that revealed the executor's root."""
        return sum(a.root is not None and a.root == self.outputs_root for a in self.answers.values())

    @property
    def differing(self) -> list[int]:
        """The indices of answers that were revealed to hide another root than the executor's, if it revealed one."""
        return sorted(a.index for a in self.answers.values() if a.root not in (None, self.outputs_root))

    @property
    def open_games(self) -> tuple[int, ...]:
        """The numbers of the games that are being played and still decide something, ascending."""
        if self.state.is_terminal:
            return ()
        return tuple(sorted(number for number, game in self.games.items() if game.executor_lost is None))

    @property
    def counts(self) -> Counts:
        """What the words for the task are made of."""
        return Counts(self.state, len(self.answers), self.agreed, len(self.open_games))

    def answer_by(self, operator: str) -> Answer | None:
        """The answer of an operator, if it gave one."""
        return next((answer for answer in self.answers.values() if answer.operator == operator), None)

    def answer_of(self, game: Game) -> Answer | None:
        """The verifier's answer whose reveal opened a game, and whose bond is at stake in it."""
        for answer in self.answers.values():
            if answer.operator == game.challenger and answer.revealed == game.opened.transaction:
                return answer
        return None

    def has_lost(self, answer: Answer) -> bool:
        """Whether the answer's bond went in a lost game: the one that began when it was opened."""
        lost = (game for game in self.games.values() if game.counted and game.executor_lost is False)
        return any(self.answer_of(game) is answer for game in lost)

    def is_owed(self, answer: Answer) -> bool:
        """Whether something is to be settled after the end: a bond, a fee, or both. A bond that was lost in a game
        leaves at most the fee of a conviction, for the lowest of those that differed."""
        if answer.is_over or not self.has_lost(answer):
            return not answer.is_over
        return self.conviction is not None and answer.index in self.differing[: self.order.verifiers]

    def state_of(self, game: Game) -> str:
        """`open`, `ended`, or `idle`: its task ended before the game did, and its bond is not back."""
        if not self.state.is_terminal:
            return "open" if game.executor_lost is None else "ended"
        # The bond of a verifier's answer comes back when the answer is settled, any other with an event of its own.
        answer = self.answer_of(game)
        is_back = game.returned if answer is None else answer.settled is not None
        return "ended" if game.counted or is_back else "idle"


def fold(happened: Iterable[Happening], parameters: Parameters) -> Life | None:
    """A task after all its events; None as long as its order is not known."""
    life: Life | None = None
    for event in happened:
        if life is None and isinstance(event, Posted):
            life = Life(event.task, event.order, parameters)
        life = life and life.step(event)
    return life


def _forward(event: Event) -> dict[str, Any]:
    """The steps from state to state: what changes."""
    block = event.place.block
    match event:
        case Accepted():
            fixed = {"executor": event.executor, "price": event.price, "collateral": event.collateral}
            return {"state": State.ACCEPTED, "accepted_at": block, "since": block, **fixed}
        case Committed():
            return {"state": State.COMMITTED, "committed_at": block, "since": block, "commitment": event.commitment}
        case Revealed(slot=0):
            revealed = {"outputs_root": event.outputs_root, "revealed_at": block}
            return {"state": State.REVEALED, "since": block, **revealed}
        case Closed():
            return {"state": State.FINAL, "since": block}
        case Failed():
            return {"state": State.FAILED, "penalty": event.penalty, "since": block}
        case Convicted():
            convicted = Conviction(event.cause, event.winner, event.refund, block)
            return {"state": State.CONVICTED, "conviction": convicted, "since": block}
        case Cancelled():
            return {"state": State.CANCELLED, "since": block}
        case Expired():
            return {"state": State.EXPIRED, "since": block}
        case _:
            return {}


def _beside(life: Life, event: Event) -> dict[str, Any]:
    """What happens beside them: answers, games, demands, and payments after the end."""
    match event:
        case Answered():
            return _answered(life, Answer(event.index, event.operator, event.place.block, event.commitment))
        case Revealed(slot=slot) if slot - 1 in life.answers:
            answer = life.answers[slot - 1]
            return _answered(life, replace(answer, root=event.outputs_root, revealed=event.place.transaction))
        case Exposed(slot=slot) if slot - 1 in life.answers:
            return _answered(life, replace(life.answers[slot - 1], exposed=True))
        case Settled(slot=slot) if slot - 1 in life.answers:
            return _answered(life, replace(life.answers[slot - 1], settled=event.amount))
        case Demanded():
            return {"demanded": event}
        case Shown():
            return {"shown": True}
        case Slashed() if life.conviction is not None:
            slash = (event.slash_id, event.shares)
            return {"conviction": replace(life.conviction, slash=slash, slashed_at=event.place.block)}
        case Paid() if life.conviction is not None:
            return {"conviction": replace(life.conviction, paid=event.share)}
        case Opened() | Challenged() | Moved() | Ended() | GameEnded() | BondReturned():
            return _played(life, event)
        case _:
            return {}


def _answered(life: Life, answer: Answer) -> dict[str, Any]:
    return {"answers": {**life.answers, answer.index: answer}}


def _played(life: Life, event: _Played) -> dict[str, Any]:
    """The market and the game tell of a challenge each on its own, in one transaction."""
    game = life.games.get(event.game_id)
    if game is None:
        if not isinstance(event, Opened | Challenged):
            return {}
        game = Game(event.game_id, event.challenger, 0, event.place)
    match event:
        case Challenged():
            game = replace(game, bond=event.bond)
        case Opened() | Moved():
            game = replace(game, position=event.position)
        case Ended():
            game = replace(game, executor_lost=event.executor_lost, reason=event.reason)
        case GameEnded():
            game = replace(game, executor_lost=event.executor_lost, counted=True)
        case BondReturned():
            game = replace(game, returned=True)
    return {"games": {**life.games, game.number: game}}
