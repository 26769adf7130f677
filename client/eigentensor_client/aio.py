"""The client for asyncio: the same steps as `Client` takes, in threads, with pauses that let others run."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from eth_account.signers.local import LocalAccount

from eigentensor.chain import Network, Order
from eigentensor.program import Program
from eigentensor.receipt import Receipt
from eigentensor.store import LocalStore
from eigentensor_client import orders, waiting
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms, Work
from eigentensor_client.results import Plan, TaskResult, TaskView
from eigentensor_client.transfer import Tell, silent
from eigentensor_client.waiting import Steps

P = ParamSpec("P")
T = TypeVar("T")
_END: Any = object()


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a function that blocks returns. It is never left in the middle: a cancellation waits for its end, and what
    it returned is there before the cancellation goes on."""
    running = asyncio.get_running_loop().run_in_executor(None, partial(function, *args, **kwargs))
    cancelled = False
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError:
            cancelled = True
    task = asyncio.current_task()
    if cancelled and task is not None:
        task.uncancel()
        task.cancel()  # takes effect where the caller waits next
    return running.result()


async def finish(steps: Steps[T]) -> T:
    """Takes all steps; others run while it pauses."""
    result: list[T] = []

    def step() -> float:
        try:
            return next(steps)
        except StopIteration as ended:
            result.append(ended.value)
            return 0.0

    while True:
        pause = await in_thread(step)
        if result:
            return result[0]
        await asyncio.sleep(pause)


class AsyncClient:
    """As `Client`, for asyncio; from any number of tasks at once.

    What is being sent or fetched is finished before a cancellation goes on; a wait ends at once. Either leaves tasks
    running, and says in a note of the CancelledError how to take them up.
    """

    def __init__(
        self, network: Network | str | None = None, account: LocalAccount | None = None, store: LocalStore | None = None
    ) -> None:
        """As `Client`."""
        self.client = Client(network, account, store)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await in_thread(self.client.close)

    @property
    def address(self) -> str:
        return self.client.address

    async def plan(self, work: Work, terms: Terms) -> Plan:
        """As `Client.plan`."""
        return await in_thread(self.client.plan, work, terms)

    async def check(self, work: Work, terms: Terms) -> None:
        """As `Client.check`."""
        await in_thread(self.client.check, work, terms)

    async def post(self, works: Sequence[Work], terms: Terms, tell: Tell = silent) -> list[TaskView]:
        """As `Client.post`."""
        tasks = await in_thread(self.client.post, works, terms, tell)
        with waiting.going_on(tasks):
            await asyncio.sleep(0)  # a cancellation meanwhile comes here, where the tasks are known
        return tasks

    async def send(self, drafts: Sequence[Order], tell: Tell = silent) -> list[TaskView]:
        """As `Client.send`."""
        return await in_thread(self.client.send, drafts, tell)

    async def wait(
        self, task: TaskView, stage: str = "final", *, timeout: float | None = None, tell: Tell = silent
    ) -> TaskView:
        """As `Client.wait`."""
        with waiting.going_on([task]):
            return await finish(waiting.wait(self.client, task, stage, timeout, tell))

    async def fetch(self, task: TaskView, tell: Tell = silent, *, states: bool = True) -> TaskResult:
        """As `Client.fetch`."""
        return await in_thread(self.client.fetch, task, tell, states=states)

    async def deliver(self, task: TaskView, tell: Tell = silent, *, states: bool = True) -> TaskResult:
        """As `Client.deliver`."""
        with waiting.going_on([task]):
            return await finish(waiting.deliver(self.client, task, tell, states))

    async def complete(
        self, task: TaskView, stage: str = "final", *, timeout: float | None = None, tell: Tell = silent
    ) -> TaskResult:
        """As `Client.complete`."""
        with waiting.going_on([task]):
            return await finish(waiting.complete(self.client, task, stage, timeout, tell))

    async def run(
        self, work: Work, terms: Terms, stage: str = "final", *, timeout: float | None = None, tell: Tell = silent
    ) -> TaskResult:
        """As `Client.run`."""
        (task,) = await self.post([work], orders.terms_for(stage, terms), tell)
        return await self.complete(task, stage, timeout=timeout, tell=tell)

    async def receipt(self, task: TaskView) -> Receipt:
        """As `Client.receipt`."""
        return await in_thread(self.client.receipt, task)

    async def program(self, uuid: str) -> Program:
        """As `Client.program`."""
        return await in_thread(self.client.program, uuid)

    async def tasks(self) -> AsyncIterator[TaskView]:
        """As `Client.tasks`."""
        tasks = self.client.tasks()
        while (task := await in_thread(next, tasks, _END)) is not _END:
            yield task

    async def task(self, name: str) -> TaskView:
        """As `Client.task`."""
        return await in_thread(self.client.task, name)

    async def look(self, task: TaskView) -> TaskView:
        """As `Client.look`."""
        return await in_thread(self.client.look, task)

    async def cancel(self, task: TaskView) -> TaskView:
        """As `Client.cancel`."""
        return await in_thread(self.client.cancel, task)

    async def explain(self, task: TaskView) -> dict[str, Any]:
        """As `Client.explain`."""
        return await in_thread(self.client.explain, task)
