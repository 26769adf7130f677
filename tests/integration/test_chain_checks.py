"""Checks, challenges and convictions on a real chain, every message by hand."""

from collections.abc import Callable

import pytest
from eth_utils.crypto import keccak

from eigentensor import economics, merkle
from eigentensor.chain import (
    NONE,
    Answer,
    BondReturned,
    Cause,
    Chain,
    Challenged,
    Closed,
    Convicted,
    Conviction,
    Demanded,
    Exposed,
    GameEnded,
    Leaf,
    Noted,
    Opening,
    Order,
    Paid,
    Seeded,
    Settled,
    Slashed,
    Stage,
    State,
    commitment,
    order_uuid,
)
from eigentensor.dispute.moves import Publish
from eigentensor.dispute.position import Phase, Reason, claim_hash, deadline_of
from eigentensor.economics import WAD
from eigentensor.errors import ChainError, Reverted
from eigentensor.program.codec import HEADER, MAGIC
from eigentensor.testing.localnet import SEATS, Anvil, pass_seed
from eigentensor.tracing import Claim

Chains = Callable[[int], Chain]
Orders = Callable[..., Order]
ROOT, OTHER, SALT = b"\2" * 32, b"\4" * 32, b"\3" * 32


class Life:
    """A task of the client that is certainly checked, and its steps."""

    def __init__(self, anvil: Anvil, client: Chain, operator: Chain, order: Order) -> None:
        self.anvil = anvil
        self.client = client
        self.operator = operator
        self.order = order
        self.parameters = client.deployment.parameters
        self.task = order_uuid(order, client.deployment.domain)

    def hidden(self, chain: Chain, slot: int, root: bytes) -> bytes:
        return commitment(chain.deployment.domain, self.task, chain.address, slot, root, SALT)

    def drawn(self) -> None:
        """Posted, accepted, committed, seeded."""
        self.client.post(self.order)
        self.operator.accept(self.operator.address, self.order)
        self.operator.commit(self.operator.address, self.task, self.hidden(self.operator, 0, ROOT))
        pass_seed(self.anvil, self.client, self.order, drawn=True)

    def index_of(self, verifier: Chain) -> int:
        """The lowest index that is drawn for the verifier."""
        indices = range(16 * self.order.verifiers)
        return next(i for i in indices if self.client.seat_of(self.task, i).operator == verifier.address)

    def answer(self, verifier: Chain, root: bytes) -> int:
        index = self.index_of(verifier)
        verifier.answer(verifier.address, self.order, index, self.hidden(verifier, index + 1, root))
        return index

    def reveal(self, chain: Chain, slot: int = 0, root: bytes = ROOT) -> None:
        chain.reveal(self.order, Opening(self.task, root, SALT, slot))

    def pass_checks(self) -> None:
        """To the first block in which the executor of a drawn task may reveal."""
        seed = self.client.seed_block_of(self.task)
        self.anvil.mine_past(seed + economics.check_window(self.parameters, self.order.exec))

    def pass_answers(self) -> None:
        self.anvil.mine_past(self.client.answers_by(self.task))

    @property
    def bond(self) -> int:
        return economics.bond(self.parameters, self.order.max_price)


@pytest.fixture
def life(anvil: Anvil, client: Chain, operator: Chain, order_of: Orders) -> Life:
    return Life(anvil, client, operator, order_of(check_rate=WAD))


def gained(chain: Chain, before: int) -> int:
    account = chain.balance_of(chain.address)
    return account.balance + account.collateral - before


def wealth(chain: Chain) -> int:
    return gained(chain, 0)


