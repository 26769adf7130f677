"""A game about a result, as far as the operator has to act in it."""

from dataclasses import dataclass, replace
from typing import Self

from eigentensor.dispute import Position, Side, deadline_of
from eigentensor_operator.case import Step


@dataclass(frozen=True, slots=True)
class Game:
    """`positions` as the chain showed them, each with its block; `ended` in a block, 0 while it is open."""

    number: int
    positions: tuple[tuple[int, Position], ...]
    ended: int = 0
    doing: Step | None = None
    visible_by: int = -1
    not_before: int = 0

    @property
    def position(self) -> Position:
        return self.positions[-1][1]

    @property
    def task(self) -> bytes:
        return self.position.task

    def awaits(self, operator: str) -> bool:
        """Whether the operator is to move."""
        position = self.position
        return operator == (position.executor if position.phase.side is Side.EXECUTOR else position.challenger)

    @property
    def last_block(self) -> int:
        """Of the side to move: from the next one on, its clock has run out."""
        return deadline_of(self.position)

    def moved(self, block: int, position: Position) -> Self:
        if (block, position) in self.positions:
            return self
        return replace(self, positions=(*self.positions, (block, position)), visible_by=-1, not_before=0)

    def rolled_back(self, block: int) -> Self | None:
        """As if nothing after `block` had happened; None if it was not open by then."""
        kept = tuple((at, position) for at, position in self.positions if at <= block)
        ended = self.ended if self.ended <= block else 0
        if not kept:
            return None
        if (kept, ended) == (self.positions, self.ended):
            return self
        return replace(self, positions=kept, ended=ended, visible_by=-1, not_before=0)
