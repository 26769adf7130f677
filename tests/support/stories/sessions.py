"""A served market whose operators do what a test says, a part for each task, while a session waits for it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from eigentensor.chain import Chain, Network, Opening, anvil_account
from eigentensor.dispute import Outcome, Side
from eigentensor.program.binding import Results, collect
from eigentensor.reexecution.inputs import BoundProgram, fetch_bound
from eigentensor.reference import execute
from eigentensor.store import GatewayClient, LocalStore
from eigentensor.task import Order, State, commitment, order_uuid
from eigentensor.tracing import Execution, retrace
from eigentensor_client.client import Client
from eigentensor_client.history import History
from eigentensor_client.steps import Steps
from eigentensor_local.anvil import pass_seed
from eigentensor_operator.data import Shelf
from support.stories.game_table import CLIENT, SALT, Case, Table
from support.stories.games import honest
from support.stories.liars import Fault, Liar

#: What an operator does with a task.
Part = Callable[["Market", Order], None]


class Market:
    """Told what a session does, it acts as the operators do. Every operator has a store of its own."""

    def __init__(
        self, table: Table, operators: Sequence[Chain], network: Network, new_gateway: Callable[[], str], folder: Path
    ) -> None:
        self.table, self.anvil, self.operators = table, table.anvil, operators
        self.network, self.folder, self.new_gateway = network, folder, new_gateway
        self.move(None)
        self.parts: list[Part] = []
        self.executors: list[str] = []
        self.liars: dict[bytes, tuple[Liar, Execution, Chain]] = {}

    def client(self, name: str = "client") -> Client:
        """The paying account in a process of its own: its cache is empty unless it had this name before."""
        return Client(self.network, anvil_account(CLIENT), LocalStore(self.folder / name))

    def move(self, client: Client | None) -> None:
        """From now on all use another gateway, which has nothing yet."""
        self.network = replace(self.network, gateway_url=self.new_gateway())
        if client is not None:
            client.gateway.close()
            client.gateway = GatewayClient(self.network.gateway_url, client.store)

    def listener(self, history: Callable[[], History]) -> Callable[..., None]:
        """What a session tells when it waits: then an operator looks whether there is a new task."""
        seen: set[Order] = set()

        def act(*_: object) -> None:
            asked = history().under_way
            if asked is not None and asked.order not in seen and self.state(asked.order) is State.OPEN:
                seen.add(asked.order)
                part = self.parts.pop(0) if self.parts else honestly()
                part(self, asked.order)

        return act

    def state(self, order: Order) -> State:
        return self.table.client.market.task_at(self.uuid(order)).state

    def uuid(self, order: Order) -> bytes:
        return order_uuid(order, self.network.deployment.domain)

    def bound(self, order: Order, operator: int) -> BoundProgram:
        """What the order names, from the gateway: an operator has nothing else."""
        with self._gateway(operator) as gateway:
            return fetch_bound(gateway, order)

    def reveal(self, order: Order, operator: int, outputs_root: bytes) -> None:
        chain, task = self.operators[operator], self.uuid(order)
        chain.market.accept(chain.address, order)
        hidden = commitment(self.network.deployment.domain, task, chain.address, 0, outputs_root, SALT)
        chain.market.commit(chain.address, task, hidden)
        pass_seed(self.anvil, chain, order, drawn=False)
        chain.market.reveal(order, Opening(task, outputs_root, SALT))
        self.executors.append(chain.address)

    def upload(
        self, order: Order, operator: int, bound: BoundProgram, results: Results, *, states: bool = True
    ) -> bytes:
        """Gives the gateway a result, with or without the new states; returns the outputs root."""
        with TemporaryDirectory() as folder, self._gateway(operator) as gateway:
            shelf = Shelf(Path(folder))
            root = shelf.keep(self.uuid(order), bound.program, results)
            if not states:
                Path(folder, self.uuid(order).hex(), "state.safetensors").unlink()
            shelf.upload(self.uuid(order), gateway)
        return root

    def convict(self, order: Order) -> Outcome:
        """A challenger plays against the liar of this task, on the deployed contracts, to the end."""
        liar, true, chain = self.liars[self.uuid(order)]
        case = Case(true, liar.account.outputs, liar.next_move, honest(Side.CHALLENGER))
        outcome = replace(self.table, operator=chain).dispute(case, order).outcome
        assert outcome is not None
        return outcome

    def close(self, order: Order) -> None:
        """The task's windows pass."""
        self.anvil.mine_past(self.table.client.market.deadline_of(self.uuid(order)))
        self.table.client.market.close(order)

    def _gateway(self, operator: int) -> GatewayClient:
        return GatewayClient(self.network.gateway_url, LocalStore(self.folder / f"operator-{operator}"))


