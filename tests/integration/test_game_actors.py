"""Whoever sits at the table, wherever the game stands: honest players win, everybody is paid to the wei.

INVARIANTS 26 to 32 and 36, with captured programs, the deployed contracts and the real referee.
"""

from collections.abc import Callable
from dataclasses import astuple, replace
from functools import cache
from random import Random

import pytest

from eigentensor import economics
from eigentensor.chain import Chain
from eigentensor.dispute import (
    ClaimBorders,
    Keep,
    Knowledge,
    Move,
    Position,
    Published,
    Reason,
    ShowLeaf,
    Side,
    deadline_of,
    next_move,
)
from eigentensor.task import Demanded, Leaf, Paid, Slashed, State, order_uuid
from eigentensor.tracing import Execution
from support.stories.board import Board, checks_of, distorted, ended, executor_of, expected, garbage, transact, wealth
from support.stories.game_table import Case, Table, encoded
from support.stories.games import honest, reckless, spoiled
from support.stories.players import known, lying

Chains = Callable[[int], Chain]
NAME = "long sum"
HONEST = honest(Side.CHALLENGER)


@cache
def true() -> Execution:
    return known(NAME)[1]


@cache
def lie() -> Execution:
    """A consistent account of a wrong result."""
    example = known(NAME)[0]
    calls = range(len(example.program.calls) * example.repeat)
    return lying(example.program, example.tensors, example.variables, example.repeat, keep=calls)


def the_lie() -> Case:
    """A liar that defends its result, and an honest challenger."""
    return Case(true(), lie().outputs, executor_of(lie()), HONEST)


def the_truth(seed: int = 3) -> Case:
    """An honest executor, and a challenger that objects to what is right."""
    return Case(true(), true().outputs, executor_of(true()), reckless(Random(seed)))


def begun(table: Table, case: Case) -> Board:
    (order,) = table.revealed([case])
    return Board.of(table, case, order, table.challenger)


def settled(board: Board, before: dict[str, int], *others: Chain, lost: tuple[str, ...] = ()) -> State:
    """The task's end, at which everybody has what the table of who pays whom says."""
    state = ended(board.table, board.order)
    assert board.end is not None
    winner = board.challenger.address if board.end[0] is Side.EXECUTOR else ""
    lost = lost if winner else (board.challenger.address, *lost)
    assert state is (State.CONVICTED if winner else State.FINAL)
    assert wealth(board.table, *others) == expected(board.table, board.order, before, lost=lost, winner=winner)
    return state


def mutants(move: Move) -> list[Move]:
    """Moves that say something else, and can be made."""

    def other(data: bytes) -> bytes:
        return bytes((data[0] ^ 1, *data[1:]))

    match move:
        case ShowLeaf(leaf, results) if results:
            return [ShowLeaf(leaf, other(results)), ShowLeaf(leaf, results[:-1] + bytes((results[-1] ^ 1,)))]
        case ClaimBorders(values):
            return [ClaimBorders(other(values)), ClaimBorders(values[:-2] + other(values[-2:]))]
    return []


# ---- At every point ----


@pytest.mark.slow
@pytest.mark.parametrize("case", [the_lie, the_truth])
def test_whoever_falls_silent_loses_by_its_clock_and_pays_for_it(table: Table, case: Callable[[], Case]) -> None:
    before = wealth(table)
    board = begun(table, case())
    while board.end is None:
        with board.tried() as here:
            here.run_out()
            assert here.end == (board.side, Reason.CLOCK)
            settled(here, before)
        board.play()
    settled(board, before)


@pytest.mark.slow
@pytest.mark.parametrize("case", [the_lie, the_truth])
def test_a_move_in_the_last_block_counts_and_one_block_later_none_does(table: Table, case: Callable[[], Case]) -> None:
    before = wealth(table)
    board = begun(table, case())
    points = 0
    while board.end is None:
        move = board.next()
        if move is None:
            break
        with board.tried() as here:
            table.anvil.mine_past(deadline_of(here.position) - 2)
            assert here.takes(here.data(move)), "the last block"
        with board.tried() as here:
            table.anvil.mine_past(deadline_of(here.position) - 1)
            assert not here.takes(here.data(move)), "a block later"
        assert board.takes(board.data(move))
        points += 1
    assert points >= 4
    board.play_out()
    settled(board, before)


