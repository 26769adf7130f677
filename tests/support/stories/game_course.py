"""What happened in a game on a chain: its transactions one after the other, and how it ended."""

from dataclasses import dataclass, field

from eigentensor.dispute import Outcome, Position, Side


@dataclass(frozen=True)
class Sent:
    """A transaction of a game: who sent which function, its gas, the bytes of its calldata, and what it led to."""

    side: Side
    function: str
    gas: int
    size: int
    led_to: Position | Outcome | None = None

    def __str__(self) -> str:
        match self.led_to:
            case Position() as p:
                place = f"{p.phase.name} call {p.number} level {p.level} node {p.index} element {p.element}"
                return f"{self.function} → {place} reduction {p.reduction} steps {p.low}…{p.high}"
            case outcome:
                return f"{self.function} → {outcome}"


@dataclass
class Course:
    """A game on the chain so far, the challenge first. Without an outcome the challenger has nothing to say."""

    name: str
    game: int = 0
    sent: list[Sent] = field(default_factory=list)
    outcome: Outcome | None = None

    @property
    def gas(self) -> int:
        """Of all transactions of both sides."""
        return sum(sent.gas for sent in self.sent)

    def __str__(self) -> str:
        return "\n".join((self.name, *map(str, self.sent)))
