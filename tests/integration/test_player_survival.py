"""Whatever happens to players' programs, nodes and chains in the middle of a game: the liar is convicted, the honest
executor is not, and every move is made once."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from eigentensor.chain.node import Node
from eigentensor.chain.units import GWEI
from eigentensor.dispute import Published, Reason, Side
from eigentensor.errors import Unreachable
from eigentensor.task import State
from support.stories.board import Board
from support.stories.game_table import Case, Table
from support.stories.games import honest, reckless
from support.stories.players import MOMENTS, Dispute, fast, known, lying, restarted
from support.web3 import web3_of

SPIKE = 300 * GWEI


@pytest.fixture
def dispute(table: Table) -> Dispute:
    return Dispute(table, "long sum", lying)


def journal_of(tmp_path: Path, side: Side) -> Path:
    return tmp_path / f"{side.name}.sqlite"


def sent(dispute: Dispute) -> list[int]:
    """Transactions of both sides."""
    return [dispute.table.client.node.transaction_count(dispute.chain(side).address) for side in Side]


def is_convicted(dispute: Dispute) -> bool:
    ended = dispute.game.ended
    assert ended is not None and (ended.executor_lost, ended.reason) == (True, Reason.VERDICT)
    return dispute.table.client.market.task_at(dispute.task).state is State.CONVICTED


@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_programs_that_are_killed_in_every_move_make_it_once(dispute: Dispute, tmp_path: Path, first: int) -> None:
    before, moments = sent(dispute), islice(cycle(MOMENTS), first, None)
    while dispute.game.ended is None:
        side, moves = dispute.game.position.phase.side, len(dispute.game.moves)
        journal = journal_of(tmp_path, side)
        dispute.die(side, journal, next(moments))
        with restarted(dispute.chain(side), journal) as chain:
            dispute.table.anvil.rpc("evm_setAutomine", True)
            dispute.player(side, chain).turn(dispute.number)
        assert dispute.game.ended is not None or len(dispute.game.moves) == moves + 1
    assert is_convicted(dispute)
    moved = [event.place.transaction for event in dispute.game.moves]
    assert sum(sent(dispute)) - sum(before) == len(moved) + 1  # and the verdict


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_an_honest_executor_that_is_killed_in_every_move_wins_against_whoever_objects(
    table: Table, tmp_path: Path, seed: int
) -> None:
    """INVARIANT 26."""
    dispute, objecting = Dispute(table, "long sum", fast), reckless(Random(seed))
    case = Case(known("long sum")[1], known("long sum")[1].outputs, honest(Side.EXECUTOR), objecting)
    moments, journal = cycle(MOMENTS), journal_of(tmp_path, Side.EXECUTOR)
    while (game := dispute.game).ended is None:
        published = Published.of((moved.position, moved.data) for moved in game.moves)
        board = Board(table, case, dispute.order, table.challenger, dispute.number, game.position, published)
        if board.side is Side.CHALLENGER:
            board.play()
            continue
        dispute.die(Side.EXECUTOR, journal, next(moments))
        with restarted(table.operator, journal) as chain:
            table.anvil.rpc("evm_setAutomine", True)
            dispute.player(Side.EXECUTOR, chain).turn(dispute.number)
    assert not game.ended.executor_lost
    assert table.client.market.task_at(dispute.task).state is State.REVEALED


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 4, 5))])
def test_reorganisations_that_take_back_moves_or_the_challenge_end_no_game_otherwise(
    dispute: Dispute, seed: int
) -> None:
    random, anvil = Random(seed), dispute.table.anvil
    opened = dispute.game.opened.place.block
    for _ in range(5):
        dispute.turns()
        newest = web3_of(anvil).eth.block_number
        anvil.rollback(random.randint(1, min(4, newest - opened + 1)))
        anvil.mine(random.randint(0, 2))
        assert dispute.challenge() == dispute.number
    while dispute.game.ended is None:
        dispute.turns()
    assert is_convicted(dispute)


def test_fees_that_rise_above_every_move_that_waits_cost_no_clock(dispute: Dispute) -> None:
    anvil = dispute.table.anvil
    with ThreadPoolExecutor(1) as pool:
        while dispute.game.ended is None:
            side, position = dispute.game.position.phase.side, dispute.game.position
            anvil.rpc("evm_setAutomine", False)
            turn = pool.submit(dispute.player(side).turn, dispute.number)
            eventually(lambda: int(anvil.rpc("txpool_status")["pending"], 16) > 0)
            anvil.rpc("anvil_setNextBlockBaseFeePerGas", hex(SPIKE))
            anvil.mine()
            assert dispute.game.position == position
            anvil.rpc("evm_setAutomine", True)
            assert turn.result() is not None
            anvil.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
            anvil.mine()
    assert is_convicted(dispute)


def eventually(check: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not check():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_move_whose_nonce_somebody_else_took_is_sent_anew(dispute: Dispute, tmp_path: Path) -> None:
    anvil, operator = dispute.table.anvil, dispute.table.operator
    journal = journal_of(tmp_path, Side.EXECUTOR)
    dispute.die(Side.EXECUTOR, journal, MOMENTS[1])
    anvil.rpc("anvil_dropAllTransactions")
    anvil.rpc("evm_setAutomine", True)
    operator.token.approve(dispute.table.client.address, 1)  # from another program with the same key
    with restarted(operator, journal) as chain:
        assert dispute.player(Side.EXECUTOR, chain).turn(dispute.number) is not None
    assert len(dispute.game.moves) == 1


class Cut:
    """A node that does not answer question number `after`."""

    def __init__(self, node: Node) -> None:
        self.after, self._ask = 0, node.rpc.ask
        node.rpc.ask = self.ask  # type: ignore[method-assign]

    def ask(self, method: str, *parameters: Any) -> Any:
        self.after -= 1
        if self.after == -1:
            raise ConnectionError("the line is cut")
        return self._ask(method, *parameters)


@pytest.mark.slow
def test_a_node_that_fails_at_any_question_delays_a_move_and_nothing_else(dispute: Dispute, tmp_path: Path) -> None:
    asked = []
    while dispute.game.ended is None:
        side, before = dispute.game.position.phase.side, sum(sent(dispute))
        with restarted(dispute.chain(side), journal_of(tmp_path, side)) as chain:
            cut, failures, player = Cut(chain.node), 0, dispute.player(side, chain)
            for cut.after in range(200):
                try:
                    player.turn(dispute.number)
                except Unreachable:
                    failures += 1
                if cut.after >= 0:
                    break
        asked.append(failures)
        assert sum(sent(dispute)) == before + 1
    assert is_convicted(dispute) and min(asked) > 5