@pytest.mark.slow
@pytest.mark.parametrize("case", [the_lie, the_truth])
def test_nobody_can_take_another_players_turn_replay_a_move_or_send_garbage(
    table: Table, case: Callable[[], Case], chain_of: Chains
) -> None:
    """INVARIANTS 30 to 32. A verdict alone is anybody's: whoever sends it, it ends the game as it would end."""
    before, stranger = wealth(table), chain_of(5)
    board = begun(table, case())
    twin, played = Board.of(table, board.case, board.order, table.challenger), [""]
    while board.end is None and (move := board.next()) is not None:
        data, opponent = board.data(move), (table.challenger, table.operator)[board.side]
        with board.tried() as here:
            assert not any(here.takes(bad) for bad in (played[-1], garbage(here.game, len(played))))
            assert not here.takes(replace(here, game=twin.game).data(move)), "another game's position"
            assert not any(here.takes(here.data(bad)) for bad in spoiled(move))
        ends = []
        for sender in (stranger, opponent, board.mover):
            with board.tried() as here:
                assert here.takes(data, sender) is (here.end is not None) or sender is board.mover
                ends.append(here.end)
        assert set(ends) in ({ends[-1]}, {None, ends[-1]})
        played.append(data)
        assert board.takes(data)
    if board.play_out()[0] is Side.EXECUTOR:
        refund = encoded(table.client.node.market, "refund", (board.order.as_tuple(), twin.game))
        assert transact(table, stranger, refund, table.client.node.market.address)
        settled(board, before)
    else:
        twin.run_out()  # even the honest executor has to move in each of its games
        assert twin.end == (Side.EXECUTOR, Reason.CLOCK)
        settled(twin, before, lost=(table.challenger.address,))


@pytest.mark.slow
def test_an_executor_whose_account_is_wrong_in_one_place_is_convicted_wherever_that_is(table: Table) -> None:
    """INVARIANT 36: its result is right."""
    before = wealth(table)
    board = begun(table, Case(true(), true().outputs, executor_of(true()), HONEST))
    for number in (number for number, tensor in true().kept.items() if tensor.size):
        with board.tried() as here:
            here.case = replace(board.case, executor=executor_of(distorted(true(), number)))
            assert here.play_out()[0] is Side.EXECUTOR
            settled(here, before)


@pytest.mark.slow
def test_a_liar_that_says_something_else_in_one_move_is_convicted_all_the_same(table: Table) -> None:
    """INVARIANT 27."""
    before = wealth(table)
    board, lies = begun(table, the_lie()), 0
    while board.end is None and (move := board.next()) is not None:
        for mutant in mutants(move):
            with board.tried() as here:
                if here.takes(here.data(mutant)):
                    assert here.play_out()[0] is Side.EXECUTOR
                    settled(here, before)
                    lies += 1
        assert board.takes(board.data(move))
    assert lies > 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_a_challenger_that_plays_badly_on_purpose_pays_and_harms_nobody(table: Table, seed: int) -> None:
    """INVARIANTS 9, 26, 28."""
    before = wealth(table)
    board = begun(table, the_truth(seed))
    assert board.play_out()[0] is Side.CHALLENGER
    assert settled(board, before) is State.FINAL


# ---- Several games about one claim ----


@pytest.mark.parametrize("first", ["bad", pytest.param("good", marks=pytest.mark.slow)])
def test_two_challengers_on_one_claim_hinder_each_other_in_no_order(table: Table, chain_of: Chains, first: str) -> None:
    """INVARIANTS 8, 28: a bought challenger that loses on purpose, and an honest one."""
    friend = chain_of(5)
    friend.token.mint(friend.address, 10**18)
    friend.market.deposit(friend.address, 10**18)
    before = wealth(table, friend)
    good = begun(table, the_lie())
    bad = Board.of(table, losing(good.case), good.order, friend)
    for _ in range(2):
        bad.play()
        good.play()
    if first == "bad":
        assert bad.play_out()[0] is Side.CHALLENGER
        assert good.play_out() == (Side.EXECUTOR, Reason.VERDICT)
        settled(good, before, friend, lost=(friend.address,))
    else:
        assert good.play_out() == (Side.EXECUTOR, Reason.VERDICT)
        refund = encoded(table.client.node.market, "refund", (good.order.as_tuple(), bad.game))
        assert transact(table, table.client, refund, table.client.node.market.address)
        settled(good, before, friend)
    slashed_and_paid(good)


def losing(case: Case) -> Case:
    """A challenger that believes the lie, and has a true step judged."""
    account = distorted(lie(), 0)

    def lose(position: Position, published: Published, knowledge: Knowledge) -> Move | Keep | None:
        return next_move(Side.CHALLENGER, position, published, replace(knowledge, account=account))

    return replace(case, challenger=lose)


