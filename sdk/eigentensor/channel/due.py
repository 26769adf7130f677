"""Which messages about batches of paid calls anybody may send, and when. Pure: blocks and lives come in as data."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from eigentensor.channel.life import BatchLife, CallDemand
from eigentensor.channel.state import BatchState
from eigentensor.dispute.position import Side, deadline_of

#: A block that never comes.
NEVER = 1 << 62


class BatchVerb(StrEnum):
    """The messages that anybody may send."""

    SEED = "seed"
    CLOSE = "close_batch"
    TIMEOUT = "timeout_call"
    DENOUNCE = "denounce"
    DENOUNCE_SHARE = "denounce_share"
    SETTLE = "settle_batch"
    REFUND_BOND = "refund_bond"
    SLASH = "slash_batch"


Key = tuple[BatchVerb, bytes, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class BatchDue:
    """A message about a batch that blocks from `first` to `last` take, as far as its events tell.

    `numbers` are the seed block, the game, the share or the answers; `demand` is what was not shown.
    """

    verb: BatchVerb
    life: BatchLife
    first: int
    last: int = NEVER
    numbers: tuple[int, ...] = ()
    demand: CallDemand | None = None

    @property
    def key(self) -> Key:
        """What the message is about, whatever else happened to the batch."""
        about = self.numbers if self.demand is None else (self.demand.number, len(self.demand.leaves))
        return self.verb, self.life.batch, about

    def is_taken(self, block: int) -> bool:
        """Whether that block takes it."""
        return self.first <= block <= self.last


def actions(lives: Iterable[BatchLife], block: int) -> list[BatchDue]:
    """The messages that the next block after `block` would take, in the order of the blocks since which it would; of a
    seed block once."""
    taken = sorted(
        (due for life in lives for due in messages(life) if due.is_taken(block + 1)),
        key=lambda due: (due.first, due.life.batch, due.numbers),
    )
    seeds = {due.numbers: due for due in reversed(taken) if due.verb is BatchVerb.SEED}
    return [*seeds.values(), *(due for due in taken if due.verb is not BatchVerb.SEED)]


def awake(life: BatchLife) -> tuple[int, int] | None:
    """The blocks from the first to the last in which something may be due; None: nothing is, unless more happens."""
    windows = list(messages(life))
    return (min(due.first for due in windows), max(due.last for due in windows)) if windows else None


def messages(life: BatchLife) -> Iterator[BatchDue]:
    """What anybody may send about a batch, now or later, if nothing else happens to it."""
    if (first := life.close_from) is not None:
        yield BatchDue(BatchVerb.CLOSE, life, first)
    if life.state is BatchState.COMMITTED:
        yield from _running(life)
    if life.state in (BatchState.FINAL, BatchState.CONVICTED):
        yield from _payments(life)


def _running(life: BatchLife) -> Iterator[BatchDue]:
    if life.mix is None and life.leaves:
        seed = life.seed_block
        yield BatchDue(BatchVerb.SEED, life, seed + 1, life.record_by, (seed,))
    yield from _timeouts(life)
    for demand in life.open_demands:
        yield BatchDue(BatchVerb.DENOUNCE, life, demand.show_by + 1, demand=demand)
    for share in life.open_share_demands:
        yield BatchDue(BatchVerb.DENOUNCE_SHARE, life, share.since + life.clock + 1, numbers=(share.share,))


def _timeouts(life: BatchLife) -> Iterator[BatchDue]:
    """Games that end by a clock; of those that the operator loses only the first: it makes the others idle."""
    clocks = [(p, n) for n in life.open_games if (p := life.games[n].position) is not None]
    lost = sorted((deadline_of(p), n) for p, n in clocks if p.phase.side is Side.EXECUTOR)
    won = [(deadline_of(p), n) for p, n in clocks if p.phase.side is Side.CHALLENGER]
    for last, number in [*lost[:1], *won]:
        yield BatchDue(BatchVerb.TIMEOUT, life, last + 1, numbers=(number,))


def _payments(life: BatchLife) -> Iterator[BatchDue]:
    """What is left to be paid after the end. Who differed has a part of the slash only as long as its answer is not
    settled: that comes after the slash, or when nothing can be slashed any more."""
    held = [answer for answer in life.answers.values() if answer.settled is None and not answer.is_lost]
    first = life.since + 1
    conviction = life.conviction
    if conviction is not None and conviction.slashed_at is None:
        yield BatchDue(BatchVerb.SLASH, life, first, life.lock_end)
        waiting = tuple(sorted(answer.index for answer in held if answer.agrees is False))
        held = [answer for answer in held if answer.agrees is not False]
        if waiting:
            yield BatchDue(BatchVerb.SETTLE, life, life.lock_end + 1, numbers=waiting)
    if held:
        yield BatchDue(BatchVerb.SETTLE, life, first, numbers=tuple(sorted(answer.index for answer in held)))
    if conviction is not None:
        for game in life.games.values():
            if not (game.slot or game.counted or game.returned):
                yield BatchDue(BatchVerb.REFUND_BOND, life, first, numbers=(game.number,))
