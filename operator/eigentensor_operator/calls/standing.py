"""What the chain showed of an operator's pools, and which batch owes a call that is taken now. Not safe for several
threads: the service's lock guards it."""

from collections.abc import Iterable

from eigentensor.channel import BatchState, ChannelState, Sheet, batch_of, events
from eigentensor.channel.life import BatchLife
from eigentensor.channel.pools import ChannelLife, Pools
from eigentensor.economics import Parameters
from eigentensor.errors import ChannelClosed, ServiceBusy
from eigentensor.task import Event

#: Of a batch: each channel, its first call in the batch, its sheet.
Sheets = list[tuple[bytes, int, Sheet]]
#: Blocks after a batch's end for which its calls are kept: the end may be taken back until then.
KEPT = 64


class Standing:
    """Pools with their channels and batches as of block `head`, 0 before it is known; `drained` are the sheets of
    batches by pool and number, `draining` batches that owe nothing more."""

    def __init__(self, parameters: Parameters, seen: Iterable[Event], drained: dict[tuple[bytes, int], Sheets]) -> None:
        self.head = 0
        self.chain = Pools(parameters)
        for event in seen:
            self.chain = self.chain.step(event)
        self.drained = drained
        self.draining = set(drained)

    def observe(self, event: Event, pools: Iterable[bytes]) -> bool:
        """Takes an event of the chain, if it is about one of these pools; whether it was news."""
        if events.KINDS.get(type(event).__name__) is not type(event):
            return False
        if isinstance(event, events.Offered) and event.pool not in pools:
            return False
        before, self.chain = self.chain, self.chain.step(event)
        return self.chain is not before

    def rolled_back(self, block: int) -> None:
        """What happened after a block happened no more."""
        self.chain = self.chain.rolled_back(block)
        self.head = max(0, min(self.head, block))

    def channel(self, pool: bytes, channel: bytes) -> ChannelLife | None:
        """What the chain shows of a channel; None: it is not open there."""
        known = self.chain.pools.get(pool)
        return known.channels.get(channel) if known else None

    def batch(self, pool: bytes, number: int) -> BatchLife | None:
        """A batch that was begun, and whose calls are kept."""
        life = self.chain.batches.get(batch_of(pool, number))
        return life if life is not None and life.state is not BatchState.NONE else None

    def newest(self, pool: bytes) -> BatchLife | None:
        """The newest batch of a pool."""
        known = self.chain.pools.get(pool)
        return self.batch(pool, known.begun) if known and known.begun else None

    def is_over(self, pool: bytes) -> bool:
        """Whether nothing more is served in a pool: a batch of it was convicted."""
        known = self.chain.pools.get(pool)
        lives = self.chain.batches_of(pool)
        return bool(known and known.is_over) or any(life.state is BatchState.CONVICTED for life in lives)

    def number(self, pool: bytes, channel: bytes, reserve: int) -> int:
        """The batch that owes a call of a channel which is taken now. Raises ChannelClosed, ServiceBusy where there is
        none: a batch owes calls after the block of its begin, and until `reserve` blocks before its epoch ends."""
        life = self.channel(pool, channel)
        if life is None or life.state is not ChannelState.OPEN or life.opened_at >= self.head:
            raise ChannelClosed("the channel is not open on chain, or since this block alone")
        if self.is_over(pool):
            raise ChannelClosed("the operator was convicted in this pool", fix="Open a channel with another operator.")
        newest = self.newest(pool)
        if newest is None or newest.state is not BatchState.BEGUN or newest.begun_at >= self.head:
            raise ServiceBusy("no batch is begun that could owe it", fix="Try again in some blocks.")
        if self.head + reserve >= newest.commit_by or (pool, newest.number) in self.draining:
            raise ServiceBusy("the batch at hand is being committed", fix="Try again in some blocks.")
        return newest.number

    def is_committing(self, pool: bytes) -> bool:
        """Whether a batch of a pool is drained, or about to be, and may still be committed."""
        numbers = [number for of, number in self.draining if of == pool]
        lives = [self.batch(pool, number) for number in numbers]
        begun = [life for life in lives if life is not None and life.state is BatchState.BEGUN]
        return any(self.head <= life.commit_by for life in begun)

    def is_due(self, pool: bytes) -> bool:
        """Whether half of the epoch is over of a batch that is not committed: it is as soon as it has calls."""
        begun = (life for life in self.chain.batches_of(pool) if life.state is BatchState.BEGUN)
        return any(life.begun_at + life.offer.epoch // 2 <= self.head <= life.commit_by for life in begun)

    def may_stand(self, pool: bytes, channel: bytes, number: int) -> bool:
        """Whether a channel may have a line in a batch."""
        life = self.channel(pool, channel)
        if life is None:
            return False
        return life.state is ChannelState.OPEN or (life.state is ChannelState.LEFT and number <= life.last)

    def base(self, pool: bytes, channel: bytes) -> tuple[int, int]:
        """Calls and wei of a channel that stand in batches, or in sheets of batches that may still be committed."""
        life = self.channel(pool, channel)
        base = (life.count, life.paid) if life else (0, 0)
        for (of, number), sheets in self.drained.items():
            batch = self.batch(of, number)
            if of == pool and not (batch and batch.state is BatchState.LAPSED):
                for named, _, sheet in sheets:
                    if named == channel and sheet.count > base[0]:
                        base = sheet.count, sheet.amount
        return base

    def lines(self, pool: bytes, number: int) -> list[tuple[bytes, int, int]]:
        """The channels of a batch whose sheets were drained: each with its first call there, and how many it has."""
        life = self.batch(pool, number)
        if life is not None and life.lines:
            return [(line.channel, line.first, line.count) for line in life.lines]
        sheets = self.drained.get((pool, number), [])
        return [(channel, first, sheet.count - first) for channel, first, sheet in sheets]

    def forgettable(self) -> list[tuple[bytes, BatchLife]]:
        """Batches of whose calls nobody can ask any more, each with its pool. What lapsed is owed by the next one."""
        lives = self.chain.batches.values()
        over = (life for life in lives if life.state.is_terminal and life.state is not BatchState.LAPSED)
        return [(self.chain.pool_of[life.batch], life) for life in over if life.since + KEPT <= self.head]

    def forget(self, over: Iterable[tuple[bytes, BatchLife]]) -> None:
        """Knows these batches no more."""
        for pool, life in over:
            self.drained.pop((pool, life.number), None)
            self.chain = self.chain.forgotten([life.batch])
