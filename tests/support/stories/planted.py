"""A wrong bit in one result of an execution, from the challenge to the conviction."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import numpy as np

from eigentensor.dispute import Side
from eigentensor.player import Player
from eigentensor.program.model import Program
from eigentensor.reexecution.inputs import BoundProgram
from eigentensor.reference import Values
from eigentensor.runtime import execute
from eigentensor.task import Challenged, Order
from eigentensor.tracing import Execute, Execution, retrace
from support.stories.game_table import Case, Table
from support.stories.games import honest
from support.stories.liars import disturbed


@dataclass(frozen=True)
class Plant:
    """A bit of an element of the result of an executed call, flipped before anybody reads it."""

    number: int
    element: int
    bit: int

    def flip(self, result: Values) -> None:
        """Flips it, where the result lies."""
        size, flat = result.itemsize, result.reshape(-1).view("u1")
        flat[self.element * size + self.bit // 8] ^= np.uint8(1 << self.bit % 8)


@dataclass
class Played:
    """How the game went: seconds in all, seconds by what they were spent on, transactions, and who lost."""

    seconds: float = 0.0
    spent: dict[str, float] = field(default_factory=dict)
    transactions: int = 0
    convicted: bool = False

    def timed(self, name: str, run: Callable[..., Execution]) -> Callable[..., Execution]:
        """The function, its seconds counted."""

        def timed(*arguments: object, **named: object) -> Execution:
            start = time.perf_counter()
            try:
                return run(*arguments, **named)
            finally:
                self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - start

        return timed


@dataclass(frozen=True)
class Subject:
    """What is executed, and its true account."""

    program: Program
    tensors: Mapping[str, Any]
    variables: Mapping[str, int]
    repeat: int
    true: Execution

    @classmethod
    def of(
        cls, program: Program, tensors: Mapping[str, Any], variables: Mapping[str, int] | None = None, repeat: int = 1
    ) -> "Subject":
        """Executes it with its trace."""
        values = variables or {}
        return cls(program, tensors, values, repeat, retrace(program, tensors, values, repeat, execute=execute))

    def plant(self, random: Random) -> Plant:
        """Any bit of any element of the result of any executed call."""
        calls = len(self.program.calls)
        number = random.randrange(calls * self.repeat)
        dtype, elements = self.program.parameter(len(self.program.buffers) + number % calls)
        return Plant(number, random.randrange(elements), random.randrange(8 * dtype.size))

    def account(self, way: Execute) -> Execution:
        """What an execution of this way claims."""
        return retrace(self.program, self.tensors, self.variables, self.repeat, execute=way)

    def played(self, table: Table, plant: Plant) -> Played | None:
        """Both players execute again with their traces, and play by what they read from the chain. None if the bit
        does not reach the outputs: then there is nothing to convict."""
        wrong = disturbed(execute, plant.number, plant.flip)
        lie = self.account(wrong)
        if lie.outputs == self.true.outputs:
            return None
        case = Case(self.true, lie.outputs, honest(Side.EXECUTOR), honest(Side.CHALLENGER))
        (order,) = table.revealed([case])
        course, chains = Played(), {Side.EXECUTOR: table.operator, Side.CHALLENGER: table.challenger}

        def bound(task: bytes, order: Order) -> BoundProgram:
            return BoundProgram(self.program, (), self.tensors, self.variables, self.repeat)

        def player(side: Side, way: Execute) -> Player:
            again = course.timed(f"{side.name.lower()}: execution and trace", partial(retrace, execute=way))
            return Player(chains[side], chains[side].address, bound, again)

        players = {Side.EXECUTOR: player(Side.EXECUTOR, wrong), Side.CHALLENGER: player(Side.CHALLENGER, execute)}
        start = time.perf_counter()
        events = table.challenger.market.challenge(table.challenger.address, order).events
        (game,) = [event.game_id for event in events if isinstance(event, Challenged)]
        while (view := table.client.games.at(game)).ended is None:
            assert players[view.position.phase.side].turn(game) is not None
        course.seconds = time.perf_counter() - start
        course.transactions, course.convicted = len(view.moves) + 2, view.ended.executor_lost
        return course
