"""The client for asyncio: the same steps as `Client` takes, in threads, with pauses that let others run."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from eth_account.signers.local import LocalAccount

from eigentensor.chain import Network
from eigentensor.program import Program
from eigentensor.receipt import Receipt
from eigentensor.store import LocalStore
from eigentensor.task import Order
from eigentensor_client import orders, waiting
from eigentensor_client.aio import finish, in_thread
from eigentensor_client.async_session import AsyncSession
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms, Work
from eigentensor_client.results import Plan, TaskResult, TaskView
from eigentensor_client.transfer import Part, Tell, silent

_END: Any = object()


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

    async def session(
        self,
        program: Program,
        weights: Part,
        states: Part,
        terms: Terms,
        path: Path | None = None,
        tell: Tell = silent,
    ) -> AsyncSession:
        """As `Client.session`."""
        return AsyncSession(await in_thread(self.client.session, program, weights, states, terms, path, tell))

    async def resume(self, path: Path) -> AsyncSession:
        """As `Client.resume`."""
        return AsyncSession(await in_thread(self.client.resume, path))

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
