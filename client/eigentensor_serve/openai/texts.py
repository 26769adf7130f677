"""Texts being written by an app: step by step, each from the states that the one before it left."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
import structlog
from starlette.concurrency import run_in_threadpool

from eigentensor.errors import ChannelError, NotYet, WrongReceipt, WrongResult
from eigentensor.program import Program, Role
from eigentensor.reexecution.inputs import load_role
from eigentensor.runtime import CompiledGraph
from eigentensor_client.writing import Step
from eigentensor_serve import asking
from eigentensor_serve.apps.deployed import Deployed
from eigentensor_serve.apps.models import OUTPUT
from eigentensor_serve.apps.registry import App
from eigentensor_serve.backend import Ask
from eigentensor_serve.ledger import Job

WRITERS = 4  #: texts that this machine writes at a time
REPLAYS = 2  #: times that a text is read again from its beginning at another operator
Values = np.ndarray[Any, Any]
#: What ends a call at an operator: another one may have the text.
_FAILURES = (ChannelError, WrongReceipt, WrongResult)
_log = structlog.get_logger(__name__)


class Writer(Protocol):
    """Executes one text's steps, in order; `jobs` are the tasks that they were."""

    jobs: list[Job]

    async def most(self) -> int:
        """The most repeats of one execution: a step of more is several."""

    async def write(self, step: Step) -> Values:
        """All tokens so far."""


@dataclass(slots=True)
class Paid:
    """Each step is a task, or some calls, which name the states that the one before left by their root.

    Calls go to the operator that keeps the states. Where it fails another one reads the text so far from its beginning:
    that gives the same states, and the text goes on as if nothing had happened.
    """

    deployed: Deployed
    app: App
    program: Program
    caller: str
    key: str | None
    states: str | None = None
    tokens: Values | None = None
    count: int = 0
    jobs: list[Job] = field(default_factory=list)

    async def write(self, step: Step) -> Values:
        """The outputs of a step."""
        done, attempts, most = 0, 0, await self.most()
        while done < step.repeat:
            part = step.part(done, most)
            try:
                asked, job = await self._posted(part, f"{self.count}")
            except _FAILURES as error:
                if self.states is None or self.tokens is None or attempts == REPLAYS:
                    raise
                attempts += 1
                _log.warning("a text goes on at another operator", app=self.app.name, error=error.what)
                await self._read(part.before(self.tokens), f"{self.count}-{attempts}")
                most = await self.most()
                continue
            self.tokens = await self._outcome(asked, job)
            done, self.count = done + part.repeat, self.count + 1
        assert self.tokens is not None
        return self.tokens

    async def _read(self, step: Step, name: str) -> None:
        """Has an operator read a text, from its beginning."""
        self.states, most = None, await self.most()
        for number, done in enumerate(range(0, step.repeat, most)):
            await self._outcome(*await self._posted(step.part(done, most), f"{name}.{number}"))

    async def most(self) -> int:
        """As the backend says, of who keeps the states."""
        backend = self.deployed.service.backend
        return await run_in_threadpool(backend.most_repeat, self.program, self.app.program, self.states)

    async def _posted(self, step: Step, name: str) -> tuple[Ask, Job]:
        arguments = dict(step.inputs), dict(step.variables), step.repeat, self.states
        ask = partial(self.deployed.ask, self.app, self.program, *arguments)
        key = self.key and f"{self.key}.{name}"
        return await asking.posted(self.deployed.service, ask, self.caller, key)

    async def _outcome(self, asked: Ask, job: Job) -> Values:
        """The outputs of what is a task, or a call."""
        service = self.deployed.service
        self.jobs.append(job)
        if not await asking.finished(service, job, asked.stage, service.settings.patience):
            raise NotYet(
                f"task {job.task} is not {asked.stage} after {service.settings.patience:.0f} s",
                fix=f"It goes on by itself: GET /v1/tasks/{job.task} says how it stands.",
            )
        outcome = await asking.outcome(service, job)
        self.states = outcome.states_root.hex()
        return outcome.outputs[OUTPUT]


@dataclass(slots=True)
class Here:
    """This machine executes the steps; the states stay where they are."""

    compiled: CompiledGraph
    first: dict[str, Values] | None
    jobs: list[Job] = field(default_factory=list)

    async def most(self) -> int:
        """Of the program."""
        return self.compiled.program.max_repeat

    async def write(self, step: Step) -> Values:
        """The outputs of a step that this machine executes."""
        arguments, self.first = {**(self.first or {}), **step.inputs}, None
        results = await run_in_threadpool(self.compiled.run, arguments, step.variables, step.repeat)
        return results.outputs[OUTPUT]


class Writers:
    """Lends what executes the steps of a text; here a few compiled programs, each to one text at a time."""

    def __init__(self, deployed: Deployed) -> None:
        self._deployed = deployed
        self._idle: list[tuple[App, CompiledGraph]] = []
        self._turns = asyncio.Semaphore(WRITERS)

    @asynccontextmanager
    async def writer(self, app: App, program: Program, caller: str, key: str | None) -> AsyncIterator[Writer]:
        """What executes the steps of a text."""
        if not self._deployed.service.backend.is_local:
            yield Paid(self._deployed, app, program, caller, key)
            return
        async with self._turns:
            compiled = self._taken(app)
            if compiled is None:
                compiled = await run_in_threadpool(self._compiled, app, program)
            try:
                yield Here(compiled, await run_in_threadpool(self._named, app.states, program, Role.STATE))
            finally:
                self._idle = [(app, compiled), *self._idle][:WRITERS]

    def _taken(self, app: App) -> CompiledGraph | None:
        for place, (of, compiled) in enumerate(self._idle):
            if (of.program, of.weights) == (app.program, app.weights):
                del self._idle[place]
                return compiled
        return None

    def _compiled(self, app: App, program: Program) -> CompiledGraph:
        weights = self._named(app.weights, program, Role.WEIGHT)
        return CompiledGraph(program, weights, device=self._deployed.service.settings.device, keep_states=True)

    def _named(self, name: str | None, program: Program, role: Role) -> dict[str, Values]:
        return {} if name is None else load_role(self._deployed.service.store.path(name), program, role)
