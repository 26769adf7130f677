"""The pools of a market for paid calls with their channels and batches, as events tell them. Pure.

A reorganisation costs what it takes back: of each event a pool remembers what it changed, of each block a batch what it
was before.

`Pools.step` takes every event of the market for paid calls, of its games, and the records of seeds, in the order of the
chain; what is about nothing that is known changes nothing. `forgotten` batches are not known any more.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from eigentensor.channel import events as calls
from eigentensor.channel.deals import Deal, Offer
from eigentensor.channel.life import BatchLife
from eigentensor.channel.state import BatchState, ChannelState
from eigentensor.economics import Parameters
from eigentensor.task.events import Ended, Event, Moved, Opened, Seeded


@dataclass(frozen=True, slots=True)
class ChannelLife:
    """A channel since its opening in the block `opened_at`: wei that are left and that its batches came to, its
    committed calls, and once it was left the number of the last batch that it may stand in."""

    deal: Deal
    opened_at: int
    deposit: int
    paid: int = 0
    count: int = 0
    state: ChannelState = ChannelState.OPEN
    last: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """An event of a pool, the one `behind` it, and what it changed as it was before: the pool's marks and, if the event
    is about a channel, that channel (None: it was not open)."""

    event: Event
    behind: "Change | None"
    begun: int
    is_over: bool
    channel: bytes | None
    was: ChannelLife | None


@dataclass(frozen=True, slots=True)
class PoolLife:
    """A pool since its offer. `begun` is the number of its newest batch, 0 before; `is_over`: a batch was convicted
    before its commit, so that no batch is begun or committed any more."""

    pool: bytes
    offer: Offer
    begun: int = 0
    is_over: bool = False
    channels: Mapping[bytes, ChannelLife] = field(default_factory=dict)
    last: Change | None = field(default=None, compare=False, repr=False)

    @property
    def events(self) -> tuple[Event, ...]:
        """Its events, those of its channels, and the begins and lines of its batches, in the chain's order."""
        return tuple(self.events_since(None))

    def events_since(self, known: "PoolLife | None") -> list[Event]:
        """Those that it learned since it was `known`; all of them if it was not, or a reorganisation came between."""
        stop, news, change = known.last if known else None, list[Event](), self.last
        while change is not None and change is not stop:
            news.append(change.event)
            change = change.behind
        return news[::-1]

    def step(self, event: Event) -> "PoolLife":
        """The pool after one more event of it, its channels or its batches; the same one twice is once."""
        change = self.last
        while change is not None and event.place <= change.event.place:
            if change.event == event:
                return self
            change = change.behind
        name = _channel_of(event)
        was = None if name is None else self.channels.get(name)
        last = Change(event, self.last, self.begun, self.is_over, name, was)
        return replace(_pool_after(self, event), last=last)

    def rolled_back(self, block: int) -> "PoolLife | None":
        """As if nothing after `block` had happened; None: then it was not offered. Takes as many steps as events of it
        were after that."""
        change, after = self.last, self
        changed: dict[bytes, ChannelLife | None] = {}
        while change is not None and change.event.place.block > block:
            after = replace(after, begun=change.begun, is_over=change.is_over, last=change.behind)
            if change.channel is not None:
                changed[change.channel] = change.was
            change = change.behind
        if not changed:
            return after if change is not None else None
        channels = {name: life for name, life in {**self.channels, **changed}.items() if life is not None}
        return replace(after, channels=channels) if change is not None else None

    @property
    def open_channels(self) -> int:
        """How many channels may stand in its next batch."""
        return sum(channel.state is ChannelState.OPEN for channel in self.channels.values())


