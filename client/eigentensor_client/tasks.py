"""An account's tasks, as everybody may read them: the gateway names them, the chain says how they stand."""

import time
from collections.abc import Iterator
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from eigentensor.chain.network import Network
from eigentensor.chain.reader import Reader
from eigentensor.errors import BlobCorrupt, BlobNotFound, TaskNotFound
from eigentensor.pace import Pace
from eigentensor.store.queries import Queries
from eigentensor.task.order import Order, order_uuid
from eigentensor_client.amounts import amount

if TYPE_CHECKING:
    from eigentensor.chain.lives import Lives
    from eigentensor.task.life import Life
    from eigentensor_client.task_view import TaskView

PATIENCE = 10.0  # seconds that the gateway may be behind the chain
POLL_HERE, POLL = 0.2, 2.0  # seconds between two looks at a task, on a local chain and elsewhere


class Tasks:
    """The tasks of an account on one network, for whoever knows its address: no key is needed, and nothing is sent."""

    gateway: Queries
    chain: Reader

    def __init__(self, network: Network, address: str, chain: Reader, gateway: Queries) -> None:
        """Asks nothing yet; closing it closes the connection to the gateway."""
        self.network, self.address = network, address
        self.chain, self.gateway = chain, gateway
        self.poll = POLL_HERE if network.is_local else POLL

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection to the gateway."""
        self.gateway.close()

    @cached_property
    def lives(self) -> "Lives":
        """What the chain tells of tasks."""
        from eigentensor.chain.lives import Lives  # who looks at money alone does not wait for it

        return Lives(self.chain)

    @cached_property
    def pace(self) -> Pace:
        """How long blocks take, as of the first time that this is asked for."""
        return self.chain.node.pace()

    def amount(self, wei: int) -> str:
        """An amount of the market's token as people read it."""
        return amount(wei, self.network.deployment)

    def tasks(self) -> "Iterator[TaskView]":
        """The account's tasks, newest first. The gateway names them, the chain says how they stand."""
        self._wait_for_gateway()
        cursor: dict[str, Any] = {}
        while True:
            page = self.gateway.tasks(client=self.address, **cursor)
            for entry in page["tasks"]:
                yield self.view(self._order(entry))
            if not page.get("next"):
                return
            cursor = {"cursor": page["next"]}

    def task(self, name: str) -> "TaskView":
        """A task by its uuid, or one of the account's by the beginning of it. Raises TaskNotFound."""
        name = name.lower().removeprefix("0x")
        if len(name) == 64:
            self._wait_for_gateway()
            try:
                return self.view(self._order(self.gateway.task(name)))
            except BlobNotFound:
                raise TaskNotFound(f"there is no task {name}") from None
        matches = [task for task in self.tasks() if task.uuid.startswith(name)]
        if len(matches) != 1:
            what = f"{len(matches)} tasks of {self.address} begin with {name!r}"
            raise TaskNotFound(what, fix="`eigentensor ps` lists them.")
        return matches[0]

    def view(self, order: Order) -> "TaskView":
        """The task of an order as it stands now; before it is in a block its state is NONE."""
        from eigentensor_client.task_view import TaskView  # as `lives`

        return TaskView(*self.lives.of(order))

    def look(self, task: "TaskView") -> "TaskView":
        """The same task as it stands now."""
        return self.view(task.order)

    def explain(self, task: "TaskView") -> dict[str, Any]:
        """What each operator says about a task, from the gateway; of what a conviction slashed, from which block on it
        can be paid, from the chain."""
        payable = payable_from(self.chain, task.life)
        return self.gateway.explain(task.uuid) | ({} if payable is None else {"payable_from": payable})

    def _wait_for_gateway(self) -> None:
        """Gives the gateway a moment to see what the chain shows: what was posted just now is then among the tasks."""
        block, started = self.chain.node.block_number(), time.monotonic()
        while self.gateway.tasks(limit=1)["block"] < block and time.monotonic() - started < PATIENCE:
            time.sleep(self.poll)

    def _order(self, entry: dict[str, Any]) -> Order:
        order = Order.from_json(entry["order"])
        if order_uuid(order, self.network.deployment.domain).hex() != entry["task"]:
            raise BlobCorrupt(f"the gateway gave another order for task {entry['task']}")
        return order


def tasks_of(network: Network, address: str) -> Tasks:
    """Those of an address. Raises ChainError unless the network's node has its market."""
    chain = Reader(network)
    chain.node.check()
    return Tasks(network, address, chain, Queries(network.gateway_url))


def payable_from(chain: Reader, life: "Life") -> int | None:
    """The first block in which what was slashed for a task can be paid; None: nothing is slashed, or it is paid."""
    conviction = life.conviction
    if conviction is None or conviction.slash is None or conviction.paid is not None:
        return None
    return max(conviction.slashed_at, chain.stake.payable_from(conviction.slash[0]))
