"""Challenges, games, demands and convictions on a real chain, every message by hand."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from eigentensor import economics, merkle
from eigentensor.chain import Chain
from eigentensor.chain.lives import Lives
from eigentensor.dispute.moves import Publish
from eigentensor.dispute.position import Phase, Reason, claim_hash, deadline_of
from eigentensor.errors import ChainError, Reverted
from eigentensor.program.codec import HEADER, MAGIC
from eigentensor.task import (
    NONE,
    BondReturned,
    Cause,
    Challenged,
    Closed,
    Convicted,
    Demanded,
    GameEnded,
    Leaf,
    Order,
    Paid,
    Settled,
    Slashed,
)
from eigentensor.tracing import Claim
from eigentensor_client.tasks import payable_from
from eigentensor_local.anvil import Anvil
from eigentensor_operator.machine import step
from eigentensor_operator.reading import deadlines_of
from eigentensor_operator.state import Operator
from support.stories.market import OTHER, ROOT, Life, gained, wealth
from support.stories.operator import POLICY

RESOLUTION = 20  # blocks, of the local stand-in
Chains = Callable[[int], Chain]
Orders = Callable[..., Order]


def test_a_differing_answer_opens_a_game_and_who_does_not_move_loses_it(
    life: Life, verifiers: list[Chain], chain_of: Chains
) -> None:
    verifier, anybody = verifiers[1], chain_of(5)
    life.drawn()
    index = life.answer(verifier, OTHER)
    life.pass_checks()
    life.reveal(life.operator)
    before = wealth(verifier)
    life.reveal(verifier, index + 1, OTHER)
    (number,) = life.client.games.open(life.task)
    assert tuple(life.client.games.of(life.task)) == (number,)
    game = life.client.games.at(number)
    assert (game.task, game.challenger, game.ended) == (life.task, verifier.address, None)
    assert (game.position.phase, game.position.executor) == (Phase.PUBLISH, life.operator.address)
    assert game.position.executor_left == economics.clock(life.parameters, life.order.exec)
    with pytest.raises(Reverted, match="ClockNotOver"):
        anybody.games.timeout(number, game.position)
    life.anvil.mine_past(deadline_of(game.position))
    events = anybody.games.timeout(number, game.position).events
    (ended,) = [e for e in events if isinstance(e, GameEnded)]
    assert (ended.game_id, ended.executor_lost) == (number, True)
    (convicted,) = [e for e in events if isinstance(e, Convicted)]
    assert (convicted.cause, convicted.winner) == (Cause.VERDICT, verifier.address)
    last = life.client.games.at(number).ended
    assert last is not None and (last.executor_lost, last.reason) == (True, Reason.CLOCK)
    assert life.client.games.open(life.task) == ()

    life.pass_answers()
    (slashed,) = [e for e in anybody.market.slash(life.order).events if isinstance(e, Slashed)]
    (settled,) = [e for e in anybody.market.settle(life.order, index).events if isinstance(e, Settled)]
    assert settled.amount == life.bond + life.order.check_fee
    reward = economics.reward(life.parameters, life.order.max_price)
    assert gained(verifier, before) == reward + life.order.check_fee
    from_block = payable_from(anybody, Lives(anybody).of(life.order)[0])
    assert from_block == slashed.place.block + RESOLUTION + 1
    life.anvil.mine_past(from_block - 3)
    with pytest.raises(Reverted, match="SlashResolutionDelayNotElapsed"):
        anybody.stake.pay_bounty(slashed.slash_id)
    life.anvil.mine_past(from_block - 2)
    note = life.client.stake.note_of(slashed.slash_id)
    assert note.task == life.task and note.beneficiaries == (verifier.address,)
    (paid,) = [e for e in anybody.stake.pay_bounty(slashed.slash_id).events if isinstance(e, Paid)]
    assert payable_from(anybody, Lives(anybody).of(life.order)[0]) is None
    assert paid.share == note.amount // 2 and paid.share + paid.burned >= note.amount
    assert gained(verifier, before) == reward + life.order.check_fee + paid.share


def test_a_challenger_that_does_not_move_loses_its_bond_and_the_task_becomes_final(
    anvil: Anvil, client: Chain, operator: Chain, order_of: Orders, chain_of: Chains
) -> None:
    header, records, calls = HEADER.pack(MAGIC, 1, 0, 1, 1, 2, 1, 1, 0), b"\6" * 32, (b"\7" * 32, b"\x08" * 32)
    challenger, anybody = chain_of(4), chain_of(5)
    life = Life(anvil, client, operator, order_of(program=merkle.program_root_of(header, records)))
    life.undrawn()
    challenger.token.mint(challenger.address, life.bond)
    challenger.token.approve(client.deployment.task_market, life.bond)
    (opened,) = [
        e for e in challenger.market.challenge(challenger.address, life.order).events if isinstance(e, Challenged)
    ]
    number = opened.game_id
    assert opened.bond == life.bond and client.market.challenge_of(life.task, number).challenger == challenger.address

    trace = merkle.tree_root([*calls, ROOT])
    claim = Claim(life.order.program, NONE, NONE, NONE, NONE, 1, trace, ROOT)
    publish = Publish(life.order.as_tuple(), claim, header, records, (*calls, ROOT), ())
    with pytest.raises(Reverted, match="NotThePlayer"):
        challenger.games.play(number, client.games.at(number).position, publish)
    start = client.games.at(number).position
    operator.games.play(number, start, publish)
    game = client.games.at(number)
    assert game.position.phase is Phase.CALL and game.position.claim == claim_hash(claim)
    assert [move.data for move in game.moves] == [publish.published()]
    with pytest.raises(Reverted, match="WrongPosition"):
        anybody.games.timeout(number, start)

    before = wealth(operator)
    anvil.mine_past(deadline_of(game.position))
    anybody.games.timeout(number, game.position)
    assert client.games.at(number).ended is not None and client.games.open(life.task) == ()
    assert any(isinstance(e, Closed) for e in anybody.market.close(life.order).events)
    share = economics.bond_share(life.parameters, life.order.max_price)
    assert gained(operator, before) == life.order.max_price + share
    with pytest.raises(ChainError, match="no game 99"):
        client.games.at(99)


def test_leaves_that_the_client_demands_and_nobody_shows_convict(
    anvil: Anvil, client: Chain, operator: Chain, order_of: Orders, chain_of: Chains
) -> None:
    life = Life(anvil, client, operator, order_of())
    life.undrawn()
    leaves = (Leaf(False, 0, 0), Leaf(True, 1, 2))
    client.market.deposit(client.address, 2 * life.parameters.g_chunk)
    (demanded,) = [e for e in client.market.demand(life.order, leaves).events if isinstance(e, Demanded)]
    assert demanded.leaves == leaves
    anvil.mine_past(max(demanded.by, client.market.deadline_of(life.task)))
    (convicted,) = [e for e in chain_of(5).market.close(life.order).events if isinstance(e, Convicted)]
    assert convicted.cause is Cause.DEMAND
    assert client.market.balance_of(client.address).balance == life.order.escrow + 2 * life.parameters.g_chunk


def test_an_operator_asks_the_chain_whether_a_demand_waits(
    anvil: Anvil, client: Chain, operator: Chain, order_of: Orders
) -> None:
    life = Life(anvil, client, operator, order_of())
    life.undrawn()
    client.market.deposit(client.address, life.parameters.g_chunk)
    policy = replace(POLICY, operator=operator.address, parameters=life.parameters)

    def seen() -> Operator:
        now = Operator(policy)
        for event in client.history.events(client.deployment.block):
            now, _ = step(now, event)
        return now

    assert deadlines_of(client, seen()) == {}
    (demanded,) = [e for e in client.market.demand(life.order, (Leaf(False, 0, 0),)).events if isinstance(e, Demanded)]
    assert deadlines_of(client, seen()) == {life.task: demanded.by}


def test_a_bond_comes_back_when_another_game_convicts(
    anvil: Anvil, client: Chain, operator: Chain, order_of: Orders, chain_of: Chains
) -> None:
    life = Life(anvil, client, operator, order_of())
    life.undrawn()
    numbers = []
    for challenger in (chain_of(4), chain_of(5)):
        challenger.token.mint(challenger.address, life.bond)
        challenger.market.deposit(challenger.address, life.bond)
        challenger.market.challenge(challenger.address, life.order)
        numbers.append(client.games.open(life.task)[-1])
    first = client.games.at(numbers[0]).position
    anvil.mine_past(deadline_of(first))
    chain_of(4).games.timeout(numbers[0], first)
    (returned,) = [e for e in client.market.refund(life.order, numbers[1]).events if isinstance(e, BondReturned)]
    assert (returned.challenger, returned.amount) == (chain_of(5).address, life.bond)
    assert chain_of(5).market.balance_of(returned.challenger).balance == life.bond
