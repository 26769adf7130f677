"""Players on a chain: they start anew at every turn, move once, and end what the other side lets run out."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

from eigentensor import reference
from eigentensor.bound import Bound
from eigentensor.chain import Chain, Challenged, GameEnded, GameView, Order, State, order_uuid
from eigentensor.dispute import Phase, Reason, Side, deadline_of
from eigentensor.errors import DisputeError
from eigentensor.player import Player
from eigentensor.program import Program
from eigentensor.program.binding import Results
from eigentensor.runtime import execute
from eigentensor.testing.programs import Example
from eigentensor.tracing import Retrace, retrace
from game_table import Case, Table, brought
from games import account_of, honest

Chains = Callable[[int], Chain]

NUMBER, BIT = 0, 8 * 4 * 7 + 30  # of the long sum's partial results


def disturbed(
    program: Program,
    tensors: Mapping[str, Any],
    variables: Mapping[str, int] | None = None,
    repeat: int = 1,
    *,
    observe: Callable[[int, reference.Values], None] | None = None,
) -> Results:
    """The reference with one wrong bit."""

    def disturb(number: int, result: reference.Values) -> None:
        if number == NUMBER:
            result.view("u1")[BIT // 8] ^= np.uint8(1 << BIT % 8)
        if observe is not None:
            observe(number, result)

    return reference.execute(program, tensors, variables, repeat, observe=disturb)


fast: Retrace = partial(retrace, execute=execute)
lying: Retrace = partial(retrace, execute=disturbed)


class Dispute:
    """A challenged result of an example, which the executor retraces so."""

    def __init__(self, table: Table, example: Example, mine: Retrace) -> None:
        self.table, self.example, self.mine = table, example, mine
        true = account_of(example)
        outputs = mine(example.program, example.tensors, example.variables, example.repeat).outputs
        case = Case(true, outputs, honest(Side.EXECUTOR), honest(Side.CHALLENGER))
        (self.order,) = table.revealed([case])
        self.task = order_uuid(self.order, table.client.deployment.domain)
        told = table.challenger.challenge(table.challenger.address, self.order).events
        (self.number,) = [event.game_id for event in told if isinstance(event, Challenged)]

    def player(self, side: Side) -> Player:
        """One that has just started."""
        chain = (self.table.operator, self.table.challenger)[side]
        return Player(chain, chain.address, self.load, (self.mine, fast)[side])

    def load(self, task: bytes, order: Order) -> Bound:
        assert (task, order) == (self.task, self.order)
        example = self.example
        return Bound(example.program, (), example.tensors, example.variables, example.repeat)

    @property
    def game(self) -> GameView:
        return self.table.client.game(self.number)


def test_players_that_start_anew_at_every_turn_move_once_and_convict_the_liar(table: Table) -> None:
    dispute = Dispute(table, brought("long sum"), lying)
    while dispute.game.ended is None:
        before = len(dispute.game.moves)
        turns = [dispute.player(side).turn(dispute.number) for side in Side for _ in range(2)]
        game = dispute.game
        assert sum(turn is not None for turn in turns) == len(game.moves) - before + (game.ended is not None)
        assert any(turn is not None for turn in turns)
    assert (dispute.game.ended.executor_lost, dispute.game.ended.reason) == (True, Reason.VERDICT)
    assert table.client.task_at(dispute.task).state is State.CONVICTED
    assert [dispute.player(side).turn(dispute.number) for side in Side] == [None, None]


def test_the_same_move_is_never_sent_twice(table: Table) -> None:
    dispute = Dispute(table, brought("long sum"), lying)
    unseen = dispute.game
    receipt = dispute.player(Side.EXECUTOR).turn(dispute.number)
    move = dispute.player(Side.EXECUTOR).move(unseen)
    assert receipt is not None and move is not None
    assert table.operator.play(dispute.number, unseen.position, move).transaction == receipt.transaction
    assert len(dispute.game.moves) == 1


def test_an_honest_executor_wins_against_a_challenger_that_has_nothing_to_say(table: Table) -> None:
    dispute = Dispute(table, brought("softmax"), fast)
    executor, challenger = dispute.player(Side.EXECUTOR), dispute.player(Side.CHALLENGER)
    assert executor.turn(dispute.number) is not None
    assert dispute.game.position.phase is Phase.CALL
    assert challenger.turn(dispute.number) is None and executor.turn(dispute.number) is None
    table.anvil.mine_past(deadline_of(dispute.game.position) - 1)
    assert challenger.turn(dispute.number) is None  # too late for a move
    ended = executor.turn(dispute.number)
    assert ended is not None
    assert [e.executor_lost for e in ended.events if isinstance(e, GameEnded)] == [False]
    assert table.client.task_at(dispute.task).state is State.REVEALED


def test_strangers_play_in_no_game(table: Table, chain_of: Chains) -> None:
    dispute = Dispute(table, brought("softmax"), fast)
    stranger = chain_of(5)
    with pytest.raises(DisputeError, match="does not play"):
        Player(stranger, stranger.address, dispute.load).turn(dispute.number)
