"""A challenged result, and its players as programs that are started, killed and started again."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

from eigentensor import reference
from eigentensor.chain import Chain, GameView, Mined
from eigentensor.dispute import Side
from eigentensor.player import Player
from eigentensor.reexecution.inputs import BoundProgram
from eigentensor.runtime import execute
from eigentensor.task import Challenged, Order, order_uuid
from eigentensor.tracing import Execution, Retrace, retrace
from support.generated.programs import Example
from support.stories.game_table import Case, Table, brought
from support.stories.games import account_of, honest
from support.stories.liars import disturbed

NUMBER, BIT = 0, 8 * 4 * 7 + 30  # of the long sum's partial results


def flip(result: reference.Values) -> None:
    result.view("u1")[BIT // 8] ^= np.uint8(1 << BIT % 8)


fast: Retrace = partial(retrace, execute=execute)
lying: Retrace = partial(retrace, execute=disturbed(reference.execute, NUMBER, flip))


#: When a program dies that sends a move.
MOMENTS = ("before it leaves", "while it waits", "when it is in the chain")


class Killed(BaseException):
    """The process ends here: nothing that comes after it is done, nothing is cleaned up."""


@cache
def known(name: str) -> tuple[Example, Execution]:
    """A captured graph and its true account."""
    example = brought(name)
    return example, account_of(example)


class Dispute:
    """A challenged result of a captured graph, which the executor retraces so."""

    def __init__(self, table: Table, name: str, mine: Retrace) -> None:
        self.table, self.mine = table, mine
        self.example, true = known(name)
        example = self.example
        outputs = mine(example.program, example.tensors, example.variables, example.repeat).outputs
        case = Case(true, outputs, honest(Side.EXECUTOR), honest(Side.CHALLENGER))
        (self.order,) = table.revealed([case])
        self.task = order_uuid(self.order, table.client.deployment.domain)
        self.number = self.challenge()

    def challenge(self) -> int:
        """Opens the game, unless it is open."""
        challenger = self.table.challenger
        events = challenger.market.challenge(challenger.address, self.order).events
        (number,) = [event.game_id for event in events if isinstance(event, Challenged)]
        return number

    def player(self, side: Side, chain: Chain | None = None) -> Player:
        """One that has just started."""
        chain = chain or self.chain(side)
        return Player(chain, chain.address, self.load, (self.mine, fast)[side])

    def chain(self, side: Side) -> Chain:
        return (self.table.operator, self.table.challenger)[side]

    def load(self, task: bytes, order: Order) -> BoundProgram:
        assert (task, order) == (self.task, self.order)
        example = self.example
        return BoundProgram(example.program, (), example.tensors, example.variables, example.repeat)

    @property
    def game(self) -> GameView:
        return self.table.client.games.at(self.number)

    def turns(self) -> list[Mined | None]:
        """One of each side."""
        return [self.player(side).turn(self.number) for side in Side]

    def die(self, side: Side, journal: Path, moment: str) -> None:
        """A program of this side takes its turn, and is killed in a moment of sending its move.

        What waits then is mined when anvil mines again by itself.
        """
        with restarted(self.chain(side), journal) as chain:
            offer = chain.node.send

            def send(raw: bytes) -> None:
                if moment != MOMENTS[0]:
                    offer(raw)
                raise Killed

            chain.node.send = send  # type: ignore[method-assign]
            self.table.anvil.rpc("evm_setAutomine", moment != MOMENTS[1])
            with pytest.raises(Killed):
                self.player(side, chain).turn(self.number)


@contextmanager
def restarted(chain: Chain, journal: Path) -> Iterator[Chain]:
    """The same account in a new program, which has the journal and nothing else."""
    with Chain(chain.network, chain.account, journal, patience=60, deadline=20) as again:
        again.sender.resume()
        yield again
