"""What happened to a task: a fold over its events. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from eigentensor import economics
from eigentensor.chain import (
    Accepted,
    Answered,
    BondReturned,
    Cancelled,
    Cause,
    Challenged,
    Closed,
    Committed,
    Convicted,
    Demanded,
    Ended,
    Expired,
    Exposed,
    Failed,
    GameEnded,
    Moved,
    Opened,
    Order,
    Paid,
    Place,
    Posted,
    Revealed,
    Settled,
    Shown,
    Slashed,
    State,
    TaskEvent,
)
from eigentensor.dispute import Position


@dataclass(frozen=True, slots=True)
class Answer:
    """A verifier's, by the index of its draw. `root` is what it revealed, in the transaction `revealed`; `settled` is
    what it got in the end, in wei. Somebody else may have `exposed` it too early: then it counts for nothing."""

    index: int
    operator: str
    block: int
    root: bytes | None = None
    revealed: bytes | None = None
    settled: int | None = None
    exposed: bool = False


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


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task as its events tell it. `since` is the block of its last step, `mix` its seed once that is recorded,
    `show_by` the last block for leaves of its outputs that are demanded and not shown."""

    task: bytes
    order: Order
    state: State
    posted: Place
    since: int
    executor: str | None = None
    price: int | None = None
    collateral: int | None = None
    accepted_at: int | None = None
    committed_at: int | None = None
    revealed_at: int | None = None
    outputs_root: bytes | None = None
    penalty: int | None = None
    show_by: int | None = None
    conviction: Conviction | None = None
    mix: bytes | None = None
    answers: Mapping[int, Answer] = field(default_factory=dict)
    games: Mapping[int, Game] = field(default_factory=dict)

    @property
    def drawn(self) -> bool | None:
        """Whether the task is checked; None until its seed is known."""
        return None if self.mix is None else economics.is_drawn(self.mix, self.task, self.order.check_rate)

    @property
    def agreeing(self) -> int:
        """Verifiers that revealed the executor's root."""
        return sum(a.root is not None and a.root == self.outputs_root for a in self.answers.values())

    @property
    def is_contested(self) -> bool:
        """Whether a game is being played that still decides something."""
        return not self.state.is_terminal and any(g.executor_lost is None for g in self.games.values())

    def state_of(self, game: Game) -> str:
        """`open`, `ended`, or `idle`: its task ended before the game did, and its bond is not back."""
        if not self.state.is_terminal:
            return "open" if game.executor_lost is None else "ended"
        # The bond of a verifier's answer comes back when the answer is settled, any other with an event of its own.
        answer = self.answer_of(game)
        is_back = game.returned if answer is None else answer.settled is not None
        return "ended" if game.counted or is_back else "idle"

    def answer_of(self, game: Game) -> Answer | None:
        """The verifier's answer whose reveal opened a game, and whose bond is at stake in it."""
        for answer in self.answers.values():
            if answer.operator == game.challenger and answer.revealed == game.opened.transaction:
                return answer
        return None


def fold(happened: Iterable[TaskEvent], mix: bytes | None = None) -> TaskView | None:
    """A task after all its events; None as long as its order is not known."""
    view: TaskView | None = None
    for event in happened:
        view = step(view, event)
    return view and replace(view, mix=mix)


def step(view: TaskView | None, event: TaskEvent) -> TaskView | None:
    """The task after one more event."""
    if isinstance(event, Posted):
        return TaskView(event.task, event.order, State.OPEN, event.place, event.place.block)
    if view is None:
        return None
    return _beside(_forward(view, event), event)


def _forward(view: TaskView, event: TaskEvent) -> TaskView:
    """The steps from state to state."""
    block = event.place.block
    match event:
        case Accepted():
            fixed = replace(view, executor=event.executor, price=event.price, collateral=event.collateral)
            return replace(fixed, state=State.ACCEPTED, accepted_at=block, since=block)
        case Committed():
            return replace(view, state=State.COMMITTED, committed_at=block, since=block)
        case Revealed(slot=0):
            return replace(view, state=State.REVEALED, outputs_root=event.outputs_root, revealed_at=block, since=block)
        case Closed():
            return replace(view, state=State.FINAL, since=block)
        case Failed():
            return replace(view, state=State.FAILED, penalty=event.penalty, since=block)
        case Convicted():
            convicted = Conviction(event.cause, event.winner, event.refund, block)
            return replace(view, state=State.CONVICTED, conviction=convicted, since=block)
        case Cancelled():
            return replace(view, state=State.CANCELLED, since=block)
        case Expired():
            return replace(view, state=State.EXPIRED, since=block)
        case _:
            return view


def _beside(view: TaskView, event: TaskEvent) -> TaskView:
    """What happens beside them: answers, games, demands, and payments after the end."""
    match event:
        case Answered():
            return _answered(view, Answer(event.index, event.operator, event.place.block))
        case Revealed(slot=slot) if slot - 1 in view.answers:
            answer = view.answers[slot - 1]
            return _answered(view, replace(answer, root=event.outputs_root, revealed=event.place.transaction))
        case Exposed(slot=slot) if slot - 1 in view.answers:
            return _answered(view, replace(view.answers[slot - 1], exposed=True))
        case Settled(slot=slot) if slot - 1 in view.answers:
            return _answered(view, replace(view.answers[slot - 1], settled=event.amount))
        case Demanded():
            return replace(view, show_by=event.by)
        case Shown():
            return replace(view, show_by=None)
        case Slashed() if view.conviction is not None:
            slash = (event.slash_id, event.shares)
            return replace(view, conviction=replace(view.conviction, slash=slash, slashed_at=event.place.block))
        case Paid() if view.conviction is not None:
            return replace(view, conviction=replace(view.conviction, paid=event.share))
        case Opened() | Challenged() | Moved() | Ended() | GameEnded() | BondReturned():
            return _played(view, event)
        case _:
            return view


def _answered(view: TaskView, answer: Answer) -> TaskView:
    return replace(view, answers={**view.answers, answer.index: answer})


def _played(view: TaskView, event: Opened | Challenged | Moved | Ended | GameEnded | BondReturned) -> TaskView:
    """The market and the game tell of a challenge each on its own, in one transaction."""
    game = view.games.get(event.game_id)
    if game is None:
        if not isinstance(event, Opened | Challenged):
            return view
        game = Game(event.game_id, event.challenger, 0, event.place)
    match event:
        case Challenged():
            game = replace(game, bond=event.bond)
        case Opened() | Moved():
            game = replace(game, position=event.position)
        case Ended():
            game = replace(game, executor_lost=event.executor_lost)
        case GameEnded():
            game = replace(game, executor_lost=event.executor_lost, counted=True)
        case BondReturned():
            game = replace(game, returned=True)
    return replace(view, games={**view.games, game.number: game})
