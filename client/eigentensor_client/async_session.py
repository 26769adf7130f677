"""Sessions for asyncio: the same steps as `Session` takes, in threads, with pauses that let others run."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from eigentensor.program import Program
from eigentensor_client.aio import finish, in_thread
from eigentensor_client.history import History
from eigentensor_client.orders import Terms
from eigentensor_client.results import Plan, TaskResult, Tensors
from eigentensor_client.session import Session
from eigentensor_client.transfer import Tell, silent


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
        return self.session.program

    @property
    def history(self) -> History:
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
        tell: Tell = silent,
    ) -> TaskResult:
        """As `Session.run`."""
        async with self._turn:
            with self.session.going_on():
                steps = self.session.running(inputs, variables or {}, repeat, stage, terms, timeout, tell)
                return await finish(steps)

    async def wait(self, stage: str = "final", *, timeout: float | None = None, tell: Tell = silent) -> None:
        """As `Session.wait`."""
        async with self._turn:
            with self.session.going_on():
                await finish(self.session.awaiting(stage, timeout, tell))

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

    async def result(self, step: int = -1, tell: Tell = silent) -> TaskResult:
        """As `Session.result`."""
        return await in_thread(self.session.result, step, tell)

    async def states(self, tell: Tell = silent) -> Tensors:
        """As `Session.states`."""
        return await in_thread(self.session.states, tell)
