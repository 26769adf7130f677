"""Texts being written by an app: step by step, each from the states that the one before it left."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
import structlog
from starlette.concurrency import run_in_threadpool

from eigentensor.errors import ChannelError, NotYet, WrongReceipt, WrongResult
from eigentensor.program import Program, Role
from eigentensor.reexecution.inputs import load_role
from eigentensor_client.steps import in_thread
from eigentensor_client.writing import Step
from eigentensor_serve import asking
from eigentensor_serve.apps.deployed import Deployed
from eigentensor_serve.apps.models import OUTPUT
from eigentensor_serve.backend import Ask
from eigentensor_serve.ledger import Job
from eigentensor_serve.openai.decoding import Decoding, Values
from eigentensor_serve.openai.here import Here
from eigentensor_serve.openai.prefixes import Prefixes
from eigentensor_serve.openai.programs import Programs

APPS = 4  #: whose programs stay compiled on this machine
REPLAYS = 2  #: times that a text is executed again from its beginning at another operator
_ROOTS = 4096  # of states that operators keep
#: What ends a call at an operator: another one may have the text.
_FAILURES = (ChannelError, WrongReceipt, WrongResult)
_log = structlog.get_logger(__name__)


class Writer(Protocol):
    """Executes one text's steps, in order; `jobs` are the tasks that they were."""

    jobs: list[Job]

    async def begin(self, prompt: Sequence[int]) -> int:
        """The position from which the text that begins with these tokens is to be read: what stands before it was read
        for another one."""

    async def most(self, stride: int = 1) -> int:
        """The most repeats of one execution, of the program that reads so much at once: a step of more is several."""

    async def write(self, step: Step) -> Values:
        """All tokens so far."""


@dataclass(slots=True)
class Paid:
    """Each step is a task, or some calls, which name the states that the one before left by their root.

    Calls go to the operator that keeps the states. Where it fails another one executes the same steps from the
    beginning: that gives the same states, and the text goes on as if nothing had happened. A call reads one chunk: the
    states that it leaves are those of all texts that begin so.
    """

    deployed: Deployed
    programs: Programs
    caller: str
    key: str | None
    prefixes: Prefixes[str]
    prompt: Sequence[int] = ()
    states: str | None = None
    tokens: Values | None = None
    done: list[Step] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)

    async def begin(self, prompt: Sequence[int]) -> int:
        """As `Writer.begin`: at an operator that keeps what it leaves."""
        self.prompt = prompt
        found = self.prefixes.longest(self._of, prompt, self.programs.chunk) if self.programs.reader else None
        if found is None:
            return 0
        position, self.states = found
        return position

    async def write(self, step: Step) -> Values:
        """The outputs of a step."""
        done, attempts, most = 0, 0, await self.most(step.stride)
        while done < step.repeat:
            part = step.part(done, most)
            try:
                asked, job = await self._posted(part, f"{part.variables['position']}")
            except _FAILURES as error:
                if self.states is None or attempts == REPLAYS:
                    raise
                attempts += 1
                _log.warning("a text goes on at another operator", app=self.programs.app.name, error=error.what)
                await self._again(part, attempts)
                most = await self.most(step.stride)
                continue
            self.tokens = await self._outcome(asked, job)
            self.done.append(part)
            self._keep(part)
            done += part.repeat
        assert self.tokens is not None
        return self.tokens

    async def most(self, stride: int = 1) -> int:
        """As the backend says, of who keeps the states."""
        backend, (program, uuid) = self.deployed.service.backend, self.programs.by(stride)
        if stride > 1 and backend.is_prompt:
            return 1
        return await run_in_threadpool(backend.most_repeat, program, uuid, self.states)

    async def _again(self, before: Step, attempt: int) -> None:
        """Has an operator execute what was executed before a step, from the beginning of the text."""
        begun = self.done[0].variables["position"] if self.done else before.variables["position"]
        steps = [self._read(before, begun), *self.done] if begun else self.done
        self.states, name = None, f"{before.variables['position']}-{attempt}"
        for step in steps:
            most = await self.most(step.stride)
            for done in range(0, step.repeat, most):
                part = step.part(done, most)
                await self._outcome(*await self._posted(part, f"{name}.{part.variables['position']}"))
                self._keep(part)

    def _read(self, step: Step, end: int) -> Step:
        """What was read up to a position for another text."""
        self.prefixes.forget(self._of, self.prompt[:end])
        row = np.full_like(step.inputs["prompt"], -1)
        row[1 : len(self.prompt) + 1] = self.prompt
        chunk = self.programs.chunk
        return Step({**step.inputs, "prompt": row}, {"position": 0}, end // chunk, len(self.prompt) + 1, end, chunk)

    def _keep(self, part: Step) -> None:
        """Remembers the states after whole chunks of a prompt."""
        is_whole = part.stride > 1 and part.last % part.stride == 0 and part.last <= len(self.prompt)
        if is_whole and self.states and self.deployed.service.backend.is_prompt:
            self.prefixes.add(self._of, self.prompt[: part.last], self.states)

    @property
    def _of(self) -> Hashable:
        app = self.programs.app
        return self.caller, app.program, app.reader, app.weights, app.states

    async def _posted(self, step: Step, name: str) -> tuple[Ask, Job]:
        program, uuid = self.programs.by(step.stride)
        arguments = dict(step.inputs), dict(step.variables), step.repeat, self.states, uuid
        ask = partial(self.deployed.ask, self.programs.app, program, *arguments)
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


class Writers:
    """Lends what executes the steps of a text; here the programs of the apps that were asked last stay compiled."""

    def __init__(self, deployed: Deployed) -> None:
        self._deployed = deployed
        self._decodings = OrderedDict[Hashable, Decoding]()
        self._making, self._turn = asyncio.Lock(), asyncio.Lock()
        self._left = Prefixes[str](_ROOTS)
        self._here = Prefixes[Mapping[str, Values]](deployed.service.settings.max_prefixes)

    @asynccontextmanager
    async def writer(self, programs: Programs, caller: str, key: str | None) -> AsyncIterator[Writer]:
        """What executes the steps of a text."""
        if not self._deployed.service.backend.is_local:
            yield Paid(self._deployed, programs, caller, key, self._left)
            return
        decoding = await self._decoding(programs)
        async with decoding.room() as room:
            here = Here(decoding, room, caller, self._here)
            try:
                yield here
            finally:
                await here.end()

    async def _decoding(self, programs: Programs) -> Decoding:
        """The programs of an app, compiled; the ones used last stay."""
        app = programs.app
        name = app.program, app.reader, app.weights, app.states
        async with self._making:
            if name not in self._decodings:
                self._decodings[name] = await in_thread(self._compiled, programs)
            self._decodings.move_to_end(name)
            while len(self._decodings) > APPS:
                self._decodings.popitem(last=False)
            return self._decodings[name]

    def _compiled(self, programs: Programs) -> Decoding:
        weights = self._named(programs.app.weights, programs.writer, Role.WEIGHT)
        first = self._named(programs.app.states, programs.writer, Role.STATE)
        return Decoding(programs, weights, first, self._turn, self._deployed.service.settings.device)

    def _named(self, name: str | None, program: Program, role: Role) -> dict[str, Values]:
        return {} if name is None else load_role(self._deployed.service.store.path(name), program, role)
