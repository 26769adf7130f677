"""Games, as their events tell them."""

from dataclasses import dataclass

from eigentensor.chain.history import SPAN, History
from eigentensor.dispute.position import Position
from eigentensor.errors import ChainError
from eigentensor.task.events import Ended, Event, Moved, Opened, Posted, Seeded
from eigentensor.task.order import Order


@dataclass(frozen=True, slots=True)
class GameView:
    """A game from its opening to where it stands, or to its end."""

    opened: Opened
    moves: tuple[Moved, ...]
    ended: Ended | None

    @property
    def game_id(self) -> int:
        """The game's number."""
        return self.opened.game_id

    @property
    def task(self) -> bytes:
        """The task that it is about."""
        return self.opened.task

    @property
    def challenger(self) -> str:
        """Who plays against the executor."""
        return self.opened.challenger

    @property
    def position(self) -> Position:
        """That after the last move, which stays when the game has ended."""
        return self.moves[-1].position if self.moves else self.opened.position


class Games(History):
    """The games of one market."""

    def game(self, game_id: int) -> GameView:
        """Raises ChainError if no such game was opened."""
        found: list[Opened | Moved | Ended] = []
        for stop in range(self.block_number(), self.deployment.block - 1, -SPAN):
            logs = self.logs(max(stop - SPAN + 1, self.deployment.block), stop, (None, [game_id.to_bytes(32, "big")]))
            found[:0] = [event for event in logs if isinstance(event, (Opened, Moved, Ended))]
            if found and isinstance(found[0], Opened):
                moves = tuple(event for event in found if isinstance(event, Moved))
                return GameView(found[0], moves, next((e for e in found if isinstance(e, Ended)), None))
        raise ChainError(f"there is no game {game_id}")

    def order_of(self, task: bytes) -> Order:
        """The order that is an accepted task. Raises ChainError if there is none."""
        return self.posted(task).order

    def posted(self, task: bytes) -> Posted:
        """How an accepted task was posted. Raises ChainError if there is none."""
        accepted = int(self._call(self.market, "taskAt", task)[2])
        for stop in range(accepted, self.deployment.block - 1, -SPAN):
            for event in self.logs(max(stop - SPAN + 1, self.deployment.block), stop, (None, [task])):
                if isinstance(event, Posted) and event.task == task:
                    return event
        raise ChainError(f"task {task.hex()} was never accepted")

    def events_of(self, task: bytes, first: int, last: int | None = None) -> list[Event]:
        """What happened to a task and its slash in these blocks (to the newest by default), in order; the moves of its
        games are apart."""
        last, found = self.block_number() if last is None else last, []
        for start in range(first, last + 1, SPAN):
            stop = min(start + SPAN - 1, last)
            found += [*self.logs(start, stop, (None, [task])), *self.logs(start, stop, (None, None, [task]))]
        return sorted(found, key=lambda event: event.place)

    def seeded(self, block: int, last: int) -> Seeded | None:
        """The record of a seed block's randomness, if it was made until block `last`."""
        events = self.logs(block + 1, last, (None, [block.to_bytes(32, "big")])) if last > block else []
        return next((event for event in events if isinstance(event, Seeded)), None)

    def _games(self, task: bytes, first: int) -> dict[int, bool]:
        """The games of a task that was committed in block `first`, and whether they are open."""
        games: dict[int, bool] = {}
        last = self.block_number()
        for start in range(first, last + 1, SPAN):
            for event in self.logs(start, min(start + SPAN - 1, last), (None, None, [task])):
                if isinstance(event, (Opened, Ended)):
                    games[event.game_id] = isinstance(event, Opened)
        return games
