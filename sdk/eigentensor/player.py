"""Plays the games of one account: reads where a game stands, asks for the next move, sends it.

All that matters is on chain. What is expensive, the trace, is made again when it is not there: after a restart the same
position gives the same move, which the chain's journal sends once.
"""

from collections import deque
from collections.abc import Callable
from threading import Lock

from eigentensor.bound import Bound
from eigentensor.chain import Chain, GameView, Order, Receipt
from eigentensor.dispute import Keep, Knowledge, Move, Position, Published, Side, deadline_of, next_move
from eigentensor.errors import DisputeError
from eigentensor.merkle import NOTHING
from eigentensor.program.cost import costs
from eigentensor.tracing import Claim, Execution, Retrace, retrace

#: Accounts that stay in memory.
ACCOUNTS = 4
#: What an order names, by its task.
Load = Callable[[bytes, Order], Bound]


class Player:
    """The executor in games about its results, the challenger in its own. Turns of different games may run at once."""

    def __init__(
        self, chain: Chain, player: str, load: Load, retrace: Retrace = retrace, *, memory: int = 256 << 20
    ) -> None:
        """`chain` acts as the account `player`, or as its registered signer.

        A task is retraced once, where all tensors together have at most `memory` bytes; otherwise once more for each
        call that a game is about.
        """
        self._chain = chain
        self._player = player
        self._load = load
        self._retrace = retrace
        self._memory = memory
        self._accounts: deque[tuple[bytes, Execution]] = deque(maxlen=ACCOUNTS)
        self._lock, self._tracing = Lock(), Lock()

    def turn(self, game_id: int) -> Receipt | None:
        """One move, or the end of a game whose other side has used up its clock; None: there is nothing to do.

        Raises ChainError, DisputeError if the game is of others, and what `load` and `retrace` raise.
        """
        game, head = self._chain.game(game_id), self._chain.block_number()
        position = game.position
        if game.ended is not None:
            return None
        is_over = head >= deadline_of(position)
        if position.phase.side not in self._sides(position):
            return self._chain.timeout(game_id, position) if is_over else None
        move = None if is_over else self.move(game)
        return None if move is None else self._chain.play(game_id, position, move)

    def move(self, game: GameView) -> Move | None:
        """The next move in an open game whose turn is ours; None: there is nothing to object to."""
        order, position = self._chain.order_of(game.task), game.position
        claim = Claim(
            program=order.program,
            inputs=order.inputs,
            weights=order.weights,
            states=order.states,
            variables=order.variables,
            repeat=order.repeat,
            trace=NOTHING,
            outputs=self._chain.outputs_root_of(game.task),
        )
        published = Published.of((moved.position, moved.data) for moved in game.moves)
        account = self._account(game.task, order, frozenset())
        while True:
            knowledge = Knowledge(claim, order.as_tuple(), account)
            found = next_move(position.phase.side, position, published, knowledge)
            if not isinstance(found, Keep):
                return found
            account = self._account(game.task, order, found.calls)

    def _sides(self, position: Position) -> set[Side]:
        """Whoever challenges itself plays both."""
        players = {Side.EXECUTOR: position.executor, Side.CHALLENGER: position.challenger}
        found = {side for side, player in players.items() if player.lower() == self._player.lower()}
        if not found:
            raise DisputeError(f"{self._player} does not play in this game about task {position.task.hex()}")
        return found

    def _account(self, task: bytes, order: Order, keep: frozenset[int]) -> Execution:
        """Our own account of a task, with these tensors at least."""
        known = self._known(task, keep)
        if known is None:
            with self._tracing:  # one at a time: each takes all processors
                known = self._known(task, keep) or self._trace(task, order, keep)
        return known

    def _known(self, task: bytes, keep: frozenset[int]) -> Execution | None:
        with self._lock:
            return next((a for of, a in self._accounts if of == task and keep <= a.kept.keys()), None)

    def _trace(self, task: bytes, order: Order, keep: frozenset[int]) -> Execution:
        """With all tensors, if they fit: other games about the task need others."""
        bound = self._load(task, order)
        calls = range(len(bound.program.calls) * bound.repeat)
        size = costs(bound.program).all_bytes * bound.repeat
        given = bound.program, bound.tensors, bound.variables, bound.repeat
        account = self._retrace(*given, keep=calls if size <= self._memory else keep)
        with self._lock:
            self._accounts.append((task, account))
        return account
