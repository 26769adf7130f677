"""Plays the games of one account: reads where a game stands, asks for the next move, sends it.

All that matters is on chain. What is expensive, the trace, is made again when it is not there: after a restart the same
position gives the same move, which the chain's journal sends once.
"""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from eigentensor import reference
from eigentensor.bound import Bound
from eigentensor.chain import Chain, GameView, Order, Receipt
from eigentensor.dispute import Keep, Knowledge, Move, Position, Published, Side, deadline_of, next_move
from eigentensor.errors import DisputeError
from eigentensor.merkle import NOTHING
from eigentensor.tracing import Claim, Execute, Execution, retrace

#: Accounts that stay in memory, each with the tensors of the call that one game is about.
ACCOUNTS = 4
#: What an order names, by its task.
Load = Callable[[bytes, Order], Bound]


class Player:
    """The executor in games about its results, the challenger in its own. Turns of different games may run at once."""

    def __init__(self, chain: Chain, player: str, load: Load, execute: Execute = reference.execute) -> None:
        """`chain` acts as the account `player`, or as its registered signer; `execute` is run again for each game."""
        self._chain = chain
        self._player = player
        self._load = load
        self._execute = execute
        self._accounts: OrderedDict[int, Execution] = OrderedDict()
        self._lock = Lock()

    def turn(self, game_id: int) -> Receipt | None:
        """One move, or the end of a game whose other side has used up its clock; None: there is nothing to do.

        Raises ChainError, DisputeError if the game is of others, and what `load` and `execute` raise.
        """
        game, head = self._chain.game(game_id), self._chain.block_number()
        position = game.position
        if game.ended is not None:
            with self._lock:
                self._accounts.pop(game_id, None)
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
        account = self._account(game, order, frozenset())
        while True:
            knowledge = Knowledge(claim, order.as_tuple(), account)
            found = next_move(position.phase.side, position, published, knowledge)
            if not isinstance(found, Keep):
                return found
            account = self._account(game, order, found.calls)

    def _sides(self, position: Position) -> set[Side]:
        """Whoever challenges itself plays both."""
        players = {Side.EXECUTOR: position.executor, Side.CHALLENGER: position.challenger}
        found = {side for side, player in players.items() if player.lower() == self._player.lower()}
        if not found:
            raise DisputeError(f"{self._player} does not play in this game about task {position.task.hex()}")
        return found

    def _account(self, game: GameView, order: Order, keep: frozenset[int]) -> Execution:
        """Our own account of the task, with these tensors at least."""
        with self._lock:
            known = self._accounts.get(game.game_id)
        if known is not None and keep <= known.kept.keys():
            return known
        bound = self._load(game.task, order)
        given = bound.program, bound.tensors, bound.variables, bound.repeat
        account = retrace(*given, keep=keep, execute=self._execute)
        with self._lock:
            self._accounts[game.game_id] = account
            self._accounts.move_to_end(game.game_id)
            while len(self._accounts) > ACCOUNTS:
                self._accounts.popitem(last=False)
        return account
