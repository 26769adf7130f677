"""Games on a chain: cases, and the table at which they are played, a move a transaction."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import pytest
from eth_account import Account

from eigentensor import economics
from eigentensor.chain import Admission, Chain, Network, anvil_account
from eigentensor.chain.contracts import Contract
from eigentensor.chain.logs import decode_log
from eigentensor.chain.sender import Message
from eigentensor.dispute import Keep, Knowledge, Move, Outcome, Position, Published, Side, apply, deadline_of
from eigentensor.economics import WAD
from eigentensor.errors import IllegalMove, Reverted, WitnessError
from eigentensor.program import Role
from eigentensor.task import NONE, Ended, Moved, Opened, Order, State, commitment, order_uuid
from eigentensor.task.events import Event
from eigentensor.tracing import Claim, Execution, claim_of
from eigentensor_local.anvil import Anvil
from support.generated.programs import Example
from support.programs.captured import graphs
from support.stories.game_course import Course, Sent
from support.stories.games import Strategy
from support.stories.market import Orders, orders_of

#: Accounts that are operators which sign for themselves: an acceptance needs seats of others.
OPERATORS = (1, 6, 7)
CLIENT, CHALLENGER = 2, 4
BATCH = 7  #: tasks whose games are played, one after the other, before it is too late to challenge
SALT = b"\3" * 32
GAS = hex(8_000_000)


@dataclass(frozen=True)
class Case:
    """A program's true account, the outputs root that an executor reveals, and how both sides play."""

    true: Execution
    outputs: bytes
    executor: Strategy
    challenger: Strategy
    name: str = ""

    def order(self, order_of: Orders) -> Order:
        claim, program = claim_of(self.true), self.true.program
        roots = {"inputs": Role.INPUT, "weights": Role.WEIGHT, "states": Role.STATE}
        named = {name: getattr(claim, name) if program.named(role) else NONE for name, role in roots.items()}
        variables = claim.variables if program.variables else NONE
        return order_of(
            program=claim.program, variables=variables, repeat=claim.repeat, check_rate=WAD, exec=60, **named
        )

    def claim(self, order: Order) -> Claim:
        roots = order.program, order.inputs, order.weights, order.states, order.variables
        return Claim(*roots, repeat=order.repeat, trace=NONE, outputs=self.outputs)