def test_a_verifier_that_agrees_is_paid_and_gets_its_bond_back(life: Life, verifiers: list[Chain]) -> None:
    verifier = verifiers[0]
    before = wealth(verifier)
    life.drawn()
    assert life.client.is_drawn(life.order) is True
    index = life.answer(verifier, ROOT)
    hidden = life.hidden(verifier, index + 1, ROOT)
    assert life.client.answer_of(life.task, index) == Answer(verifier.address, Stage.HIDDEN, hidden)
    assert verifier.balance_of(verifier.address).collateral == life.bond
    with pytest.raises(Reverted, match="TooEarly"):
        life.reveal(life.operator)
    life.pass_checks()
    life.reveal(life.operator)
    life.reveal(verifier, index + 1)
    assert life.client.answer_of(life.task, index).stage is Stage.AGREED
    assert life.client.task_at(life.task).agreed == 1 << index
    life.anvil.mine_past(life.client.deadline_of(life.task))
    (closed,) = [e for e in verifier.close(life.order).events if isinstance(e, Closed)]
    assert (closed.paid, closed.refund) == (
        life.order.max_price,
        life.order.escrow - closed.paid - life.order.check_fee,
    )
    (settled,) = [e for e in verifier.settle(life.order, index).events if isinstance(e, Settled)]
    assert (settled.slot, settled.account) == (index + 1, verifier.address)
    assert settled.amount == life.bond + life.order.check_fee
    assert gained(verifier, before) == life.order.check_fee


def test_a_drawn_executor_that_does_not_reveal_is_convicted_and_slashed(
    life: Life, verifiers: list[Chain], chain_of: Chains
) -> None:
    anybody = chain_of(5)
    stake = life.client.stake_of(life.operator.address)
    life.drawn()
    life.anvil.mine_past(life.client.deadline_of(life.task))
    (convicted,) = [e for e in anybody.close(life.order).events if isinstance(e, Convicted)]
    assert (convicted.cause, convicted.refund) == (Cause.SILENCE, life.order.escrow)
    assert life.client.balance_of(life.client.address).balance == life.order.escrow
    assert life.client.task_at(life.task).state is State.CONVICTED
    life.pass_answers()
    lock = life.client.lock_of(life.task, life.operator.address)
    events = anybody.slash(life.order).events
    (slashed,) = [e for e in events if isinstance(e, Slashed)]
    assert 0 <= slashed.shares - lock.shares <= 1024 and slashed.caller == anybody.address
    assert slashed.shares <= stake - life.client.stake_of(life.operator.address) + 1
    assert life.client.conviction_of(life.task) == Conviction(Cause.SILENCE, "0x" + "00" * 20, True)
    # Nobody else earned the reward.
    assert anybody.balance_of(anybody.address).balance == economics.reward(life.parameters, life.order.max_price)
    assert any(isinstance(e, Noted) for e in events)


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
    (number,) = life.client.open_games(life.task)
    assert life.client.games_of(life.task) == (number,)
    game = life.client.game(number)
    assert (game.task, game.challenger, game.ended) == (life.task, verifier.address, None)
    assert (game.position.phase, game.position.executor) == (Phase.PUBLISH, life.operator.address)
    assert game.position.executor_left == economics.clock(life.parameters, life.order.exec)
    with pytest.raises(Reverted, match="ClockNotOver"):
        anybody.timeout(number, game.position)
    life.anvil.mine_past(deadline_of(game.position))
    events = anybody.timeout(number, game.position).events
    (ended,) = [e for e in events if isinstance(e, GameEnded)]
    assert (ended.game_id, ended.executor_lost) == (number, True)
    (convicted,) = [e for e in events if isinstance(e, Convicted)]
    assert (convicted.cause, convicted.winner) == (Cause.VERDICT, verifier.address)
    last = life.client.game(number).ended
    assert last is not None and (last.executor_lost, last.reason) == (True, Reason.CLOCK)
    assert life.client.open_games(life.task) == ()

    life.pass_answers()
    (slashed,) = [e for e in anybody.slash(life.order).events if isinstance(e, Slashed)]
    (settled,) = [e for e in anybody.settle(life.order, index).events if isinstance(e, Settled)]
    assert settled.amount == life.bond + life.order.check_fee
    reward = economics.reward(life.parameters, life.order.max_price)
    assert gained(verifier, before) == reward + life.order.check_fee
    with pytest.raises(Reverted):
        anybody.pay_bounty(slashed.slash_id)
    life.anvil.mine(30)
    note = life.client.note_of(slashed.slash_id)
    assert note.task == life.task and note.beneficiaries == (verifier.address,)
    (paid,) = [e for e in anybody.pay_bounty(slashed.slash_id).events if isinstance(e, Paid)]
    assert paid.share == note.amount // 2 and paid.share + paid.burned >= note.amount
    assert gained(verifier, before) == reward + life.order.check_fee + paid.share


