"""Which messages that anybody may send are due. Pure: blocks and events come in as data."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from eigentensor import economics
from eigentensor.chain import State
from eigentensor.dispute import Position, Side, deadline_of
from eigentensor_aggregator.tasks import Answer, TaskView

#: Tasks that are closed in one transaction.
BATCH = 16
#: A block that never comes.
NEVER = 1 << 62
Key = tuple["Verb", bytes, int]


class Verb(StrEnum):
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
    task: TaskView
    first: int
    last: int = NEVER
    number: int = 0


@dataclass(frozen=True, slots=True)
class Action:
    """A message to send. Only CLOSE names more than one task."""

    verb: Verb
    tasks: tuple[TaskView, ...]
    number: int = 0

    @property
    def keys(self) -> list[Key]:
        """What the message is about, task by task, whatever else happened to them."""
        return [(self.verb, view.task, self.number) for view in self.tasks]


class Pause(NamedTuple):
    """A message that was refused rests before block `until`; the next time for `blocks`."""

    until: int = 0
    blocks: int = 0


def deadline(view: TaskView, p: economics.Parameters) -> int | None:
    """The last block of what the task waits for; None in terminal states."""
    match view.state:
        case State.OPEN:
            return view.order.accept_by
        case State.ACCEPTED:
            return view.since + view.order.exec
        case State.COMMITTED:
            return reveal_by(view, p) if view.mix is not None else seed_block(view, p) + p.record
        case State.REVEALED:
            return view.show_by or challenge_by(view, p)
        case _:
            return None


def seed_block(view: TaskView, p: economics.Parameters) -> int:
    """S: the block whose randomness decides whether a committed task is checked."""
    assert view.committed_at is not None
    return economics.seed_block(view.committed_at, p.lag, p.grid)


def reveal_by(view: TaskView, p: economics.Parameters) -> int:
    return seed_block(view, p) + economics.reveal_window(p, view.order.exec)


def challenge_by(view: TaskView, p: economics.Parameters) -> int:
    assert view.revealed_at is not None
    return view.revealed_at + economics.challenge_window(p, view.order.exec)


def verifiers_by(view: TaskView, p: economics.Parameters) -> int:
    """The last block in which a verifier reveals."""
    return (view.revealed_at or reveal_by(view, p)) + p.reveal


def due(views: Iterable[TaskView], p: economics.Parameters, block: int) -> list[Action]:
    """The messages that the next block after `block` would take, in the order of the blocks since which it would."""
    found = sorted(
        (d for view in views for d in messages(view, p) if d.first <= block + 1 <= d.last),
        key=lambda d: (d.first, d.task.task, d.number),
    )
    seeds = {d.number: d for d in reversed(found) if d.verb is Verb.SEED}
    single = [d for d in found if d.verb not in (Verb.SEED, Verb.CLOSE)]
    closing = [d.task for d in found if d.verb is Verb.CLOSE]
    return [
        *(Action(Verb.SEED, (d.task,), number) for number, d in sorted(seeds.items())),
        *(Action(d.verb, (d.task,), d.number) for d in single),
        *(Action(Verb.CLOSE, tuple(closing[i : i + BATCH])) for i in range(0, len(closing), BATCH)),
    ]


def rested(actions: Iterable[Action], pauses: Mapping[Key, Pause], block: int) -> Iterator[Action]:
    """The messages without the tasks that rest: those hold up no others."""
    for action in actions:
        ready = zip(action.keys, action.tasks, strict=True)
        tasks = tuple(view for key, view in ready if pauses.get(key, Pause()).until <= block)
        if tasks:
            yield replace(action, tasks=tasks)


def awake(view: TaskView, p: economics.Parameters) -> tuple[int, int] | None:
    """The blocks from the first to the last in which something may be due; None: nothing is, unless more happens."""
    windows = list(messages(view, p))
    return (min(d.first for d in windows), max(d.last for d in windows)) if windows else None


def messages(view: TaskView, p: economics.Parameters) -> Iterator[Due]:
    """What anybody may send about a task, now or later, if nothing else happens to it."""
    by = deadline(view, p)
    if view.state is State.OPEN and by is not None:
        yield Due(Verb.EXPIRE, view, by + 1)
    elif by is not None and (view.show_by is not None or not view.is_contested):
        yield Due(Verb.CLOSE, view, by + 1)
    if view.state is State.COMMITTED and view.mix is None:
        seed = seed_block(view, p)
        yield Due(Verb.SEED, view, seed + 1, seed + p.record, seed)
    if not view.state.is_terminal:
        yield from _timeouts(view)
    yield from _payments(view, p)


def _timeouts(view: TaskView) -> Iterator[Due]:
    """Games that end by a clock; of those that the executor loses only the first: it makes the others idle."""
    played = [g for g in view.games.values() if g.executor_lost is None and g.position is not None]
    found = [(position_of(view, g.number), g.number) for g in played]
    lost = [(deadline_of(p), n) for p, n in found if p.phase.side is Side.EXECUTOR]
    won = [(deadline_of(p), n) for p, n in found if p.phase.side is Side.CHALLENGER]
    for last, number in [*sorted(lost)[:1], *won]:
        yield Due(Verb.TIMEOUT, view, last + 1, number=number)


def _payments(view: TaskView, p: economics.Parameters) -> Iterator[Due]:
    """What is left to be paid after the end."""
    if not view.state.is_terminal or view.committed_at is None:
        return
    answered = max(view.since, verifiers_by(view, p))
    for answer in view.answers.values():
        if _is_owed(view, answer):
            yield Due(Verb.SETTLE, view, (view.since if view.conviction is None else answered) + 1, number=answer.index)
    if view.conviction is None:
        return
    for game in view.games.values():
        if game.is_stranded and view.answer_of(game) is None:
            yield Due(Verb.REFUND, view, view.since + 1, number=game.number)
    if view.conviction.slash is None:
        assert view.accepted_at is not None
        yield Due(Verb.SLASH, view, answered + 1, view.accepted_at + economics.lifetime(p, view.order.exec))
    elif view.conviction.paid is None and view.conviction.slash[1]:
        yield Due(Verb.PAY, view, view.conviction.slashed_at + 1, number=view.conviction.slash[0])


def _is_owed(view: TaskView, answer: Answer) -> bool:
    """Whether something is to be settled: a bond, a fee, or both. A bond that was lost in a game leaves at most the
    fee of a conviction, for the lowest of those that differed."""
    if answer.settled is not None or answer.exposed:
        return False
    lost = any(game.executor_lost is False and view.answer_of(game) is answer for game in view.games.values())
    if not lost:
        return True
    differing = sorted(a.index for a in view.answers.values() if a.root not in (None, view.outputs_root))
    return view.conviction is not None and answer.index in differing[: view.order.verifiers]


def position_of(view: TaskView, game: int) -> Position:
    """The position of a game that is being played."""
    position = view.games[game].position
    assert position is not None
    return position
