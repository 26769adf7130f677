"""Which messages about tasks anybody may send, and when. Pure: blocks and lives come in as data."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from eigentensor.dispute.position import Position, Side, deadline_of
from eigentensor.task.life import Life
from eigentensor.task.state import State

#: Tasks that are closed in one transaction.
BATCH = 16
#: A block that never comes.
NEVER = 1 << 62
Key = tuple["Verb", bytes, int]


class Verb(StrEnum):
    """The messages that anybody may send."""

    SEED = "seed"
    EXPIRE = "expire"
    CLOSE = "close"
    TIMEOUT = "timeout"
    SETTLE = "settle"
    REFUND = "refund"
    SLASH = "slash"
    PAY = "pay"


@dataclass(frozen=True, slots=True)
class Due:
    """A message about a task that blocks from `first` to `last` take, as far as its events tell.

    `number` is the seed block, the index of an answer, the game, or the number of the slash.
    """

    verb: Verb
    life: Life
    first: int
    last: int = NEVER
    number: int = 0

    def is_taken(self, block: int) -> bool:
        """Whether that block takes it."""
        return self.first <= block <= self.last


@dataclass(frozen=True, slots=True)
class Action:
    """A message to send. Only CLOSE names more than one task."""

    verb: Verb
    lives: tuple[Life, ...]
    number: int = 0

    @property
    def keys(self) -> list[Key]:
        """What the message is about, task by task, whatever else happened to them."""
        return [(self.verb, life.uuid, self.number) for life in self.lives]


def actions(lives: Iterable[Life], block: int) -> list[Action]:
    """The messages that the next block after `block` would take, in the order of the blocks since which it would."""
    taken = sorted(
        (d for life in lives for d in messages(life) if d.is_taken(block + 1)),
        key=lambda d: (d.first, d.life.uuid, d.number),
    )
    seeds = {d.number: d for d in reversed(taken) if d.verb is Verb.SEED}
    single = [d for d in taken if d.verb not in (Verb.SEED, Verb.CLOSE)]
    closing = [d.life for d in taken if d.verb is Verb.CLOSE]
    return [
        *(Action(Verb.SEED, (d.life,), number) for number, d in sorted(seeds.items())),
        *(Action(d.verb, (d.life,), d.number) for d in single),
        *(Action(Verb.CLOSE, tuple(closing[i : i + BATCH])) for i in range(0, len(closing), BATCH)),
    ]


def awake(life: Life) -> tuple[int, int] | None:
    """The blocks from the first to the last in which something may be due; None: nothing is, unless more happens."""
    windows = list(messages(life))
    return (min(d.first for d in windows), max(d.last for d in windows)) if windows else None


def messages(life: Life) -> Iterator[Due]:
    """What anybody may send about a task, now or later, if nothing else happens to it."""
    by = life.deadline
    if life.state is State.OPEN and by is not None:
        yield Due(Verb.EXPIRE, life, by + 1)
    elif by is not None and (life.demand is not None or not life.open_games):
        yield Due(Verb.CLOSE, life, by + 1)
    if life.state is State.COMMITTED and life.mix is None:
        yield Due(Verb.SEED, life, life.seed_block + 1, life.record_by, life.seed_block)
    if not life.state.is_terminal:
        yield from _timeouts(life)
    yield from _payments(life)


def position_of(life: Life, game: int) -> Position:
    """The position of a game that is being played."""
    position = life.games[game].position
    assert position is not None
    return position


def _timeouts(life: Life) -> Iterator[Due]:
    """Games that end by a clock; of those that the executor loses only the first: it makes the others idle."""
    played = [g for g in life.games.values() if g.executor_lost is None and g.position is not None]
    clocks = [(position_of(life, g.number), g.number) for g in played]
    lost = [(deadline_of(p), n) for p, n in clocks if p.phase.side is Side.EXECUTOR]
    won = [(deadline_of(p), n) for p, n in clocks if p.phase.side is Side.CHALLENGER]
    for last, number in [*sorted(lost)[:1], *won]:
        yield Due(Verb.TIMEOUT, life, last + 1, number=number)


def _payments(life: Life) -> Iterator[Due]:
    """What is left to be paid after the end."""
    if not life.state.is_terminal or life.committed_at is None:
        return
    answered = max(life.since, life.answers_by)
    for answer in life.answers.values():
        if life.is_owed(answer):
            yield Due(Verb.SETTLE, life, (life.since if life.conviction is None else answered) + 1, number=answer.index)
    if life.conviction is None:
        return
    for game in life.games.values():
        if game.is_stranded and life.answer_of(game) is None:
            yield Due(Verb.REFUND, life, life.since + 1, number=game.number)
    if life.conviction.slash is None:
        yield Due(Verb.SLASH, life, answered + 1, life.end)
    elif life.conviction.paid is None and life.conviction.slash[1]:
        yield Due(Verb.PAY, life, life.conviction.slashed_at + 1, number=life.conviction.slash[0])