def undrawn(life: Life) -> None:
    """Posted, accepted, committed, seeded, revealed."""
    life.client.post(life.order)
    life.operator.accept(life.operator.address, life.order)
    life.operator.commit(life.operator.address, life.task, life.hidden(life.operator, 0, ROOT))
    pass_seed(life.anvil, life.client, life.order, drawn=False)
    life.reveal(life.operator)


def test_a_challenger_that_does_not_move_loses_its_bond_and_the_task_becomes_final(
    anvil: Anvil, client: Chain, operator: Chain, order_of: Orders, chain_of: Chains
) -> None:
    header, records, calls = HEADER.pack(MAGIC, 1, 0, 1, 1, 2, 1, 1, 0), b"\6" * 32, (b"\7" * 32, b"\x08" * 32)
    challenger, anybody = chain_of(4), chain_of(5)
    life = Life(anvil, client, operator, order_of(program=merkle.program_root_of(header, records)))
    undrawn(life)
    challenger.mint(challenger.address, life.bond)
    challenger.approve(client.deployment.task_market, life.bond)
    (opened,) = [e for e in challenger.challenge(challenger.address, life.order).events if isinstance(e, Challenged)]
    number = opened.game_id
    assert opened.bond == life.bond and client.challenge_of(life.task, number).challenger == challenger.address

    trace = merkle.tree_root([*calls, ROOT])
    claim = Claim(life.order.program, NONE, NONE, NONE, NONE, 1, trace, ROOT)
    publish = Publish(life.order.as_tuple(), claim, header, records, calls)
    with pytest.raises(Reverted, match="NotThePlayer"):
        challenger.play(number, client.game(number).position, publish)
    start = client.game(number).position
    operator.play(number, start, publish)
    game = client.game(number)
    assert game.position.phase is Phase.CALL and game.position.claim == claim_hash(claim)
    assert [move.data for move in game.moves] == [publish.published()]
    with pytest.raises(Reverted, match="WrongPosition"):
        anybody.timeout(number, start)

    before = wealth(operator)
    anvil.mine_past(deadline_of(game.position))
    anybody.timeout(number, game.position)
    assert client.game(number).ended is not None and client.open_games(life.task) == ()
    assert any(isinstance(e, Closed) for e in anybody.close(life.order).events)
    share = economics.bond_share(life.parameters, life.order.max_price)
    assert gained(operator, before) == life.order.max_price + share
    with pytest.raises(ChainError, match="no game 99"):
        client.game(99)


