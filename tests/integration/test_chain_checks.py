"""Seeds, draws, answers and seats on a real chain, every message by hand."""

from collections.abc import Callable

import pytest
from eth_utils.crypto import keccak

from eigentensor import economics
from eigentensor.chain import Answer, Chain, Conviction, Opening, Stage
from eigentensor.economics import WAD
from eigentensor.errors import Reverted
from eigentensor.task import (
    Cause,
    Closed,
    Convicted,
    Exposed,
    Noted,
    Order,
    Seeded,
    Settled,
    Slashed,
    State,
    order_uuid,
)
from eigentensor_local.anvil import SEATS, Anvil, pass_seed
from support.stories.market import ROOT, SALT, Life, gained, wealth
from support.web3 import web3_of

Chains = Callable[[int], Chain]
Orders = Callable[..., Order]


def test_a_verifier_that_agrees_is_paid_and_gets_its_bond_back(life: Life, verifiers: list[Chain]) -> None:
    verifier = verifiers[0]
    before = wealth(verifier)
    life.drawn()
    assert life.client.market.is_drawn(life.order) is True
    index = life.answer(verifier, ROOT)
    hidden = life.hidden(verifier, index + 1, ROOT)
    assert life.client.market.answer_of(life.task, index) == Answer(verifier.address, Stage.HIDDEN, hidden)
    assert verifier.market.held_of(verifier.address) == life.bond
    with pytest.raises(Reverted, match="TooEarly"):
        life.reveal(life.operator)
    life.pass_checks()
    life.reveal(life.operator)
    life.reveal(verifier, index + 1)
    assert life.client.market.answer_of(life.task, index).stage is Stage.AGREED
    assert life.client.market.task_at(life.task).agreed == 1 << index
    life.anvil.mine_past(life.client.market.deadline_of(life.task))
    (closed,) = [e for e in verifier.market.close(life.order).events if isinstance(e, Closed)]
    assert (closed.paid, closed.refund) == (
        life.order.max_price,
        life.order.escrow - closed.paid - life.order.check_fee,
    )
    (settled,) = [e for e in verifier.market.settle(life.order, index).events if isinstance(e, Settled)]
    assert (settled.slot, settled.account) == (index + 1, verifier.address)
    assert settled.amount == life.bond + life.order.check_fee
    assert gained(verifier, before) == life.order.check_fee


def test_a_drawn_executor_that_does_not_reveal_is_convicted_and_slashed(
    life: Life, verifiers: list[Chain], chain_of: Chains
) -> None:
    anybody = chain_of(5)
    stake = life.client.stake.of(life.operator.address)
    life.drawn()
    life.anvil.mine_past(life.client.market.deadline_of(life.task))
    (convicted,) = [e for e in anybody.market.close(life.order).events if isinstance(e, Convicted)]
    assert (convicted.cause, convicted.refund) == (Cause.SILENCE, life.order.escrow)
    assert life.client.market.balance_of(life.client.address).balance == life.order.escrow
    assert life.client.market.task_at(life.task).state is State.CONVICTED
    life.pass_answers()
    lock = life.client.stake.lock_of(life.task, life.operator.address)
    events = anybody.market.slash(life.order).events
    (slashed,) = [e for e in events if isinstance(e, Slashed)]
    assert 0 <= slashed.shares - lock.shares <= 1024 and slashed.caller == anybody.address
    assert slashed.shares <= stake - life.client.stake.of(life.operator.address) + 1
    assert life.client.market.conviction_of(life.task) == Conviction(Cause.SILENCE, "0x" + "00" * 20, True)
    # Nobody else earned the reward.
    assert anybody.market.balance_of(anybody.address).balance == economics.reward(life.parameters, life.order.max_price)
    assert any(isinstance(e, Noted) for e in events)


