"""One game on a chain, which anybody may try to play on from where it stands; and what everybody has in the end."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from eth_abi.abi import encode

from eigentensor import economics
from eigentensor.chain import Chain
from eigentensor.chain.logs import decode_log
from eigentensor.dispute import Keep, Knowledge, Move, Position, Published, Reason, Side, deadline_of, next_move
from eigentensor.task import Ended, Moved, Opened, Order, State, order_uuid
from eigentensor.task.events import Event
from eigentensor.tracing import Execution, Flat
from support.stories.game_table import GAS, Case, Table, encoded
from support.stories.games import Strategy
from support.web3 import web3_of


@dataclass
class Board:
    """`case` says what is claimed and how both sides play; `end` is who lost and why."""

    table: Table
    case: Case
    order: Order
    challenger: Chain
    game: int
    position: Position
    published: Published
    end: tuple[Side, Reason] | None = None

    @classmethod
    def of(cls, table: Table, case: Case, order: Order, challenger: Chain) -> "Board":
        """A new challenge."""
        terms = challenger.address, order.as_tuple()
        events = transact(
            table, challenger, encoded(challenger.node.market, "challenge", terms), challenger.node.market.address
        )
        (opened,) = [event for event in events or () if isinstance(event, Opened)]
        return cls(table, case, order, challenger, opened.game_id, opened.position, Published())

    @property
    def side(self) -> Side:
        return self.position.phase.side

    @property
    def mover(self) -> Chain:
        return (self.table.operator, self.challenger)[self.side]

    def next(self) -> Move | None:
        """What the side to move wants to do."""
        knowledge = Knowledge(self.case.claim(self.order), self.order.as_tuple(), self.case.true)
        strategy = (self.case.executor, self.case.challenger)[self.side]
        move = strategy(self.position, self.published, knowledge)
        assert not isinstance(move, Keep)
        return move

    def data(self, move: Move) -> str:
        """The calldata of a move here."""
        arguments = self.game, self.position.pack(), *move.arguments()
        return encoded(self.table.client.node.disputes, move.function, arguments)

    def takes(self, data: str, sender: Chain | None = None) -> bool:
        """Sends calldata to the game, by default as the side to move; whether it was taken."""
        events = transact(self.table, sender or self.mover, data, self.table.client.node.disputes.address)
        for event in events or ():
            match event:
                case Moved(game_id=self.game):
                    self.position = event.position
                    if event.data:
                        self.published = self.published.after(event.position, event.data)
                case Ended(game_id=self.game):
                    self.end = (Side.CHALLENGER, Side.EXECUTOR)[event.executor_lost], event.reason
        return events is not None

    def play(self) -> None:
        """One move, or the clock where there is none."""
        move = self.next()
        if move is None:
            self.run_out()
        else:
            assert self.takes(self.data(move)), move

    def play_out(self) -> tuple[Side, Reason]:
        """To the end: who lost, and why."""
        while self.end is None:
            self.play()
        return self.end

    def run_out(self) -> None:
        """The side to move lets its clock run out; anybody ends the game then, and nobody before."""
        arguments = self.game, self.position.pack()
        over = encoded(self.table.client.node.disputes, "timeout", arguments)
        self.table.anvil.mine_past(deadline_of(self.position) - 2)
        assert not self.takes(over, self.table.client)
        assert self.takes(over, self.table.client)

    @contextmanager
    def tried(self) -> Iterator["Board"]:
        """What is done to this board is undone again, on the chain too."""
        before = self.table.anvil.rpc("evm_snapshot")
        yield replace(self)
        assert self.table.anvil.rpc("evm_revert", before)


def transact(table: Table, sender: Chain, data: str, to: str) -> list[Event] | None:
    """A transaction in the next block, whatever becomes of it: its events; None if it was refused."""
    sent = {"from": sender.address, "to": to, "data": data, "gas": GAS}
    receipt = web3_of(table.anvil).eth.wait_for_transaction_receipt(
        table.anvil.rpc("eth_sendTransaction", sent), poll_latency=0.002
    )
    if receipt["status"] == 0:
        return None
    return [event for log in receipt["logs"] if (event := decode_log(log)) is not None]


def executor_of(account: Execution) -> Strategy:
    """An executor that tells an account, whatever is true."""
    return lambda position, published, knowledge: next_move(
        Side.EXECUTOR, position, published, replace(knowledge, account=account)
    )


def distorted(account: Execution, number: int, byte: int = 0) -> Execution:
    """An account of which one bit that a call wrote is another, and nothing that follows from it."""
    tensor, calls = np.array(account.kept[number]), list(account.calls)
    tensor.view(np.uint8)[byte] ^= np.uint8(1)
    calls[number] = Flat(account.written(number).dtype, tensor).root
    return replace(account, kept={**account.kept, number: tensor}, calls=tuple(calls))


def garbage(game: int, seed: int) -> str:
    """A call of no function."""
    return "0x" + np.random.default_rng(seed).bytes(4).hex() + encode(["uint256", "bytes"], [game, bytes(99)]).hex()


# ---- Money ----


def wealth(table: Table, *others: Chain) -> dict[str, int]:
    """What everybody has in the market, held for something or not, in wei; what is burned too."""
    accounts = [chain.address for chain in (table.client, table.operator, table.challenger, *others)]
    balances = {
        account: table.client.market.balance_of(account) for account in (*accounts, table.client.deployment.burn)
    }
    return {account: had.balance + had.collateral for account, had in balances.items()}


def expected(
    table: Table, order: Order, before: Mapping[str, int], *, lost: tuple[str, ...] = (), winner: str = ""
) -> dict[str, int]:
    """What everybody has at the end of a task without answers, as the table of who pays whom says.

    `lost` are challengers whose bonds are lost; `winner` convicted the executor, if somebody did. This is before
    the slash, which burns what verifiers could have been paid.
    """
    p, price = table.client.deployment.parameters, order.max_price
    bond, share, reward = economics.bond(p, price), economics.bond_share(p, price), economics.reward(p, price)
    held = economics.collateral(p, price, order.verifiers, order.check_fee)
    after, burn = dict(before), table.client.deployment.burn
    for challenger in lost:
        after[challenger] -= bond
        after[burn] += bond if winner else bond - share
        after[table.operator.address] += 0 if winner else share
    if winner:
        after[table.operator.address] -= held
        after[winner] += reward
        after[burn] += held - reward - checks_of(order)
    else:
        after[table.client.address] -= price
        after[table.operator.address] += price
    return after


def checks_of(order: Order) -> int:
    """The fees of all verifiers that an order asks for."""
    return order.verifiers * order.check_fee


def ended(table: Table, order: Order) -> State:
    """The task at its end, which comes by time if no game brought it."""
    task = order_uuid(order, table.client.deployment.domain)
    if not table.client.market.task_at(task).state.is_terminal:
        table.anvil.mine_past(table.client.market.deadline_of(task))
        market = table.client.node.market
        assert transact(table, table.client, encoded(market, "close", (order.as_tuple(),)), market.address) is not None
    return table.client.market.task_at(task).state