def test_selling_an_answer_is_a_losing_trade(life: Life, verifiers: list[Chain], chain_of: Chains) -> None:
    buyer = chain_of(5)
    before = wealth(life.operator)
    life.drawn()
    (exposed,) = [e for e in buyer.expose(life.order, Opening(life.task, ROOT, SALT)).events if isinstance(e, Exposed)]
    reward = economics.reward(life.parameters, life.order.max_price)
    assert (exposed.slot, exposed.caller, exposed.amount) == (0, buyer.address, reward // 2)
    assert gained(life.operator, before) == -reward
    life.pass_checks()
    life.reveal(life.operator)
    assert life.client.task_at(life.task).state is State.REVEALED


def test_leaves_that_the_client_demands_and_nobody_shows_convict(
    anvil: Anvil, client: Chain, operator: Chain, order_of: Orders, chain_of: Chains
) -> None:
    life = Life(anvil, client, operator, order_of())
    undrawn(life)
    leaves = (Leaf(False, 0, 0), Leaf(True, 1, 2))
    client.deposit(client.address, 2 * life.parameters.g_chunk)
    (demanded,) = [e for e in client.demand(life.order, leaves).events if isinstance(e, Demanded)]
    assert demanded.leaves == leaves
    anvil.mine_past(max(demanded.by, client.deadline_of(life.task)))
    (convicted,) = [e for e in chain_of(5).close(life.order).events if isinstance(e, Convicted)]
    assert convicted.cause is Cause.DEMAND
    assert client.balance_of(client.address).balance == life.order.escrow + 2 * life.parameters.g_chunk


def test_a_bond_comes_back_when_another_game_convicts(
    anvil: Anvil, client: Chain, operator: Chain, order_of: Orders, chain_of: Chains
) -> None:
    life = Life(anvil, client, operator, order_of())
    undrawn(life)
    numbers = []
    for challenger in (chain_of(4), chain_of(5)):
        challenger.mint(challenger.address, life.bond)
        challenger.deposit(challenger.address, life.bond)
        challenger.challenge(challenger.address, life.order)
        numbers.append(client.open_games(life.task)[-1])
    first = client.game(numbers[0]).position
    anvil.mine_past(deadline_of(first))
    chain_of(4).timeout(numbers[0], first)
    (returned,) = [e for e in client.refund(life.order, numbers[1]).events if isinstance(e, BondReturned)]
    assert (returned.challenger, returned.amount) == (chain_of(5).address, life.bond)
    assert chain_of(5).balance_of(returned.challenger).balance == life.bond


def test_a_seed_is_the_blocks_own_and_is_recorded_once(
    anvil: Anvil, client: Chain, operator: Chain, order_of: Orders
) -> None:
    block = client.block_number()
    assert keccak(client.header(block)) == client.head().hash
    anvil.mine()
    mix = anvil.web3.eth.get_block(block)["mixHash"]
    assert client.seed_of(block) is None
    (seeded,) = [e for e in client.seed(block).events if isinstance(e, Seeded)]
    assert (seeded.seed_block, seeded.mix) == (block, bytes(mix)) and client.seed_of(block) == bytes(mix)
    assert operator.seed(block).events == ()


def test_a_seed_of_another_fork_is_recorded_anew(life: Life) -> None:
    life.client.post(life.order)
    life.operator.accept(life.operator.address, life.order)
    life.operator.commit(life.operator.address, life.task, life.hidden(life.operator, 0, ROOT))
    seed = life.client.seed_block_of(life.task)
    life.anvil.mine_past(seed)
    first = life.client.seed(seed)
    life.anvil.rollback(3)
    life.anvil.rpc("evm_increaseTime", 5)
    life.anvil.mine(3)
    assert life.client.seed_of(seed) is None
    second = life.client.seed(seed)
    assert second.transaction != first.transaction and life.client.seed_of(seed) is not None


def test_seats_come_and_go_with_stake(operator: Chain, verifiers: list[Chain]) -> None:
    other = verifiers[0]
    count = operator.seat_count()
    assert operator.seats_of(operator.address) == SEATS
    assert operator.other_seats(operator.address) == SEATS * len(verifiers)
    enlisted = operator.enlist(operator.address, 3)
    assert operator.seats_of(operator.address) == SEATS + 3 and operator.seat_count() == count + 3
    seat = operator.seat_at(count)
    assert (seat.operator, seat.since) == (operator.address, enlisted.block)
    with pytest.raises(Reverted, match="SeatsNotCovered"):
        operator.enlist(operator.address, 1000)
    with pytest.raises(Reverted, match="SeatsCovered"):
        other.prune(operator.address)
    operator.leave(operator.address)
    assert operator.seats_of(operator.address) == 0 and operator.seat_count() == count + 3
    other.leave_operator_set()
    assert not other.is_member(other.address) and other.seats_of(other.address) == 0


def test_stake_is_free_or_locked(anvil: Anvil, client: Chain, operator: Chain, order_of: Orders) -> None:
    end = client.block_number() + 500
    assert operator.allocation_of(operator.address) == WAD
    free = operator.free_stake(operator.address, end)
    order = order_of()
    task = order_uuid(order, client.deployment.domain)
    client.post(order)
    operator.accept(operator.address, order)
    locked = operator.locked_stake(operator.address)
    assert locked > 0 and free - operator.free_stake(operator.address, end) == locked
    with pytest.raises(Reverted, match="LockNotOver"):
        client.unlock(task, operator.address)
    anvil.mine_past(client.lock_of(task, operator.address).end)
    client.unlock(task, operator.address)
    assert operator.locked_stake(operator.address) == 0
