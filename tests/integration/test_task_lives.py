"""Random lives of tasks on a real chain: what is folded from their events is what the contracts' views say."""

import random
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from typing import TypeGuard

import pytest

from eigentensor import merkle
from eigentensor.chain import Chain, LeafProof, Opening, Stage
from eigentensor.economics import WAD
from eigentensor.errors import ChainError, Reverted
from eigentensor.task import Leaf, Life, Seeded, State, TaskEvent, due, fold
from eigentensor.task.candidates import DRAWS, candidates
from eigentensor.task.due import Due, Verb
from eigentensor_local.anvil import Anvil, pass_seed
from support.stories.market import OTHER, SALT, Orders
from support.stories.market import Life as Led

#: Walks that between them reach every end: by each cause of a conviction, with games, exposures, demands, settlements.
WALKS = (2, 3, 4, 5, 7, 8, 9, 16, 17, 19)
STEPS = 34
#: Outputs without a tensor: whatever leaf is demanded, this shows that there is none.
NO_OUTPUTS = LeafProof(bytes(32), 0, b"", (), 0, 0, bytes(32), b"", ())
ROOT = merkle.outputs_root(merkle.bindings_root_of(0, bytes(32)), bytes(32))


class Walker:
    """Leads one task at random, and folds what happens to it."""

    def __init__(self, led: Led, verifiers: Sequence[Chain], choose: random.Random) -> None:
        self.led = led
        self.chain = led.client
        self.verifiers = verifiers
        self.choose = choose
        self.first = led.client.node.block_number()
        self.life = Life(led.task, led.order, led.parameters)
        self.answers: dict[int, tuple[Chain, bytes]] = {}

    @property
    def block(self) -> int:
        return self.chain.node.block_number()

    def move(self) -> None:
        """Something that somebody tries, refused or not; or blocks that pass, often to the end of a window."""
        ways: dict[State, list[Callable[[], object]]] = {
            State.NONE: [lambda: self.chain.market.post(self.led.order)],
            State.OPEN: [*[self._accept] * 9, lambda: self.chain.market.cancel(self.led.order), self._due, self._wait],
            State.ACCEPTED: [*[self._commit] * 9, self._due, self._wait],
            State.COMMITTED: [self._seed] if self._waits_for_seed() else [
                *[self._answer, self._reveal] * 3, self._expose, self._due, self._wait
            ],
            State.REVEALED: [
                *[self._reveal_answer, self._due, self._wait] * 3, self._challenge, self._demand, self._show,
            ],
        }  # fmt: skip
        with suppress(Reverted):
            self.choose.choice(ways.get(self.life.state, [self._reveal_answer, self._due, self._due, self._wait]))()

    def _waits_for_seed(self) -> bool:
        is_early = self.life.state is State.COMMITTED and self.block < self.life.seed_block
        return is_early and self.life.mix is None and self.choose.random() < 0.8

    def _accept(self) -> None:
        self.led.operator.market.accept(self.led.operator.address, self.led.order)

    def _commit(self) -> None:
        self.led.operator.market.commit(
            self.led.operator.address, self.led.task, self.led.hidden(self.led.operator, 0, ROOT)
        )

    def _seed(self) -> None:
        drawn = self.led.order.check_rate == WAD or self.choose.random() < 0.7
        pass_seed(self.led.anvil, self.chain, self.led.order, drawn=drawn)

    def _answer(self) -> None:
        verifier = self.choose.choice(self.verifiers)
        if self.life.drawn and verifier not in [who for who, _ in self.answers.values()]:
            root = self.choose.choice([ROOT, OTHER])
            self.answers[self.led.answer(verifier, root)] = verifier, root

    def _expose(self) -> None:
        if self.answers:
            index = self.choose.choice(list(self.answers))
            opening = Opening(self.led.task, self.answers[index][1], SALT, index + 1)
            with pytest.raises(Reverted) if self._is_answered() else nullcontext():
                self.chain.market.expose(self.led.order, opening)

    def _reveal(self) -> None:
        """At once if nobody is left that may answer; before, it is refused."""
        if self.life.drawn and self.block < self.life.check_by and not self._is_answered():
            with pytest.raises(Reverted):
                self.led.reveal(self.led.operator, root=ROOT)
            self.led.pass_checks()
        self.led.reveal(self.led.operator, root=ROOT)

    def _is_answered(self) -> bool:
        """Whether somebody has answered and nobody is left that may: by who holds the drawn seats."""
        life = self.life
        if not life.answers or life.executor is None or life.committed_at is None:
            return False
        drawn = (self.chain.market.seat_of(life.uuid, index) for index in range(DRAWS * life.order.verifiers))
        able = candidates(((seat.operator, seat.since) for seat in drawn), life.executor, life.committed_at)
        return {operator for _, operator in able} <= {answer.operator for answer in life.answers.values()}

    def _reveal_answer(self) -> None:
        if self.answers:
            index = self.choose.choice(list(self.answers))
            verifier, root = self.answers[index]
            self.led.reveal(verifier, index + 1, root)

    def _challenge(self) -> None:
        self.chain.market.challenge(self.chain.address, self.led.order)

    def _demand(self) -> None:
        self.chain.market.deposit(self.chain.address, self.led.parameters.g_chunk)
        self.chain.market.demand(self.led.order, [Leaf(False, 0, 0)])

    def _show(self) -> None:
        """There is no such leaf: the outputs are empty."""
        if self.life.demand is not None:
            self.led.operator.market.show(self.led.order, self.life.demand.leaves, [NO_OUTPUTS])

    def _wait(self) -> None:
        ends = [by for by in (self.life.deadline, *self._windows()) if by is not None and by >= self.block]
        if ends and self.choose.random() < 0.6:
            self.led.anvil.mine_past(self.choose.choice(ends) - self.choose.choice([0, 1, 1]))
        else:
            self.led.anvil.mine(self.choose.randint(1, 12))

    def _windows(self) -> list[int]:
        if self.life.committed_at is None:
            return []
        return [self.life.seed_block, self.life.check_by, self.life.reveal_by, self.life.answers_by]

    def _due(self) -> None:
        """Whatever anybody may send is taken when it is due, and refused before."""
        messages = [message for message in due.messages(self.life) if message.verb is not Verb.PAY]
        if not messages:
            return
        message = self.choose.choice(messages)
        if not message.is_taken(self.block + 1):
            with pytest.raises(ChainError):
                self._send(message)
        else:
            self._send(message)

    def _send(self, message: Due) -> None:
        order, number = self.led.order, message.number
        match message.verb:
            case Verb.EXPIRE:
                self.chain.market.expire(order)
            case Verb.SEED:
                self.chain.market.seed(number)
            case Verb.CLOSE:
                self.chain.market.close(order)
            case Verb.TIMEOUT:
                self.chain.games.timeout(number, due.position_of(self.life, number))
            case Verb.SETTLE:
                self.chain.market.settle(order, number)
            case Verb.REFUND:
                self.chain.market.refund(order, number)
            case Verb.SLASH:
                self.chain.market.slash(order)

    def look(self) -> None:
        """Folds anew what happened; the fold of what is new on top of what was known is the same."""
        happened = [e for e in self.chain.history.events(self.first) if self._concerns(e)]
        for event in happened:
            self.life = self.life.step(event)
        assert self.life == fold(happened, self.led.parameters) or not happened

    def _concerns(self, event: object) -> TypeGuard[TaskEvent | Seeded]:
        return isinstance(event, Seeded) or (isinstance(event, TaskEvent) and event.task == self.led.task)

    def compare(self) -> None:
        """Every window and count with the contract's own."""
        chain, life, task = self.chain, self.life, self.chain.market.task_at(self.led.task)
        assert (life.state, chain.market.deadline_of(life.uuid)) == (task.state, self._deadline())
        assert (life.executor is None) == (task.executor == "0x" + "0" * 40)
        assert (life.accepted_at or 0, life.committed_at or 0) == (task.accepted_at, task.committed_at)
        assert chain.market.seed_block_of(life.uuid) == (life.seed_block if life.committed_at else 0)
        assert chain.market.answers_by(life.uuid) == (life.answers_by if life.committed_at else 0)
        assert chain.market.outputs_root_of(life.uuid) == (life.outputs_root or bytes(32))
        assert chain.market.open_games(life.uuid) == len(life.open_games)
        assert chain.games.open(life.uuid) == tuple(n for n, g in life.games.items() if g.executor_lost is None)
        assert (task.answered, task.agreed.bit_count()) == (sum(1 << i for i in life.answers), life.agreed)
        assert task.differed == sum(1 << index for index in life.differing)
        if life.committed_at:
            assert (chain.market.is_drawn(life.order), chain.market.seed_of(life.seed_block)) == (life.drawn, life.mix)
        if life.accepted_at and not life.state.is_terminal:
            assert chain.stake.lock_of(life.uuid, self.led.operator.address).end == life.end
        for index, answer in life.answers.items():
            record = chain.market.answer_of(life.uuid, index)
            assert record.operator == answer.operator and record.stage is self._stage(index)
        if life.conviction is not None:
            conviction = chain.market.conviction_of(life.uuid)
            assert (conviction.cause, conviction.slashed) == (life.conviction.cause, life.conviction.slash is not None)

    def _deadline(self) -> int:
        return 0 if self.life.state is State.OPEN else self.life.deadline or 0

    def _stage(self, index: int) -> Stage:
        life, answer = self.life, self.life.answers[index]
        if answer.exposed:
            return Stage.EXPOSED
        if answer.settled is not None:
            return Stage.PAID
        if answer.root is None:
            return Stage.HIDDEN
        if life.has_lost(answer):
            return Stage.LOST
        return Stage.AGREED if answer.root == life.outputs_root else Stage.DIFFERED


@pytest.mark.parametrize("seed", WALKS)
def test_every_window_is_the_contracts_at_every_step_of_a_random_life(
    seed: int, anvil: Anvil, client: Chain, operator: Chain, verifiers: list[Chain], order_of: Orders
) -> None:
    choose = random.Random(seed)
    order = order_of(check_rate=choose.choice([WAD, WAD // 2]), verifiers=choose.choice([1, 2]))
    client.market.deposit(client.address, 100 * client.deployment.parameters.g_chunk)
    walker = Walker(Led(anvil, client, operator, order), verifiers, choose)
    looks: list[tuple[int, Life]] = []
    for _ in range(STEPS):
        walker.move()
        walker.look()
        walker.compare()
        looks.append((walker.block, walker.life))
        if walker.life.state.is_terminal and due.awake(walker.life) is None:
            break
    for block, life in looks:
        assert walker.life.rolled_back(block) == life
