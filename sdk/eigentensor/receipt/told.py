"""What the events of a task come to: who, how much, until when, checked or not. Pure."""

from dataclasses import dataclass
from typing import Any

from eigentensor.task import Cause, Counts, State, words


@dataclass(frozen=True, slots=True)
class Answerer:
    """A drawn verifier: `seat` is the drawn place in the list of seats; `agrees` is None unless it was revealed."""

    index: int
    operator: str
    seat: int | None
    commitment: bytes
    outputs_root: bytes | None
    agrees: bool | None
    exposed: bool


@dataclass(frozen=True, slots=True)
class Played:
    """A game about the result. `lost_by` is None while it is open, and where a conviction made it idle."""

    number: int
    challenger: str
    bond: int
    lost_by: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Told:
    """Amounts are wei of the market's token, times blocks; None is what has not happened, or is not known yet.

    `windows` are the first and the last block in which something could be done, `lock_end` the last of them all.
    """

    state: State
    executor: str
    commitment: bytes
    outputs_root: bytes | None
    price: int
    escrow: int
    collateral: int
    stake: int
    paid: int | None
    refund: int | None
    cause: Cause | None
    seats: int
    seed_block: int
    mix: bytes | None
    drawn: bool | None
    answers: tuple[Answerer, ...]
    games: tuple[Played, ...]
    lock_end: int
    windows: dict[str, tuple[int, int] | None]

    @property
    def agreed(self) -> int:
        return sum(answer.agrees is True for answer in self.answers)

    @property
    def open_games(self) -> tuple[int, ...]:
        """While the task is not over: those that can still convict its executor."""
        open_ = (game.number for game in self.games if game.lost_by is None)
        return tuple(open_) if self.state is State.REVEALED else ()

    @property
    def checked(self) -> str | None:
        """As `task.words.checked`."""
        return words.checked(self._counts)

    @property
    def words(self) -> str:
        """The state in the words of the glossary."""
        return words.standing(self._counts)

    @property
    def _counts(self) -> Counts:
        return Counts(self.state, len(self.answers), self.agreed, len(self.open_games))

    def to_json(self) -> dict[str, Any]:
        """The part of a receipt that follows from the rest of it."""
        return {
            "state": self.words,
            "money": {
                "price": str(self.price),
                "escrow": str(self.escrow),
                "collateral": str(self.collateral),
                "stake": str(self.stake),
                "paid": None if self.paid is None else str(self.paid),
                "refund": None if self.refund is None else str(self.refund),
            },
            "checks": {
                "seats": self.seats,
                "seed_block": self.seed_block,
                "seed": _text(self.mix),
                "drawn": self.drawn,
                "answers": [
                    {
                        "index": answer.index,
                        "verifier": answer.operator,
                        "seat": answer.seat,
                        "commitment": _text(answer.commitment),
                        "outputs_root": _text(answer.outputs_root),
                        "agrees": answer.agrees,
                        "exposed": answer.exposed,
                    }
                    for answer in self.answers
                ],
            },
            "games": [
                {
                    "game": game.number,
                    "challenger": game.challenger,
                    "bond": str(game.bond),
                    "lost_by": game.lost_by,
                    "reason": game.reason,
                }
                for game in self.games
            ],
            "windows": {
                name: None if window is None else {"first": window[0], "last": window[1]}
                for name, window in self.windows.items()
            },
        }


def _text(value: bytes | None) -> str | None:
    return None if value is None else "0x" + value.hex()
