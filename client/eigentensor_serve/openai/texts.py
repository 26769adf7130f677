"""Texts being written by an app: step by step, each from the states that the one before it left."""

import asyncio
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, Self

import numpy as np
import structlog
from starlette.concurrency import run_in_threadpool

from eigentensor.errors import ChannelError, NotYet, WrongReceipt, WrongResult
from eigentensor.program import Program, Role
from eigentensor.reexecution.inputs import load_role
from eigentensor.runtime import CompiledGraph
from eigentensor_client.writing import RECENT, Step
from eigentensor_serve import asking
from eigentensor_serve.apps.deployed import Deployed
from eigentensor_serve.apps.models import OUTPUT
from eigentensor_serve.apps.registry import App
from eigentensor_serve.backend import Ask
from eigentensor_serve.ledger import Job
from eigentensor_serve.openai.prefixes import Prefixes

WRITERS = 4  #: texts that this machine writes at a time
READS = 8  #: chunks that this machine reads at once: nobody may wait for the answer any more
REPLAYS = 2  #: times that a text is executed again from its beginning at another operator
_ROOTS = 4096  # of states that operators keep
Values = np.ndarray[Any, Any]
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


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs of an app that writes."""

    app: App
    writer: Program
    reader: Program | None

    @classmethod
    def of(cls, deployed: Deployed, app: App) -> Self:
        """As they are deployed."""
        return cls(app, deployed.program(app), deployed.reader(app))

    @property
    def chunk(self) -> int:
        """How many positions are read at once."""
        return self.reader.variables[0].stride if self.reader else 1

    def by(self, stride: int) -> tuple[Program, str]:
        """The one that reads so much at once, and its uuid."""
        if stride == 1:
            return self.writer, self.app.program
        assert self.reader is not None and self.app.reader is not None
        return self.reader, self.app.reader

    @property
    def goes_back(self) -> bool:
        """Whether states that have read more will do."""
        return not any(name.startswith(RECENT) for name in self.writer.new_states)


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


@dataclass(slots=True)
class Compiled:
    """An app's programs, ready to be executed by one text at a time."""

    writer: CompiledGraph
    reader: CompiledGraph | None


@dataclass(slots=True)
class Here:
    """This machine executes the steps; the states stay where they are."""

    programs: Programs
    compiled: Compiled
    states: Mapping[str, Values] | None
    caller: str
    prefixes: Prefixes[Mapping[str, Values]]
    prompt: Sequence[int] = ()
    stops: tuple[int, ...] = ()
    jobs: list[Job] = field(default_factory=list)

    async def begin(self, prompt: Sequence[int]) -> int:
        """As `Writer.begin`: states that have read more will do, too, unless they forget."""
        self.prompt, chunk = prompt, self.programs.chunk
        if self.compiled.reader is None:
            return 0
        alike = self.prefixes.alike(self._of, prompt, chunk)
        found = alike if self.programs.goes_back else self.prefixes.longest(self._of, prompt, chunk)
        if not self.programs.goes_back:  # what several texts have in common is worth keeping, and so is each whole
            self.stops = ((alike or (0, None))[0], len(prompt) // chunk * chunk)
        if found is None:
            return 0
        position, self.states = found
        return position

    async def most(self, stride: int = 1) -> int:
        """Of the program; of chunks as many as take some seconds."""
        return self.compiled.writer.program.max_repeat if stride == 1 else READS

    async def write(self, step: Step) -> Values:
        """The outputs of a step that this machine executes."""
        done = 0
        while done < step.repeat:
            position = step.variables["position"] + done * step.stride
            stop = min((stop for stop in self.stops if position < stop < step.last), default=None)
            part = step.part(done, step.repeat if stop is None else (stop - position) // step.stride)
            tokens = await run_in_threadpool(self._execute, part)
            done += part.repeat
        return tokens

    def _execute(self, part: Step) -> Values:
        given = {**(self.states or {}), **part.inputs}
        if part.stride == 1:
            self.states = None  # they stay there
            return self.compiled.writer.run(given, part.variables, part.repeat).outputs[OUTPUT]
        assert self.compiled.reader is not None
        results = self.compiled.reader.run(given, part.variables, part.repeat)
        self.states = results.states
        read = min(part.last, len(self.prompt)) // part.stride * part.stride
        if part.last == read or self.programs.goes_back:
            size, tokens = sum(array.nbytes for array in results.states.values()), self.prompt[:read]
            self.prefixes.add(self._of, tokens, results.states, size, does_for_less=self.programs.goes_back)
        return results.outputs[OUTPUT]

    @property
    def _of(self) -> Hashable:
        app = self.programs.app
        return self.caller, app.program, app.reader, app.weights, app.states


class Writers:
    """Lends what executes the steps of a text; here a few compiled programs, each to one text at a time."""

    def __init__(self, deployed: Deployed) -> None:
        self._deployed = deployed
        self._idle: list[tuple[App, Compiled]] = []
        self._turns = asyncio.Semaphore(WRITERS)
        self._left = Prefixes[str](_ROOTS)
        self._here = Prefixes[Mapping[str, Values]](deployed.service.settings.max_prefixes)

    @asynccontextmanager
    async def writer(self, programs: Programs, caller: str, key: str | None) -> AsyncIterator[Writer]:
        """What executes the steps of a text."""
        if not self._deployed.service.backend.is_local:
            yield Paid(self._deployed, programs, caller, key, self._left)
            return
        app = programs.app
        async with self._turns:
            compiled = self._taken(app)
            if compiled is None:
                compiled = await run_in_threadpool(self._compiled, programs)
            try:
                first = await run_in_threadpool(self._named, app.states, programs.writer, Role.STATE)
                yield Here(programs, compiled, first, caller, self._here)
            finally:
                self._idle = [(app, compiled), *self._idle][:WRITERS]

    def _taken(self, app: App) -> Compiled | None:
        for place, (of, compiled) in enumerate(self._idle):
            if (of.program, of.reader, of.weights) == (app.program, app.reader, app.weights):
                del self._idle[place]
                return compiled
        return None

    def _compiled(self, programs: Programs) -> Compiled:
        weights, device = (
            self._named(programs.app.weights, programs.writer, Role.WEIGHT),
            self._deployed.service.settings.device,
        )
        writer = CompiledGraph(programs.writer, weights, device=device, keep_states=True)
        reader = None if programs.reader is None else CompiledGraph(programs.reader, weights, device=device)
        return Compiled(writer, reader)

    def _named(self, name: str | None, program: Program, role: Role) -> dict[str, Values]:
        return {} if name is None else load_role(self._deployed.service.store.path(name), program, role)
