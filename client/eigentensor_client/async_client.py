"""Client and session for asyncio: the same steps as theirs, in threads, with pauses that let others run."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from eigentensor.chain import Network
from eigentensor.program import Program
from eigentensor.receipt import Receipt
from eigentensor.store import LocalStore
from eigentensor.task import Order, Signer
from eigentensor_client import orders, steps
from eigentensor_client.attempts import Attempts
from eigentensor_client.client import Client
from eigentensor_client.files import Tensors
from eigentensor_client.history import History
from eigentensor_client.orders import Terms, Work
from eigentensor_client.results import Plan, TaskResult
from eigentensor_client.session import Session
from eigentensor_client.steps import finish_async, in_thread
from eigentensor_client.task_view import TaskView
from eigentensor_client.transfer import Part, Report, silent


class AsyncSession:
    """As `Session`, for asyncio. Begun by `AsyncClient.session`, taken up again by `AsyncClient.resume`.

    Tasks of one loop may share it: what they ask is done one after the other. A cancellation leaves the step under way,
    in its file if it has one, and says in a note of the CancelledError how to take it up.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Lets another process have the file."""
        await in_thread(self.session.close)

    @property
    def program(self) -> Program:
        """As `Session.program`."""
        return self.session.program

    @property
    def history(self) -> History:
        """As `Session.history`."""
        return self.session.history

    @property
    def step(self) -> int:
        """The number of the next step: so many have a result."""
        return self.session.step

    async def save(self, path: Path) -> None:
        """As `Session.save`."""
        async with self._turn:
            await in_thread(self.session.save, path)

    async def run(
        self,
        inputs: Tensors,
        *,
        variables: Mapping[str, int] | None = None,
        repeat: int = 1,
        stage: str = "result",
        terms: Terms | None = None,
        timeout: float | None = None,
        report: Report = silent,
    ) -> TaskResult:
        """As `Session.run`."""
        async with self._turn:
            with self.session.going_on():
                return await finish_async(
                    self.session.running(inputs, variables or {}, repeat, stage, terms, timeout, report)
                )

    async def wait(self, stage: str = "final", *, timeout: float | None = None, report: Report = silent) -> None:
        """As `Session.wait`."""
        async with self._turn:
            with self.session.going_on():
                await finish_async(self.session.awaiting(stage, timeout, report))

    async def look(self) -> None:
        """As `Session.look`."""
        async with self._turn:
            await in_thread(self.session.look)

    async def rewind(self, step: int) -> None:
        """As `Session.rewind`."""
        async with self._turn:
            await in_thread(self.session.rewind, step)

    async def plan(self, repeat: int = 1) -> Plan:
        """As `Session.plan`."""
        return await in_thread(self.session.plan, repeat)

    async def result(self, step: int = -1, report: Report = silent) -> TaskResult:
        """As `Session.result`."""
        return await in_thread(self.session.result, step, report)

    async def states(self, report: Report = silent) -> Tensors:
        """As `Session.states`."""
        return await in_thread(self.session.states, report)


_END: Any = object()


class AsyncClient:
    """As `Client`, for asyncio; from any number of tasks at once.

    What is being sent or fetched is finished before a cancellation goes on; a wait ends at once. Either leaves tasks
    running, and says in a note of the CancelledError how to take them up.
    """

    def __init__(
        self, network: Network | str | None = None, account: Signer | None = None, store: LocalStore | None = None
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
        """As `Client.close`."""
        await in_thread(self.client.close)

    @property
    def address(self) -> str:
        """As `Client.address`."""
        return self.client.address

    async def plan(self, work: Work, terms: Terms) -> Plan:
        """As `Client.plan`."""
        return await in_thread(self.client.plan, work, terms)

    async def check(self, work: Work, terms: Terms) -> None:
        """As `Client.check`."""
        await in_thread(self.client.check, work, terms)

    async def post(self, works: Sequence[Work], terms: Terms, report: Report = silent) -> list[TaskView]:
        """As `Client.post`."""
        tasks = await in_thread(self.client.post, works, terms, report)
        with steps.going_on(tasks):
            await asyncio.sleep(0)  # a cancellation meanwhile comes here, where the tasks are known
        return tasks

    async def send(self, drafts: Sequence[Order], report: Report = silent) -> list[TaskView]:
        """As `Client.send`."""
        return await in_thread(self.client.send, drafts, report)

    async def wait(
        self, task: TaskView, stage: str = "final", *, timeout: float | None = None, report: Report = silent
    ) -> TaskView:
        """As `Client.wait`."""
        with steps.going_on([task]):
            return await finish_async(self.client.waiting(task, stage, timeout, report))

    async def fetch(self, task: TaskView, report: Report = silent, *, states: bool = True) -> TaskResult:
        """As `Client.fetch`."""
        return await in_thread(self.client.fetch, task, report, states=states)

    async def deliver(self, task: TaskView, report: Report = silent, *, states: bool = True) -> TaskResult:
        """As `Client.deliver`."""
        with steps.going_on([task]):
            return await finish_async(self.client.delivering(task, report, states))

    async def complete(
        self,
        task: TaskView,
        stage: str = "final",
        *,
        timeout: float | None = None,
        retries: int = 0,
        report: Report = silent,
    ) -> TaskResult:
        """As `Client.complete`."""
        attempts = Attempts([task], self.client.again, retries, report)
        with steps.going_on(attempts.current):
            return await finish_async(self.client.completing(attempts, stage, timeout, report))

    async def run(
        self,
        work: Work,
        terms: Terms,
        stage: str = "final",
        *,
        timeout: float | None = None,
        retries: int = 0,
        report: Report = silent,
    ) -> TaskResult:
        """As `Client.run`."""
        (task,) = await self.post([work], orders.terms_for(stage, terms), report)
        return await self.complete(task, stage, timeout=timeout, retries=retries, report=report)

    async def session(
        self,
        program: Program,
        weights: Part,
        states: Part,
        terms: Terms,
        path: Path | None = None,
        report: Report = silent,
    ) -> AsyncSession:
        """As `Client.session`."""
        return AsyncSession(await in_thread(self.client.session, program, weights, states, terms, path, report))

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