@dataclass(frozen=True)
class Table:
    """Where games are played: a market, an operator, and a challenger that has deposited its bonds."""

    anvil: Anvil
    client: Chain
    operator: Chain
    challenger: Chain
    order_of: Orders

    @classmethod
    def of(cls, anvil: Anvil, client: Chain, operator: Chain, challenger: Chain) -> Self:
        """With deposits of all sides for a hundred tasks."""
        for chain in (client, operator, challenger):
            chain.token.mint(chain.address, 20 * WAD)
            chain.market.deposit(chain.address, 20 * WAD)
        return cls(anvil, client, operator, challenger, orders_of(client))

    def ends(self, cases: Sequence[Case]) -> Iterator[tuple[Course, State]]:
        """The game about each case, and how the task ends, once its time is over."""
        for start in range(0, len(cases), BATCH):
            portion = cases[start : start + BATCH]
            orders = self.revealed(portion)
            courses = [self.dispute(case, order) for case, order in zip(portion, orders, strict=True)]
            self._end_idle(courses)
            tasks = [order_uuid(order, self.client.deployment.domain) for order in orders]
            states = [self.client.market.task_at(task).state for task in tasks]
            if waiting := [n for n, state in enumerate(states) if not state.is_terminal]:
                self.anvil.mine_past(max(self.client.market.deadline_of(tasks[n]) for n in waiting))
                self.send(self.client, "TaskMarket", "closeMany", [orders[n].as_tuple() for n in waiting])
                states = [self.client.market.task_at(task).state for task in tasks]
            yield from zip(courses, states, strict=True)

    def revealed(self, cases: Sequence[Case]) -> list[Order]:
        """Tasks of which the operator claims what the cases say; drawn, but nobody answers."""
        orders = [case.order(self.order_of) for case in cases]
        domain, me, p = self.client.deployment.domain, self.operator.address, self.client.deployment.parameters
        claims = [(order_uuid(order, domain), case.outputs) for order, case in zip(orders, cases, strict=True)]
        posted = [order.as_tuple() for order in orders]
        self.send(self.client, "TaskMarket", "postMany", posted, [b""] * len(posted))
        self.send(self.operator, "TaskMarket", "acceptMany", me, posted, [astuple(Admission())] * len(orders))
        hidden = [commitment(domain, task, me, 0, outputs, SALT) for task, outputs in claims]
        self.send(self.operator, "TaskMarket", "commitMany", me, [task for task, _ in claims], hidden)
        seed = self.client.market.seed_block_of(claims[0][0])
        self.anvil.mine_past(seed)
        self.send(self.client, "TaskMarket", "seed", seed, self.client.node.header(seed))
        self.anvil.mine_past(seed + economics.check_window(p, orders[0].exec))
        openings = [(task, 0, outputs, SALT) for task, outputs in claims]
        self.send(self.operator, "TaskMarket", "revealMany", posted, openings)
        return orders

    def dispute(self, case: Case, order: Order, refused: Callable[[Move], Iterable[Move]] = lambda _: ()) -> Course:
        """Plays a game while there are moves; every position is held to `apply`. What fails is said with its course.

        Before each move those that are `refused` in its place are tried, in both.
        """
        course = Course(case.name)
        try:
            self._play(course, case, order, refused)
        except Exception as error:
            error.add_note(str(course))
            raise
        return course

    def _play(self, course: Course, case: Case, order: Order, refused: Callable[[Move], Iterable[Move]]) -> None:
        sent, events = self.send(self.challenger, "TaskMarket", "challenge", self.challenger.address, order.as_tuple())
        (opened,) = [event for event in events if isinstance(event, Opened)]
        game, position, published = opened.game_id, opened.position, Published()
        course.game = game
        course.sent.append(replace(sent, led_to=position))
        knowledge = Knowledge(case.claim(order), order.as_tuple(), case.true)
        while True:
            side = position.phase.side
            move = (case.executor, case.challenger)[side](position, published, knowledge)
            if move is None:
                assert side is Side.CHALLENGER
                return
            assert not isinstance(move, Keep)
            mover = (self.operator, self.challenger)[side]
            for other in refused(move):
                with pytest.raises((IllegalMove, WitnessError)):
                    apply(position, other, self.client.node.block_number() + 1)
                assert self.reverts(mover, other.function, game, position.pack(), *other.arguments()), other
            sent, events = self.send(mover, "DisputeGame", move.function, game, position.pack(), *move.arguments())
            after = apply(position, move, events[0].place.block)
            course.sent.append(replace(sent, side=side, led_to=after))
            if isinstance(after, Outcome):
                course.outcome = after
                (ended,) = [event for event in events if isinstance(event, Ended)]
                assert (ended.executor_lost, ended.reason) == (after.executor_lost, after.reason)
                return
            (moved,) = [event for event in events if isinstance(event, Moved)]
            assert moved.position == after
            position = after
            if moved.data:
                published = published.after(position, moved.data)

    def _end_idle(self, courses: Iterable[Course]) -> None:
        """By their clocks: blocks pass, and nobody can challenge any more."""
        idle = {c.game: c.sent[-1].led_to for c in courses if c.outcome is None}
        for game, position in idle.items():
            assert isinstance(position, Position)
            self.anvil.mine_past(deadline_of(position))
            self.send(self.challenger, "DisputeGame", "timeout", game, position.pack())

    def reverts(self, sender: Chain, function: str, *arguments: object) -> bool:
        """Whether the contract would refuse a move, and say why."""
        try:
            sender.sender.simulate(Message.of(sender.node.disputes, function, *arguments))
        except Reverted:
            return True
        return False

    def send(self, sender: Chain, contract: str, function: str, *arguments: object) -> tuple[Sent, list[Event]]:
        """A transaction of an account that anvil signs for: a hundred games are a thousand of them."""
        to = {"TaskMarket": sender.node.market, "DisputeGame": sender.node.disputes}[contract]
        data = encoded(to, function, arguments)
        sent = {"from": sender.address, "to": to.address, "data": data, "gas": GAS}
        mined = self.anvil.rpc("eth_sendTransactionSync", sent)
        receipt = self.anvil.rpc("eth_getTransactionReceipt", mined["transactionHash"])
        assert receipt["status"] == 1, function
        events = [event for log in receipt["logs"] if (event := decode_log(log)) is not None]
        return Sent(Side.CHALLENGER, function, receipt["gasUsed"], len(data) // 2 - 1), events


@contextmanager
def laid(anvil: Anvil, network: Network) -> Iterator[Table]:
    """A table for a hundred games on a chain whose operators are OPERATORS; the chain is put back afterwards."""
    # Without equal blocks: when anvil drops the state of an old one, it forgets that of its twin, and cannot roll back.
    anvil.rpc("anvil_setCoinbase", Account.create().address)
    snapshot = anvil.rpc("evm_snapshot")
    with TemporaryDirectory() as folder, ExitStack() as stack:

        def seat(index: int) -> Chain:
            journal = Path(folder) / f"{index}.sqlite"
            return stack.enter_context(Chain(network, anvil_account(index), journal, deadline=20))

        yield Table.of(anvil, client=seat(CLIENT), operator=seat(OPERATORS[0]), challenger=seat(CHALLENGER))
    assert anvil.rpc("evm_revert", snapshot)


def brought(name: str, repeat: int = 1) -> Example:
    """A captured graph with its tensors; its variables are not at their smallest."""
    graph = graphs()[name]
    captured = graph.captured()
    variables = {v.name: v.minimum + 1 for v in captured.program.variables}
    return Example(replace(captured.program, max_repeat=repeat), graph.bound(captured), variables, repeat)


def encoded(contract: Contract, function: str, arguments: Sequence[object]) -> str:
    """Calldata in hex."""
    return "0x" + contract.function(function).data(arguments).hex()
