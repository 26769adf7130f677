"""Players on a chain: they start anew at every turn, move once, and end what the other side lets run out."""

from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from eigentensor import reference
from eigentensor.chain import Chain
from eigentensor.dispute import Phase, Reason, Side, deadline_of
from eigentensor.errors import BlobNotFound, DisputeError, WrongResult
from eigentensor.player import MEMORY, WAIT, Player
from eigentensor.program import Program
from eigentensor.program.binding import Results
from eigentensor.reexecution.inputs import fetch_results
from eigentensor.reference import Values
from eigentensor.store import GatewayClient, LocalStore
from eigentensor.task import GameEnded, State
from eigentensor.tracing import Execution, Retrace, retrace
from support.hostile.gateway import ANSWERS, FILES, hostile
from support.stories.game_table import Table
from support.stories.liars import disturbed
from support.stories.players import Dispute, fast, known, lying

Chains = Callable[[int], Chain]


def test_players_that_start_anew_at_every_turn_move_once_and_convict_the_liar(table: Table) -> None:
    dispute = Dispute(table, "long sum", lying)
    while dispute.game.ended is None:
        before = len(dispute.game.moves)
        turns = [dispute.player(side).turn(dispute.number) for side in Side for _ in range(2)]
        game = dispute.game
        assert sum(turn is not None for turn in turns) == len(game.moves) - before + (game.ended is not None)
        assert any(turn is not None for turn in turns)
    assert (dispute.game.ended.executor_lost, dispute.game.ended.reason) == (True, Reason.VERDICT)
    assert table.client.market.task_at(dispute.task).state is State.CONVICTED
    assert [dispute.player(side).turn(dispute.number) for side in Side] == [None, None]


def test_the_same_move_is_never_sent_twice(table: Table) -> None:
    dispute = Dispute(table, "long sum", lying)
    unseen = dispute.game
    receipt = dispute.player(Side.EXECUTOR).turn(dispute.number)
    move = dispute.player(Side.EXECUTOR).move(unseen)
    assert receipt is not None and move is not None
    assert table.operator.games.play(dispute.number, unseen.position, move).transaction == receipt.transaction
    assert len(dispute.game.moves) == 1


def test_an_honest_executor_wins_against_a_challenger_that_has_nothing_to_say(table: Table) -> None:
    dispute = Dispute(table, "softmax", fast)
    executor, challenger = dispute.player(Side.EXECUTOR), dispute.player(Side.CHALLENGER)
    assert executor.turn(dispute.number) is not None
    assert dispute.game.position.phase is Phase.CALL
    assert challenger.turn(dispute.number) is None and executor.turn(dispute.number) is None
    table.anvil.mine_past(deadline_of(dispute.game.position) - 1)
    assert challenger.turn(dispute.number) is None  # too late for a move
    ended = executor.turn(dispute.number)
    assert ended is not None
    assert [e.executor_lost for e in ended.events if isinstance(e, GameEnded)] == [False]
    assert table.client.market.task_at(dispute.task).state is State.REVEALED


@pytest.mark.parametrize("shown", ["what is wrong", "something else", "nothing", "it one day"])
def test_what_the_executor_gave_out_is_judged_in_one_move(table: Table, shown: str) -> None:
    (example, true), over = known("softmax"), Event()

    def flip(result: Values) -> None:
        result.view("u1")[77] ^= 1

    lie: Retrace = partial(retrace, execute=disturbed(reference.execute, len(true.calls) - 1, flip))
    dispute = Dispute(table, "softmax", lie)
    wrong = lie(example.program, example.tensors, keep=range(len(true.calls)))
    ((name, result),) = example.program.outputs.items()

    def public(program: Program, outputs_root: bytes) -> Results:
        assert outputs_root == wrong.outputs
        if shown == "nothing":
            raise BlobNotFound("nobody has it")
        if shown == "it one day":
            over.wait()
        of = wrong if shown == "what is wrong" else true
        return Results({name: of.written(result.buffer - len(program.buffers)).array.reshape(result.shape)}, {})

    chain = dispute.chain(Side.CHALLENGER)
    wait = 0.1 if shown == "it one day" else WAIT
    challenger = Player(chain, chain.address, dispute.load, fast, public=public, wait=wait)
    while dispute.game.ended is None:
        assert dispute.player(Side.EXECUTOR).turn(dispute.number) or challenger.turn(dispute.number)
    assert dispute.game.ended.executor_lost
    over.set()
    assert (len(dispute.game.moves) == 1) is (shown == "what is wrong")


@pytest.mark.parametrize("case", ["a long name", "other tensors", "broken gzip", "less than it says", "deep JSON"])
def test_whatever_a_gateway_says_of_a_lie_it_is_convicted(table: Table, tmp_path: Path, case: str) -> None:
    dispute = Dispute(table, "long sum", lying)
    chain = dispute.chain(Side.CHALLENGER)
    with hostile() as gateway, GatewayClient(gateway.url, LocalStore(tmp_path), attempts=1) as client:
        gateway.raw, gateway.file = ANSWERS.get(case, b""), FILES.get(case)
        challenger = Player(chain, chain.address, dispute.load, fast, public=partial(fetch_results, client))
        while dispute.game.ended is None:
            assert dispute.player(Side.EXECUTOR).turn(dispute.number) or challenger.turn(dispute.number)
    assert dispute.game.ended.executor_lost


@pytest.mark.parametrize("error", [ValueError, KeyError, RecursionError, MemoryError, WrongResult])
def test_what_could_not_be_read_once_is_asked_for_again(table: Table, error: Callable[[str], Exception]) -> None:
    dispute, asked = Dispute(table, "long sum", lying), list[bytes]()
    assert dispute.player(Side.EXECUTOR).turn(dispute.number)

    def public(_: Program, outputs_root: bytes) -> Results:
        asked.append(outputs_root)
        raise error("a bad answer")

    chain = dispute.chain(Side.CHALLENGER)
    challenger = Player(chain, chain.address, dispute.load, fast, public=public)
    first, second = (challenger.move(dispute.game) for _ in range(2))
    assert first is not None and first == second
    assert len(asked) == 2


def test_strangers_play_in_no_game(table: Table, chain_of: Chains) -> None:
    dispute = Dispute(table, "softmax", fast)
    stranger = chain_of(5)
    with pytest.raises(DisputeError, match="does not play"):
        Player(stranger, stranger.address, dispute.load).turn(dispute.number)


@pytest.mark.parametrize("memory", [MEMORY, pytest.param(0, marks=pytest.mark.slow)])
def test_a_game_takes_one_execution_or_two_where_tensors_do_not_fit(table: Table, memory: int) -> None:
    dispute = Dispute(table, "long sum", lying)
    traced = [0, 0]

    def counted(side: Side) -> Retrace:
        def retrace(*arguments: Any, keep: Collection[int] = frozenset(), **more: Any) -> Execution:
            traced[side] += 1
            return (lying, fast)[side](*arguments, keep=keep, **more)

        return retrace

    chains = [dispute.chain(side) for side in Side]
    players = [Player(c, c.address, dispute.load, counted(s), memory=memory) for s, c in zip(Side, chains, strict=True)]
    while dispute.game.ended is None:
        assert any(player.turn(dispute.number) is not None for player in players)
    assert traced == [1, 1] if memory else max(traced) == 2
