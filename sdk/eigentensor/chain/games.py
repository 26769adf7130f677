"""Games of a market: where they stand, as their events say, and the messages of their players.

Games about tasks and those about paid calls are each of a contract of their own, by the same rules.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eigentensor.chain.history import History, Topics, spans, spans_back
from eigentensor.chain.market import Market
from eigentensor.chain.node import Node
from eigentensor.dispute.position import Position
from eigentensor.errors import ChainError
from eigentensor.task.events import Ended, Event, Moved, Opened
from eigentensor.task.order import Order

if TYPE_CHECKING:
    from eigentensor.chain.sender import Mined, Sender
    from eigentensor.dispute.moves import Move


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
        """The address that plays against the executor."""
        return self.opened.challenger

    @property
    def position(self) -> Position:
        """The position after the last move, which stays when the game has ended."""
        return self.moves[-1].position if self.moves else self.opened.position


class Games:
    """The games about tasks of one market, or about its paid `calls`, as of the newest block."""

    def __init__(self, node: Node, history: History, market: Market, *, calls: bool = False) -> None:
        self._node, self._history, self._market, self._calls = node, history, market, calls
        self._contract = node.call_disputes if calls else node.disputes

    def at(self, game_id: int) -> GameView:
        """The game of that number. Raises ChainError if no such game was opened."""
        events: list[Opened | Moved | Ended] = []
        for start, stop in spans_back(self._node.block_number(), self._node.deployment.block):
            logs = self._logs(start, stop, (None, [game_id.to_bytes(32, "big")]))
            events[:0] = [event for event in logs if isinstance(event, (Opened, Moved, Ended))]
            if events and isinstance(events[0], Opened):
                moves = tuple(event for event in events if isinstance(event, Moved))
                return GameView(events[0], moves, next((e for e in events if isinstance(e, Ended)), None))
        raise ChainError(f"there is no game {game_id}")

    def claim_of(self, game: GameView) -> tuple[Order, bytes]:
        """The order that a game is about, and the outputs root that its executor claims. Raises ChainError."""
        if not self._calls:
            return self._history.order_of(game.task), self._market.outputs_root_of(game.task)
        from eigentensor.channel.events import Challenged  # who only reads tasks does not wait for it

        block = game.opened.place.block
        for event in self._logs(block, block, (None, None, [game.game_id.to_bytes(32, "big")])):
            if isinstance(event, Challenged) and event.game_id == game.game_id:
                return event.order, event.outputs_root
        raise ChainError(f"nobody challenged a call in game {game.game_id}")

    def _logs(self, start: int, stop: int, topics: Topics) -> list[Event]:
        if self._calls:
            return list(self._history.calls(start, stop, topics))
        return self._history.logs(start, stop, topics)

    def of(self, task: bytes) -> dict[int, bool]:
        """The numbers of all games about a task's result, in order, and whether each is open."""
        games: dict[int, bool] = {}
        if committed := self._market.task_at(task).committed_at:
            for start, stop in spans(committed, self._node.block_number()):
                for event in self._history.logs(start, stop, (None, None, [task])):
                    if isinstance(event, (Opened, Ended)):
                        games[event.game_id] = isinstance(event, Opened)
        return dict(sorted(games.items()))

    def open(self, task: bytes) -> tuple[int, ...]:
        """The numbers of those that are not decided."""
        return tuple(number for number, is_open in self.of(task).items() if is_open)


class GameMessages(Games):
    """The games, and the messages of an account that plays them. Raises what `Sender.send` raises."""

    def __init__(self, node: Node, history: History, market: Market, sender: "Sender", *, calls: bool = False) -> None:
        super().__init__(node, history, market, calls=calls)
        self._sender = sender

    def play(self, game_id: int, position: Position, move: "Move") -> "Mined":
        """A move in a game that stands at `position`. Raises Reverted if it stands elsewhere."""
        return self._sender.once(self._contract, move.function, game_id, position.pack(), *move.arguments())

    def timeout(self, game_id: int, position: Position) -> "Mined":
        """The end of a game whose side to move has used up its clock. By anybody."""
        return self._sender.once(self._contract, "timeout", game_id, position.pack())
