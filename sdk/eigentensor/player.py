"""Plays the games of one account: reads where a game stands, asks for the next move, sends it.

All that matters is on chain. What is expensive, the trace, is made again when it is not there: after a restart the same
position gives the same move, which the chain's journal sends once.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from heapq import heappop, heappush
from itertools import count
from threading import Condition, Lock, Thread

from eigentensor.chain import Chain, GameView, Mined
from eigentensor.chain.games import GameMessages
from eigentensor.dispute import (
    Keep,
    Knowledge,
    Move,
    Phase,
    Position,
    Published,
    Side,
    deadline_of,
    next_move,
    public_tensors,
)
from eigentensor.errors import DisputeError
from eigentensor.merkle import NOTHING
from eigentensor.program import Program
from eigentensor.program.binding import Results
from eigentensor.reexecution.inputs import BoundProgram
from eigentensor.task import Order
from eigentensor.tracing import Claim, Execution, Flat, Retrace, retrace

#: Bytes of tensors that stay in memory.
MEMORY = 1 << 30
#: Seconds that a turn waits for what the executor gave out: whoever hands it on must not be able to use up a clock.
WAIT = 5.0
#: Results that are remembered, or waited for.
SHOWN = 4
#: What an order names, by its task.
Load = Callable[[bytes, Order], BoundProgram]
#: The results that have an outputs root, if the executor gave them out.
Public = Callable[[Program, bytes], Results]


class Player:
    """The executor in games about its results, the challenger in its own. Turns of different games may run at once."""

    def __init__(
        self,
        chain: Chain,
        player: str,
        load: Load,
        retrace: Retrace = retrace,
        *,
        public: Public | None = None,
        wait: float = WAIT,
        memory: int = MEMORY,
        calls: bool = False,
    ) -> None:
        """Of games about tasks, or about paid `calls`. `chain` acts as the account `player`, or as its registered
        signer. With `public` results, a challenger that finds its leaf there asks the executor for nothing on the way
        to it; without them after `wait` seconds, it asks.

        A task is retraced once, where all tensors together have at most `memory` bytes; otherwise once more for each
        call that a game is about. As many tasks stay in memory as have together at most `memory` bytes.
        """
        self._chain = chain
        self._calls = calls
        self._player = player
        self._load = load
        self._retrace = retrace
        self._public = public
        self._wait = wait
        self._shown: dict[bytes, Future[Results]] = {}
        self._memory = memory
        self._accounts: list[tuple[bytes, Execution]] = []
        self._lock, self._tracing = Lock(), Turns()

    @property
    def _games(self) -> GameMessages:
        return self._chain.call_games if self._calls else self._chain.games

    def turn(self, game_id: int) -> Mined | None:
        """One move, or the end of a game whose other side has used up its clock; None: there is nothing to do.

        Raises ChainError, DisputeError if the game is of others, and what `load` and `retrace` raise.
        """
        game, head = self._games.at(game_id), self._chain.node.block_number()
        position = game.position
        if game.ended is not None:
            return None
        is_over = head >= deadline_of(position)
        if position.phase.side not in self._sides(position):
            return self._games.timeout(game_id, position) if is_over else None
        move = None if is_over else self.move(game)
        return None if move is None else self._games.play(game_id, position, move)

    def move(self, game: GameView) -> Move | None:
        """The next move in an open game whose turn is ours; None: there is nothing to object to."""
        (order, outputs), position = self._games.claim_of(game), game.position
        claim = Claim(
            program=order.program,
            inputs=order.inputs,
            weights=order.weights,
            states=order.states,
            variables=order.variables,
            repeat=order.repeat,
            trace=NOTHING,
            outputs=outputs,
        )
        published = Published.of((moved.position, moved.data) for moved in game.moves)
        by = deadline_of(position)
        account = self._account(game.task, order, frozenset(), by)
        claimed = self._claimed(account, claim) if position.phase is Phase.CALL else {}
        while True:
            knowledge = Knowledge(claim, order.as_tuple(), account, claimed)
            decision = next_move(position.phase.side, position, published, knowledge)
            if not isinstance(decision, Keep):
                return decision
            account = self._account(game.task, order, decision.calls, by)

    def _claimed(self, account: Execution, claim: Claim) -> dict[int, Flat]:
        """Tensors that the executor is known to have: without them a game takes longer, and ends as it would.

        They are a shortcut: whatever an executor or a gateway may have given out for them, and however reading it
        fails, costs the shortcut alone. What failed is asked for again by the next turn.
        """
        if self._public is None:
            return {}
        with self._lock:
            if claim.outputs not in self._shown:
                self._shown[claim.outputs] = _begun(partial(self._public, account.program, claim.outputs))
                if len(self._shown) > SHOWN:
                    self._shown.pop(next(iter(self._shown)))
            shown = self._shown[claim.outputs]
        try:
            return public_tensors(account.program, claim.repeat, shown.result(self._wait))
        except Exception:
            with self._lock:
                if shown.done() and self._shown.get(claim.outputs) is shown:
                    del self._shown[claim.outputs]
            return {}

    def _sides(self, position: Position) -> set[Side]:
        """Whoever challenges itself plays both."""
        players = {Side.EXECUTOR: position.executor, Side.CHALLENGER: position.challenger}
        sides = {side for side, player in players.items() if player.lower() == self._player.lower()}
        if not sides:
            raise DisputeError(f"{self._player} does not play in this game about task {position.task.hex()}")
        return sides

    def _account(self, task: bytes, order: Order, keep: frozenset[int], by: int) -> Execution:
        """Our own account of a task, with these tensors at least; it is needed by a block."""
        known = self._known(task, keep)
        if known is None:
            with self._tracing.turn(by):  # each takes all processors
                known = self._known(task, keep) or self._trace(task, order, keep)
        return known

    def _known(self, task: bytes, keep: frozenset[int]) -> Execution | None:
        with self._lock:
            return next((a for of, a in self._accounts if of == task and keep <= a.kept.keys()), None)

    def _trace(self, task: bytes, order: Order, keep: frozenset[int]) -> Execution:
        """With all tensors, if they fit: other games about the task need others."""
        bound = self._load(task, order)
        program, repeat = bound.program, bound.repeat
        written = (program.bodies[call.body].parameters[0] for call in program.calls)
        size = sum(elements * dtype.size for dtype, elements in written) * repeat
        everything = range(len(program.calls) * repeat)
        arguments = program, bound.tensors, bound.variables, repeat
        account = self._retrace(*arguments, keep=everything if size <= self._memory else keep)
        with self._lock:
            self._accounts.append((task, account))
            while len(self._accounts) > 1 and sum(map(_size, self._accounts)) > self._memory:
                self._accounts.pop(0)
        return account


def _size(known: tuple[bytes, Execution]) -> int:
    return sum(tensor.nbytes for tensor in known[1].kept.values())


def _begun(fetch: Callable[[], Results]) -> Future[Results]:
    """What is being fetched; a process that ends does not wait for it."""
    future = Future[Results]()

    def run() -> None:
        try:
            future.set_result(fetch())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, name="public results", daemon=True).start()
    return future


class Turns:
    """One at a time; of those that wait, the one that is to be done by the lowest block."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._waiting: list[tuple[int, int]] = []
        self._numbers = count()
        self._busy = False

    @property
    def waiting(self) -> int:
        """How many wait for their turn."""
        return len(self._waiting)

    @contextmanager
    def turn(self, by: int) -> Iterator[None]:
        """A turn, which nobody else has meanwhile: that with the smallest `by` is next, and of equals the first to
        come."""
        with self._changed:
            mine = by, next(self._numbers)
            heappush(self._waiting, mine)
            self._changed.wait_for(lambda: not self._busy and self._waiting[0] == mine)
            heappop(self._waiting)
            self._busy = True
        try:
            yield
        finally:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
