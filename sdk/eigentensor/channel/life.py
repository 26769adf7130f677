"""A batch of paid calls as its events tell it, and the windows of what may happen to it. Pure.

The windows have the names and the values of `Batches` in Batches.sol: last blocks, unless named otherwise. Amounts are
wei of the token.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from eigentensor import economics
from eigentensor.channel import events as calls
from eigentensor.channel.deals import Offer
from eigentensor.channel.lines import Line
from eigentensor.channel.state import BatchState, Breach
from eigentensor.dispute.position import Position
from eigentensor.economics import Parameters, shares
from eigentensor.task.candidates import DRAWS
from eigentensor.task.events import Ended, Leaf, Moved, Opened, Seeded
from eigentensor.task.order import Order
from eigentensor.task.windows import Windows

#: What happens to a batch: its begin, its own events, the record of its seed block's random value, moves of its games.
Happening = calls.Begun | calls.BatchEvent | Seeded | Opened | Moved | Ended
_Played = calls.Challenged | calls.GameEnded | calls.BondReturned | Opened | Moved | Ended


@dataclass(frozen=True, slots=True)
class ShareAnswer:
    """A verifier's, by its index 16 g + c. `root` is what it revealed in the block `revealed_at`; `agrees` is None
    before that. `settled` is what it got in the end. `is_lost`: its bond went in a game."""

    index: int
    operator: str
    block: int
    commitment: bytes
    root: bytes | None = None
    agrees: bool | None = None
    settled: int | None = None
    is_lost: bool = False

    @property
    def share(self) -> int:
        """Which share it is about."""
        return self.index // DRAWS

    @property
    def slot(self) -> int:
        """As messages name it."""
        return self.index + 1


@dataclass(frozen=True, slots=True)
class CallGame:
    """A challenge of a call and its dispute; `slot` above 0: with the bond of that answer. `task` is its order's hash,
    `executor_lost` None while it is played; `counted` where the batch took notice of its end."""

    number: int
    challenger: str
    bond: int
    slot: int
    order: Order
    outputs_root: bytes
    block: int
    task: bytes = b""
    position: Position | None = None
    executor_lost: bool | None = None
    counted: bool = False
    returned: bool = False


@dataclass(frozen=True, slots=True)
class CallDemand:
    """Somebody wants to see a call, by its number in the batch, and leaves of its inputs, until block `show_by`."""

    number: int
    leaves: tuple[Leaf, ...]
    by: str
    show_by: int


@dataclass(frozen=True, slots=True)
class ShareDemand:
    """A share is to be justified, since the block `since`; `parts` are there. All of them were in `justified_at`."""

    share: int
    since: int
    slot: int
    parts: frozenset[int] = frozenset()
    justified_at: int | None = None


@dataclass(frozen=True, slots=True)
class BatchConviction:
    """Why and in which block, and who won by it; `slashed_at` is None while nobody has slashed."""

    breach: Breach
    winner: str
    block: int
    slashed_at: int | None = None


@dataclass(frozen=True, slots=True)
class BatchLife(Windows):
    """A batch of a pool: before its begin is in a block its state is NONE. `since` is the block of its last step from
    state to state, `mix` its seed once that is recorded. `events` are what it was made of, in the chain's order."""

    batch: bytes
    number: int
    offer: Offer
    parameters: Parameters
    state: BatchState = BatchState.NONE
    since: int = 0
    begun_at: int = 0
    committed_at: int | None = None
    root: bytes | None = None
    leaves: int = 0
    amount: int = 0
    lines: tuple[Line, ...] = ()
    mix: bytes | None = None
    answers: Mapping[int, ShareAnswer] = field(default_factory=dict)
    revealed_at: int | None = None
    roots: tuple[bytes, ...] = ()
    share_demands: Mapping[int, ShareDemand] = field(default_factory=dict)
    demands: tuple[CallDemand, ...] = ()
    shown: tuple[tuple[calls.Shown, tuple[bytes, ...]], ...] = ()
    """The calls that were shown, each with the leaves beside it; an empty one: there is no such leaf."""
    shown_until: int = 0
    games: Mapping[int, CallGame] = field(default_factory=dict)
    conviction: BatchConviction | None = None
    returned: int = 0
    """What clients get back, in all."""
    refunded: frozenset[bytes] = frozenset()
    """The channels that have it."""
    events: tuple[Happening, ...] = ()
    before: "BatchLife | None" = field(default=None, compare=False, repr=False)
    """The batch before the block of its last event, which a reorganisation may take back."""

    # ---- Learning ----

    def step(self, event: Happening) -> "BatchLife":
        """The batch after one more event of it; the same one twice is once, another batch's seed is none of it."""
        if self.events and event.place <= self.events[-1].place and event in self.events:
            return self
        match event:
            case Seeded():
                if self.committed_at is None or event.seed_block != self.seed_block:
                    return self
                after = replace(self, mix=event.mix)
            case calls.Begun():
                blank = BatchLife(self.batch, self.number, self.offer, self.parameters)
                block = event.place.block
                after = replace(blank, state=BatchState.BEGUN, begun_at=block, since=block)
            case _:
                after = _beside(_forward(self, event), event)
        is_first = not self.events or self.events[-1].place.block < event.place.block
        before = self if is_first else self.before
        return replace(after, events=(*self.events, event), before=before)

    def rolled_back(self, block: int) -> "BatchLife":
        """As if nothing after `block` had happened; takes as many steps as blocks with events of it were after that."""
        life = self
        while life.before is not None and life.events[-1].place.block > block:
            life = life.before
        return life

    # ---- Windows ----

    @property
    def commit_by(self) -> int:
        """The last block of the commit."""
        return self.begun_at + self.offer.epoch

    @property
    def exec(self) -> int:
        """Blocks that the execution of one share may take."""
        return self.offer.exec

    @property
    def demand_by(self) -> int:
        """The last block in which a call is demanded."""
        assert self.committed_at is not None
        return self.committed_at + shares.window(self.parameters, self.offer.exec)

    @property
    def dispute_by(self) -> int:
        """The last block in which a call is disputed."""
        return max(self.demand_by, self.shown_until)

    @property
    def lock_end(self) -> int:
        """Until then the operator's stake is locked."""
        return self.begun_at + shares.lifetime(self.parameters, self.offer.exec, self.offer.epoch)

    @property
    def clock(self) -> int:
        """Blocks for a demand, and for all moves of one side of a game."""
        return economics.clock(self.parameters, self.offer.exec)

    @property
    def close_from(self) -> int | None:
        """The first block that closes the batch if nothing else happens to it; None: a game or a demand is open, or it
        is over."""
        if self.state is BatchState.BEGUN:
            return self.commit_by + self.parameters.challenge + 1
        if self.state is not BatchState.COMMITTED or self.open_games or self.open_demands or self.open_share_demands:
            return None
        assert self.committed_at is not None
        if not self.leaves:
            return self.committed_at + self.parameters.challenge + 1
        if self.mix is None and not self.answers:
            return self.record_by + 1
        return self.dispute_by + 1

    # ---- The draw ----

    @property
    def shares(self) -> int:
        """How many shares there are."""
        return shares.shares(self.leaves, self.offer.verifiers)

    def numbers(self, share: int) -> tuple[int, ...]:
        """The calls of a share by their numbers, in the order in which they are drawn, once the seed is known."""
        assert self.mix is not None
        terms = self.leaves, self.offer.check_rate, self.offer.verifiers
        return shares.numbers(self.mix, self.batch, *terms, share)

    def parts(self, share: int) -> int:
        """In how many parts a share is justified."""
        assert self.mix is not None
        terms = self.leaves, self.offer.check_rate, self.offer.verifiers
        return -(-shares.calls_of(self.mix, self.batch, *terms, share) // shares.PART)

    def line_of(self, number: int) -> int:
        """The position of the line in which a call stands."""
        return next(at for at, line in enumerate(self.lines) if line.index_of(number) is not None)

    # ---- What it comes to ----

    @property
    def bond(self) -> int:
        """B: what an answer or a challenge holds."""
        return economics.bond(self.parameters, self.offer.max_price)

    @property
    def fee(self) -> int:
        """v: what the verifier of a share is paid."""
        k = shares.checked(self.leaves, self.offer.check_rate, self.offer.verifiers)
        return shares.fee(self.parameters, self.offer.check_price, k, self.shares) if self.leaves else 0

    @property
    def open_games(self) -> tuple[int, ...]:
        """The numbers of the games that are being played and still decide something, ascending."""
        if self.state.is_terminal:
            return ()
        return tuple(sorted(number for number, game in self.games.items() if game.executor_lost is None))

    @property
    def open_demands(self) -> tuple[CallDemand, ...]:
        """Demands that may be open. Events do not tell apart demands of one call and of equally many leaves: all of
        them stay until as many were shown."""
        if self.state is not BatchState.COMMITTED:
            return ()
        met = Counter((event.number, len(leaves)) for event, leaves in self.shown)
        made = Counter((d.number, len(d.leaves)) for d in self.demands)
        return tuple(d for d in self.demands if met[d.number, len(d.leaves)] < made[d.number, len(d.leaves)])

    @property
    def open_share_demands(self) -> tuple[ShareDemand, ...]:
        """Shares that are still to be justified."""
        if self.state is not BatchState.COMMITTED:
            return ()
        return tuple(d for d in self.share_demands.values() if d.justified_at is None)

    def agreed(self, share: int) -> ShareAnswer | None:
        """The answer that is paid for a share: the lowest of those that agree."""
        agreeing = (a for a in self.answers.values() if a.share == share and a.agrees)
        return min(agreeing, key=lambda answer: answer.index, default=None)

    def answer_by(self, operator: str) -> ShareAnswer | None:
        """The answer of an operator, if it gave one."""
        return next((answer for answer in self.answers.values() if answer.operator == operator), None)

    def payout(self, answer: ShareAnswer) -> int:
        """What an answer gets when it is settled after the end; 0 for one that was settled, and before the end."""
        if answer.settled is not None or answer.is_lost:
            return 0
        if self.state is BatchState.CONVICTED:
            return self.bond
        if self.state is not BatchState.FINAL or not answer.agrees:
            return 0
        return self.bond + (self.fee if self.agreed(answer.share) is answer else 0)

    def unrefunded(self) -> Iterator[int]:
        """The positions of lines whose clients have not got what they get back."""
        if self.state.is_terminal and self.returned:
            for position, line in enumerate(self.lines):
                if line.channel not in self.refunded:
                    yield position

    def shown_call(self, number: int) -> calls.Shown | None:
        """What was shown of a call, if it was."""
        return next((event for event, _ in self.shown if event.number == number), None)


def _forward(life: BatchLife, event: Happening) -> BatchLife:
    """The steps from state to state."""
    block = event.place.block
    match event:
        case calls.Committed():
            fixed = replace(life, root=event.root, leaves=event.leaves, amount=event.amount)
            return replace(fixed, state=BatchState.COMMITTED, committed_at=block, since=block)
        case calls.Closed():
            return replace(life, state=event.state, returned=event.returned, since=block)
        case calls.Convicted():
            conviction = BatchConviction(event.breach, event.winner, block)
            over = replace(life, state=BatchState.CONVICTED, conviction=conviction, since=block)
            return replace(over, returned=life.amount)
        case _:
            return life


def _beside(life: BatchLife, event: Happening) -> BatchLife:
    """What happens beside them."""
    block = event.place.block
    match event:
        case calls.Lined():
            return replace(life, lines=(*life.lines, event.line))
        case calls.Answered():
            return _answered(life, ShareAnswer(event.index, event.operator, block, event.commitment))
        case calls.RootsRevealed():
            return replace(life, revealed_at=block, roots=event.roots)
        case calls.Revealed(slot=slot) if slot - 1 in life.answers:
            return _revealed(life, replace(life.answers[slot - 1], root=event.root, agrees=event.agrees), block)
        case calls.Settled(slot=slot) if slot - 1 in life.answers:
            return _answered(life, replace(life.answers[slot - 1], settled=event.amount))
        case calls.Justified(share=share) if share in life.share_demands:
            return _justified(life, life.share_demands[share], event.part, block)
        case calls.Demanded():
            demand = CallDemand(event.number, event.leaves, event.by, event.show_by)
            return replace(life, demands=(*life.demands, demand))
        case calls.Shown():
            shown = (*life.shown, (event, ()))
            return replace(life, shown=shown, shown_until=block + life.parameters.reveal)
        case calls.LeafShown() if life.shown:
            *before, (last, leaves) = life.shown
            return replace(life, shown=(*before, (last, (*leaves, event.data))))
        case calls.Refunded():
            return replace(life, refunded=life.refunded | {event.channel})
        case calls.Slashed() if life.conviction is not None:
            return replace(life, conviction=replace(life.conviction, slashed_at=block))
        case calls.Challenged() | calls.GameEnded() | calls.BondReturned() | Opened() | Moved() | Ended():
            return _played(life, event)
        case _:
            return life


def _answered(life: BatchLife, answer: ShareAnswer) -> BatchLife:
    return replace(life, answers={**life.answers, answer.index: answer})


def _revealed(life: BatchLife, answer: ShareAnswer, block: int) -> BatchLife:
    """The first answer that differs demands its share."""
    life, share = _answered(life, answer), answer.share
    if answer.agrees or share in life.share_demands:
        return life
    return _demanded(life, ShareDemand(share, block, answer.slot))


def _demanded(life: BatchLife, demand: ShareDemand) -> BatchLife:
    return replace(life, share_demands={**life.share_demands, demand.share: demand})


def _justified(life: BatchLife, demand: ShareDemand, part: int, block: int) -> BatchLife:
    demand = replace(demand, parts=demand.parts | {part})
    if len(demand.parts) < life.parts(demand.share):
        return _demanded(life, demand)
    life = replace(life, shown_until=block + life.parameters.reveal)
    return _demanded(life, replace(demand, justified_at=block))


def _played(life: BatchLife, event: _Played) -> BatchLife:
    """The channels and the game tell of a challenge each on its own, in one transaction."""
    if isinstance(event, calls.Challenged):
        about = event.order, event.outputs_root, event.place.block
        game = CallGame(event.game_id, event.challenger, event.bond, event.slot, *about)
    elif event.game_id in life.games:
        game = life.games[event.game_id]
    else:
        return life
    match event:
        case Opened():
            game = replace(game, task=event.task, position=event.position)
        case Moved():
            game = replace(game, position=event.position)
        case Ended():
            game = replace(game, executor_lost=event.executor_lost)
        case calls.GameEnded():
            game = replace(game, executor_lost=event.executor_lost, counted=True)
            if game.slot and not event.executor_lost and (answer := life.answers.get(game.slot - 1)) is not None:
                life = _answered(life, replace(answer, is_lost=True))
        case calls.BondReturned():
            game = replace(game, returned=True)
    return replace(life, games={**life.games, game.number: game})