class Killed(BaseException):
    """The process ends here."""


@contextmanager
def killing(client: Client, moment: str) -> Iterator[None]:
    """The client's process ends before its order leaves (`send`), when it is posted (`wait`), or when the result is
    there and nobody was told (`deliver`)."""
    method = {"send": "send", "wait": "waiting", "deliver": "delivering"}[moment]
    real = getattr(client, method)

    def never(*_: Any) -> None:
        raise Killed

    def steps(*arguments: Any, **options: Any) -> Steps[None]:
        if moment == "deliver":
            yield from real(*arguments, **options)
        raise Killed

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(client, method, never if moment == "send" else steps)
        yield


def honestly(operator: int = 0, *, states: bool = True) -> Part:
    """Executes, reveals, and uploads the result with or without its states."""

    def act(market: Market, order: Order) -> None:
        bound = market.bound(order, operator)
        results = execute(bound.program, bound.tensors, bound.variables, bound.repeat)
        market.reveal(order, operator, market.upload(order, operator, bound, results, states=states))

    return act


def lying(random: Random, iteration: int | None = None, operator: int = 0) -> Part:
    """With one bit flipped in a call of an iteration, or of any, such that the result is wrong."""

    def act(market: Market, order: Order) -> None:
        bound = market.bound(order, operator)
        calls = len(bound.program.calls)
        number = random.randrange(bound.repeat) if iteration is None else iteration
        numbers = range(number * calls, (number + 1) * calls)
        true = retrace(bound.program, bound.tensors, bound.variables, bound.repeat, keep=range(calls * bound.repeat))
        liar = next(liar for liar in iter(partial(_liar, true, bound, random, numbers), None) if liar.changed)
        market.liars[market.uuid(order)] = liar, true, market.operators[operator]
        kept = liar.account.kept
        tensors = [bound.tensors.get(b.name) for b in bound.program.buffers]
        last = [kept[(bound.repeat - 1) * calls + call] for call in range(calls)]
        results = collect(bound.program, [*tensors, *last])  # type: ignore[list-item]
        assert market.upload(order, operator, bound, results) == liar.account.outputs
        market.reveal(order, operator, liar.account.outputs)

    return act


def _liar(true: Execution, bound: BoundProgram, random: Random, numbers: range) -> Liar:
    number = random.choice([n for n in numbers if true.kept[n].size])
    tensor = true.kept[number]
    fault = Fault(number, random.randrange(tensor.size), random.randrange(8 * tensor.itemsize))
    return Liar(true, bound.tensors, fault)


def silently(market: Market, order: Order) -> None:
    """Accepts, and is never heard of again."""
    chain = market.operators[0]
    chain.market.accept(chain.address, order)
    market.anvil.mine_past(market.table.client.market.deadline_of(market.uuid(order)) + 4)


def not_at_all(market: Market, order: Order) -> None:
    """Nobody accepts."""
    market.anvil.mine_past(order.accept_by + 4)


def withdrawn(market: Market, order: Order) -> None:
    """Its client takes it back."""
    market.table.client.market.cancel(order)
