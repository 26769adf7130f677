"""Texts being written by an app: step by step, each from the states that the one before it left."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
from starlette.concurrency import run_in_threadpool

from eigentensor.errors import NotYet
from eigentensor.program import Program, Role
from eigentensor.reexecution.inputs import load_role
from eigentensor.runtime import CompiledGraph
from eigentensor_client.writing import Step
from eigentensor_serve import asking
from eigentensor_serve.apps.deployed import Deployed
from eigentensor_serve.apps.models import OUTPUT
from eigentensor_serve.apps.registry import App
from eigentensor_serve.ledger import Job

WRITERS = 4  #: texts that this machine writes at a time
Values = np.ndarray[Any, Any]


class Writer(Protocol):
    """Executes one text's steps, in order; `jobs` are the tasks that they were."""

    jobs: list[Job]

    async def write(self, step: Step) -> Values:
        """All tokens so far."""


@dataclass(slots=True)
class Paid:
    """Each step is a task, which names the states that the one before it left by their root."""

    deployed: Deployed
    app: App
    program: Program
    caller: str
    key: str | None
    states: str | None = None
    jobs: list[Job] = field(default_factory=list)

    async def write(self, step: Step) -> Values:
        """The outputs of a step that is a task."""
        service = self.deployed.service
        arguments = dict(step.inputs), dict(step.variables), step.repeat, self.states
        ask = partial(self.deployed.ask, self.app, self.program, *arguments)
        key = self.key and f"{self.key}.{len(self.jobs)}"
        asked, job = await asking.posted(service, ask, self.caller, key)
        self.jobs.append(job)
        if not await asking.finished(service, job, asked.stage, service.settings.patience):
            raise NotYet(
                f"task {job.task} is not {asked.stage} after {service.settings.patience:.0f} s",
                fix=f"It goes on by itself: GET /v1/tasks/{job.task} says how it stands.",
            )
        outcome = await run_in_threadpool(service.backend.result, job)
        self.states = outcome.states_root.hex()
        return outcome.outputs[OUTPUT]


@dataclass(slots=True)
class Here:
    """This machine executes the steps; the states stay where they are."""

    compiled: CompiledGraph
    first: dict[str, Values] | None
    jobs: list[Job] = field(default_factory=list)

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