def test_selling_an_answer_is_a_losing_trade(life: Life, verifiers: list[Chain], chain_of: Chains) -> None:
    buyer = chain_of(5)
    before = wealth(life.operator)
    life.drawn()
    (exposed,) = [
        e for e in buyer.market.expose(life.order, Opening(life.task, ROOT, SALT)).events if isinstance(e, Exposed)
    ]
    reward = economics.reward(life.parameters, life.order.max_price)
    assert (exposed.slot, exposed.caller, exposed.amount) == (0, buyer.address, reward // 2)
    assert gained(life.operator, before) == -reward
    life.pass_checks()
    life.reveal(life.operator)
    assert life.client.market.task_at(life.task).state is State.REVEALED


def test_a_seed_is_the_blocks_own_and_is_recorded_once(
    anvil: Anvil, client: Chain, operator: Chain, order_of: Orders
) -> None:
    block = client.node.block_number()
    assert keccak(client.node.header(block)) == client.node.head().hash
    anvil.mine()
    mix = web3_of(anvil).eth.get_block(block)["mixHash"]
    assert client.market.seed_of(block) is None
    (seeded,) = [e for e in client.market.seed(block).events if isinstance(e, Seeded)]
    assert (seeded.seed_block, seeded.mix) == (block, bytes(mix)) and client.market.seed_of(block) == bytes(mix)
    assert operator.market.seed(block).events == ()


@pytest.mark.parametrize("drawn", [True, False])
def test_tests_choose_what_is_drawn(
    anvil: Anvil, client: Chain, operator: Chain, order_of: Orders, drawn: bool
) -> None:
    for _ in range(3):
        life = Life(anvil, client, operator, order_of(check_rate=WAD // 2))
        life.committed()
        pass_seed(anvil, client, life.order, drawn=drawn)
        assert client.market.is_drawn(life.order) is drawn


def test_a_seed_of_another_fork_is_recorded_anew(life: Life) -> None:
    life.committed()
    seed = life.client.market.seed_block_of(life.task)
    life.anvil.mine_past(seed)
    first = life.client.market.seed(seed)
    life.anvil.rollback(3)
    life.anvil.rpc("evm_increaseTime", 5)
    life.anvil.mine(3)
    assert life.client.market.seed_of(seed) is None
    second = life.client.market.seed(seed)
    assert second.transaction != first.transaction and life.client.market.seed_of(seed) is not None


def test_seats_come_and_go_with_stake(operator: Chain, verifiers: list[Chain]) -> None:
    other = verifiers[0]
    count = operator.stake.seat_count()
    assert operator.stake.seats_of(operator.address) == SEATS
    assert operator.stake.other_seats(operator.address) == SEATS * len(verifiers)
    enlisted = operator.stake.enlist(operator.address, 3)
    assert operator.stake.seats_of(operator.address) == SEATS + 3 and operator.stake.seat_count() == count + 3
    seat = operator.stake.seat_at(count)
    assert (seat.operator, seat.since) == (operator.address, enlisted.block)
    with pytest.raises(Reverted, match="SeatsNotCovered"):
        operator.stake.enlist(operator.address, 1000)
    with pytest.raises(Reverted, match="SeatsCovered"):
        other.stake.prune(operator.address)
    operator.stake.leave(operator.address)
    assert operator.stake.seats_of(operator.address) == 0 and operator.stake.seat_count() == count + 3
    other.stake.leave_operator_set()
    assert not other.stake.is_member(other.address) and other.stake.seats_of(other.address) == 0


def test_stake_is_free_or_locked(anvil: Anvil, client: Chain, operator: Chain, order_of: Orders) -> None:
    end = client.node.block_number() + 500
    assert operator.stake.allocation_of(operator.address) == WAD
    free = operator.stake.free_stake(operator.address, end)
    order = order_of()
    task = order_uuid(order, client.deployment.domain)
    client.market.post(order)
    operator.market.accept(operator.address, order)
    locked = operator.stake.locked_stake(operator.address)
    assert locked > 0 and free - operator.stake.free_stake(operator.address, end) == locked
    with pytest.raises(Reverted, match="LockNotOver"):
        client.stake.unlock(task, operator.address)
    anvil.mine_past(client.stake.lock_of(task, operator.address).end)
    client.stake.unlock(task, operator.address)
    assert operator.stake.locked_stake(operator.address) == 0