def slashed_and_paid(board: Board) -> None:
    """The rest of a conviction: s out of the stake, half of it to the winner, the other half burned."""
    table, market = board.table, board.table.client.node.market
    task = order_uuid(board.order, table.client.deployment.domain)
    before, locked = wealth(table), table.client.stake.lock_of(task, table.operator.address).shares
    table.anvil.mine_past(table.client.market.answers_by(task))
    events = transact(table, table.client, encoded(market, "slash", (board.order.as_tuple(),)), market.address) or []
    (slashed,) = [event for event in events if isinstance(event, Slashed)]
    assert abs(slashed.shares - locked) <= 1024
    table.anvil.mine(25)
    bounty = table.client.node.bounty
    events = transact(table, table.client, encoded(bounty, "pay", (slashed.slash_id,)), bounty.address) or []
    (paid,) = [event for event in events if isinstance(event, Paid)]
    after = wealth(table)
    winner, burn = board.challenger.address, table.client.deployment.burn
    gained = {account: after[account] - before[account] for account in after if after[account] != before[account]}
    assert (
        gained == {winner: paid.share, burn: paid.burned + checks_of(board.order)}
        and 0 <= paid.burned - paid.share <= 1
    )


def test_an_executor_that_changes_its_story_between_games_loses_each_of_them(table: Table, chain_of: Chains) -> None:
    """INVARIANTS 27, 31: each game is judged by what was published in it alone."""
    second = chain_of(5)
    second.token.mint(second.address, 10**18)
    second.market.deposit(second.address, 10**18)
    before = wealth(table, second)
    stories = [lie(), distorted(lie(), len(lie().calls) - 1), replace(true(), outputs=lie().outputs)]
    board = begun(table, the_lie())
    for story in stories:
        case = replace(board.case, executor=executor_of(story))
        with board.tried() as one:
            other = Board.of(table, case, one.order, second)
            one.play()
            other.play()
            assert one.position.claim != other.position.claim or story is stories[0]
            with other.tried() as alone:
                assert alone.play_out()[0] is Side.EXECUTOR
                settled(alone, before, second)
            assert one.play_out()[0] is Side.EXECUTOR
            settled(one, before, second)


def test_a_right_result_with_another_story_in_one_game_is_convicted_by_that_game(
    table: Table, chain_of: Chains
) -> None:
    """INVARIANT 36: outputs are right, an intermediate is not; the honest game before saves nobody."""
    second = chain_of(5)
    second.token.mint(second.address, 10**18)
    second.market.deposit(second.address, 10**18)
    before = wealth(table, second)
    vain = begun(table, the_truth())
    story = Case(true(), true().outputs, executor_of(distorted(true(), 0)), HONEST)
    other = Board.of(table, story, vain.order, second)
    assert vain.play_out()[0] is Side.CHALLENGER
    assert other.play_out()[0] is Side.EXECUTOR
    settled(other, before, second, lost=(table.challenger.address,))


@pytest.mark.slow
def test_leaves_that_are_demanded_beside_a_game_and_not_shown_convict_whoever_plays_on(table: Table) -> None:
    """INVARIANT 3. It costs the client and the challenger nothing; nobody won, so whoever slashes has W."""
    before, market = wealth(table), table.client.node.market
    (order,) = table.revealed([the_truth()])
    asked = encoded(market, "demand", (order.as_tuple(), [astuple(Leaf(False, 0, 0))]))
    (demanded,) = [e for e in transact(table, table.client, asked, market.address) or () if isinstance(e, Demanded)]
    board = Board.of(table, the_truth(), order, table.challenger)
    board.play()
    assert board.side is Side.CHALLENGER
    table.anvil.mine_past(demanded.by)
    assert ended(table, order) is State.CONVICTED and demanded.by < deadline_of(board.position)
    refund = encoded(market, "refund", (order.as_tuple(), board.game))
    assert transact(table, table.client, refund, market.address)
    reward = economics.reward(table.client.deployment.parameters, order.max_price)
    convicted = expected(table, order, before, winner=table.client.address)
    convicted[table.client.address] -= reward
    assert wealth(table) == convicted
    task = order_uuid(order, table.client.deployment.domain)
    table.anvil.mine_past(table.client.market.answers_by(task))
    assert transact(table, table.challenger, encoded(market, "slash", (order.as_tuple(),)), market.address)
    burned = wealth(table)[table.client.deployment.burn] - convicted[table.client.deployment.burn]
    assert wealth(table)[table.challenger.address] == before[table.challenger.address] + reward
    assert burned == checks_of(order)