@dataclass(frozen=True, slots=True)
class Pools:
    """All that is known. `of_channel` are pools, `of_task` batches, by what is asked for; `opened` are the games of the
    transaction at hand, of which the channels have not told yet."""

    parameters: Parameters
    pools: Mapping[bytes, PoolLife] = field(default_factory=dict)
    batches: Mapping[bytes, BatchLife] = field(default_factory=dict)
    pool_of: Mapping[bytes, bytes] = field(default_factory=dict)
    """The pool of a batch."""
    of_channel: Mapping[bytes, bytes] = field(default_factory=dict)
    of_task: Mapping[bytes, bytes] = field(default_factory=dict)
    opened: tuple[Opened, ...] = ()

    # ---- Learning ----

    def step(self, event: Event) -> "Pools":
        """After one more event; itself where the event is about nothing that is known."""
        match event:
            case calls.Offered():
                pool = self.pools.get(event.pool) or PoolLife(event.pool, event.offer)
                return self._with_pool(pool.step(event))
            case calls.Begun() if event.pool in self.pools:
                pool = self.pools[event.pool]
                blank = BatchLife(event.batch, event.number, pool.offer, self.parameters)
                known = self.batches.get(event.batch, blank)
                named = replace(self, pool_of={**self.pool_of, event.batch: event.pool})
                return named._with_pool(pool.step(event))._with_batch(known.step(event))
            case calls.Opened() if event.pool in self.pools:
                named = replace(self, of_channel={**self.of_channel, event.channel: event.pool})
                return named._with_pool(self.pools[event.pool].step(event))
            case calls.ChannelEvent() if event.channel in self.of_channel:
                return self._with_pool(self.pools[self.of_channel[event.channel]].step(event))
            case calls.BatchEvent() if event.batch in self.batches:
                return self._happened(event)
            case Seeded():
                return self._seeded(event)
            case Opened():
                same = (other for other in self.opened if other.place.transaction == event.place.transaction)
                return replace(self, opened=(*same, event))
            case Moved() | Ended() if event.task in self.of_task:
                return self._with_batch(self.batches[self.of_task[event.task]].step(event))
            case _:
                return self

    def _happened(self, event: calls.BatchEvent) -> "Pools":
        life, after, pool = self.batches[event.batch], self, self.pools[self.pool_of[event.batch]]
        ends_pool = isinstance(event, calls.Convicted) and life.state is BatchState.BEGUN
        if ends_pool or (isinstance(event, calls.Lined) and event.line.channel in pool.channels):
            after = after._with_pool(pool.step(event))
        life = life.step(event)
        if isinstance(event, calls.Challenged):
            # The game tells of its opening first, when nobody knows yet which batch it is about.
            for opened in self.opened:
                if (opened.place.transaction, opened.game_id) == (event.place.transaction, event.game_id):
                    life = life.step(opened)
                    after = replace(after, of_task={**after.of_task, opened.task: event.batch})
        return after._with_batch(life)

    def _seeded(self, event: Seeded) -> "Pools":
        after = self
        for life in self.batches.values():
            after = after._with_batch(life.step(event))
        return after

    def _with_pool(self, pool: PoolLife) -> "Pools":
        return self if self.pools.get(pool.pool) is pool else replace(self, pools={**self.pools, pool.pool: pool})

    def _with_batch(self, life: BatchLife) -> "Pools":
        if self.batches.get(life.batch) is life:
            return self
        return replace(self, batches={**self.batches, life.batch: life})

    # ---- Unlearning ----

    def rolled_back(self, block: int) -> "Pools":
        """As if nothing after `block` had happened."""
        pools = {name: kept for name, life in self.pools.items() if (kept := life.rolled_back(block)) is not None}
        batches = {name: life.rolled_back(block) for name, life in self.batches.items()}
        begun = {name: life for name, life in batches.items() if life.state is not BatchState.NONE}
        return self._of(pools, begun)

    def forgotten(self, batches: Iterable[bytes]) -> "Pools":
        """Without these batches, of which nothing more is heard; their pools stay."""
        gone = frozenset(batches)
        return self._of(self.pools, {name: life for name, life in self.batches.items() if name not in gone})

    def _of(self, pools: Mapping[bytes, PoolLife], batches: Mapping[bytes, BatchLife]) -> "Pools":
        return Pools(
            self.parameters,
            pools,
            batches,
            {name: pool for name, pool in self.pool_of.items() if name in batches},
            {name: of for name, of in self.of_channel.items() if of in pools and name in pools[of].channels},
            {game.task: name for name, life in batches.items() for game in life.games.values() if game.task},
        )

    # ---- What it comes to ----

    def batches_of(self, pool: bytes) -> list[BatchLife]:
        """The batches of a pool that are known, in the order of their numbers."""
        lives = (self.batches[name] for name, of in self.pool_of.items() if of == pool)
        return sorted(lives, key=lambda life: life.number)

    def uncommitted(self, pool: bytes, block: int) -> list[BatchLife]:
        """The batches of a pool that are begun and can be committed in a block."""
        begun = (life for life in self.batches_of(pool) if life.state is BatchState.BEGUN)
        return [life for life in begun if block <= life.commit_by]


def _channel_of(event: Event) -> bytes | None:
    """The channel that an event is about, if it is about one."""
    if isinstance(event, calls.Lined):
        return event.line.channel
    return event.channel if isinstance(event, calls.ChannelEvent) else None


def _pool_after(pool: PoolLife, event: Event) -> PoolLife:
    match event:
        case calls.Begun():
            return replace(pool, begun=max(pool.begun, event.number))
        case calls.Convicted():
            return replace(pool, is_over=True)
        case calls.Opened():
            return _with(pool, event.channel, ChannelLife(event.deal, event.place.block, event.deposit))
        case calls.Lined():
            return _with(pool, event.line.channel, _lined(pool.channels[event.line.channel], event))
        case calls.ChannelEvent() if event.channel in pool.channels:
            return _with(pool, event.channel, _channel_after(pool.channels[event.channel], event))
        case _:
            return pool


def _with(pool: PoolLife, name: bytes, channel: ChannelLife) -> PoolLife:
    return replace(pool, channels={**pool.channels, name: channel})


def _lined(channel: ChannelLife, event: calls.Lined) -> ChannelLife:
    count, amount = event.line.first + event.line.count, event.line.amount
    return replace(channel, count=count, deposit=channel.deposit - amount, paid=channel.paid + amount)


def _channel_after(channel: ChannelLife, event: calls.ChannelEvent) -> ChannelLife:
    match event:
        case calls.Funded():
            return replace(channel, deposit=channel.deposit + event.amount)
        case calls.Left():
            return replace(channel, state=ChannelState.LEFT, last=event.last)
        case calls.Concluded():
            return replace(channel, state=ChannelState.CONCLUDED, paid=event.amount, deposit=0)
        case calls.Ended():
            return replace(channel, state=ChannelState.ENDED, deposit=0)
        case _:
            return channel
