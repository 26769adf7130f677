"""What tasks brought their operator, and cost it: from their events. Pure."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple, Self

from eigentensor import economics
from eigentensor.task import Answer, Closed, Convicted, Exposed, Failed, GameEnded, Life, Settled, Slashed
from eigentensor.wire import Object, Size, Wei


class Source(StrEnum):
    """What something was earned or lost by."""

    TASK = "task"
    CHECK = "check"
    BOND = "bond"
    PENALTY = "penalty"


class Earning(NamedTuple):
    """So many wei in a block; what is lost is below zero."""

    block: int
    source: Source
    amount: int


@dataclass(frozen=True, slots=True)
class Earned(Object):
    """What an operator earned in a time, in the market. Gas is not counted, nor what EigenLayer pays out of stake that
    others lost."""

    since: str
    """When the time begins (RFC 3339)."""
    executed: Size
    """How many of its tasks became final."""
    tasks: Wei
    """Wei that it was paid for them."""
    checked: Size
    """How many of its checks were settled."""
    checks: Wei
    """Wei that it was paid for them, bonds apart."""
    bonds: Wei
    """Wei that it won in games, and of executors that did not reveal."""
    penalties: Wei
    """Wei that it lost: penalties, collateral, bonds, stake."""

    @classmethod
    def of(cls, earnings: Sequence[Earning], since: datetime, time_of: Callable[[int], int]) -> Self:
        """Of earnings in the order of their blocks, those from a moment on; `time_of` is a block's, in seconds."""
        begin = bisect_left(earnings, since.timestamp(), key=lambda earning: time_of(earning.block))
        amounts = {source: [e.amount for e in earnings[begin:] if e.source is source] for source in Source}
        tasks, checks = amounts[Source.TASK], amounts[Source.CHECK]
        return cls(
            since=since.astimezone(UTC).isoformat(),
            executed=len(tasks),
            tasks=sum(tasks),
            checked=len(checks),
            checks=sum(checks),
            bonds=sum(amounts[Source.BOND]),
            penalties=-sum(amounts[Source.PENALTY]),
        )

    @property
    def net(self) -> int:
        """Wei that are left of it; below zero where more was lost than earned."""
        return self.tasks + self.checks + self.bonds - self.penalties


def earnings_of(life: Life, operator: str) -> Iterator[Earning]:
    """What a task has brought an operator so far."""
    for event in life.events:
        for source, amount in _moved(life, event, operator):
            yield Earning(event.place.block, source, amount)


def _moved(life: Life, event: object, operator: str) -> Iterator[tuple[Source, int]]:
    match event:
        case Closed() | Failed() | Slashed() | Exposed(slot=0) if life.executor == operator:
            yield from _executed(life, event)
        case Convicted():
            if life.executor == operator:
                yield from _executed(life, event)
            if event.winner == operator:
                yield Source.BOND, economics.reward(life.parameters, life.price or 0)
        case GameEnded(executor_lost=False) if event.challenger == operator:
            yield Source.PENALTY, -_bond(life)
        case Exposed() | Settled() if (answer := life.answer_by(operator)) and answer.index == event.slot - 1:
            yield _answered(life, answer, event)


def _executed(life: Life, event: Closed | Failed | Convicted | Slashed | Exposed) -> Iterator[tuple[Source, int]]:
    p, price = life.parameters, life.price or 0
    match event:
        case Closed():
            won = sum(game.counted and game.executor_lost is False for game in life.games.values())
            share = won * economics.bond_share(p, price)
            yield Source.TASK, event.paid - share
            if share:
                yield Source.BOND, share
        case Failed():
            yield Source.PENALTY, -event.penalty
        case Convicted():
            exposed = any(isinstance(other, Exposed) and other.slot == 0 for other in life.events)
            yield Source.PENALTY, exposed * economics.reward(p, price) - (life.collateral or 0)
        case Slashed():
            yield Source.PENALTY, -(life.stake or 0)
        case Exposed():
            yield Source.PENALTY, -economics.reward(p, price)


def _answered(life: Life, answer: Answer, event: Exposed | Settled) -> tuple[Source, int]:
    if isinstance(event, Exposed):
        return Source.PENALTY, -_bond(life)
    gain = event.amount - (0 if life.has_lost(answer) else _bond(life))
    return (Source.CHECK if gain >= 0 else Source.PENALTY), gain


def _bond(life: Life) -> int:
    return economics.bond(life.parameters, life.price or 0)
