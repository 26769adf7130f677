"""Chats that this machine decodes together: a run writes tokens of one of them, or of several side by side.

A chat's tokens have the same bits whoever else is in a run (`eigentensor.program.abreast`), so chats come and go
between runs. Its states lie in one place for as long as it is there: programs that read and write, for one or for
several, go on from each other in it. Programs for several are compiled when so many wait for the first time, while
others go on.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median
from threading import Thread
from typing import Any

import numpy as np
import structlog

from eigentensor.errors import EigenTensorError
from eigentensor.program import Program
from eigentensor.program.abreast import Abreast, abreast
from eigentensor.runtime import CompiledGraph
from eigentensor.runtime.sandbox.together import states_size
from eigentensor.system import memory
from eigentensor_client.steps import in_thread
from eigentensor_client.writing import Step
from eigentensor_serve.apps.models import OUTPUT
from eigentensor_serve.openai.programs import Programs

CHATS = 16  #: that an app has at a time, if a quarter of the memory holds their states
WIDTHS = (4, 16)  #: chats that one run decodes, where it is not one
AT_ONCE = 8  #: tokens that a run writes for each of several chats, or repeats of one that others wait for
TRIES = 3  #: runs of a width that say what a token takes
Values = np.ndarray[Any, Any]
States = Mapping[str, Values]
_log = structlog.get_logger(__name__)


@dataclass(eq=False, slots=True)
class _Asked:
    """A step of a chat whose states are in a room, of which some repeats are done."""

    room: States
    step: Step
    ended: "asyncio.Future[Values]"
    done: int = 0

    @property
    def left(self) -> int:
        """Repeats."""
        return self.step.repeat - self.done


class Decoding:
    """The programs of an app on this machine, and its chats; `turn` is of whoever executes, whatever the app."""

    def __init__(
        self, programs: Programs, weights: States, first: States, turn: asyncio.Lock, device: str | None = None
    ) -> None:
        """`first` are the states of a text that has not begun."""
        self.programs, self.first = programs, first
        self._weights, self._device, self._turn = weights, device, turn
        self._graphs = {1: self._wide(1)}
        self._reader = None if programs.reader is None else self._compiled(programs.reader)
        self._times = {width: deque[float](maxlen=TRIES) for width in (1, *WIDTHS)}
        self._begun = set[int]()  # widths that are, or were, compiled
        self._asked = list[_Asked]()
        self._runs: asyncio.Task[None] | None = None
        self._rooms = list[States]()
        size = states_size(programs.writer)
        self._free = asyncio.Semaphore(max(1, min(CHATS, memory() // 4 // max(1, size))))

    @property
    def others(self) -> int:
        """How many steps wait for their tokens."""
        return len(self._asked)

    @asynccontextmanager
    async def room(self) -> AsyncIterator[dict[str, Values]]:
        """Memory for the states of a chat, whatever is in it."""
        async with self._free:
            room = dict(self._rooms.pop() if self._rooms else await in_thread(self._graphs[1][1].room, self.first))
            try:
                yield room
            finally:
                self._rooms.append(room)

    async def read(self, room: States, step: Step) -> Values:
        """All tokens after a step of the program that reads."""
        assert self._reader is not None
        async with self._turn:
            outputs = await in_thread(self._reader.run_in, room, step.inputs, step.variables, step.repeat)
        return outputs[OUTPUT]

    async def write(self, room: States, step: Step) -> Values:
        """All tokens after a step of the program that writes, by as many runs as others leave it."""
        asked = _Asked(room, step, asyncio.get_running_loop().create_future())
        self._asked.append(asked)
        if self._runs is None or self._runs.done():
            self._runs = asyncio.create_task(self._run_all())
        try:
            return await asked.ended
        finally:
            if asked in self._asked:  # nobody waits for it any more
                self._asked.remove(asked)
                async with self._turn:  # and no run writes there
                    pass

    def widen(self, width: int) -> None:
        """Compiles the program for so many chats. One that is not admitted here is left out."""
        self._begun.add(width)
        try:
            self._graphs[width] = self._wide(width)
        except (EigenTensorError, MemoryError, OSError) as error:
            _log.warning("chats are not decoded together", chats=width, error=str(error))

    async def _run_all(self) -> None:
        """Runs until nobody waits; those that waited longest come first."""
        while self._asked:
            async with self._turn:
                group, repeat = self._next()
                if not group:  # those who waited went away
                    return
                outcome: Sequence[Values] | BaseException
                try:
                    outcome = await in_thread(self._run, group, repeat)
                except Exception as error:
                    outcome = error
            for place, asked in enumerate(group):
                asked.done += repeat
                if asked.ended.done():  # cancelled
                    continue
                self._asked.remove(asked)
                if isinstance(outcome, BaseException):
                    asked.ended.set_exception(outcome)
                elif asked.left:
                    self._asked.append(asked)
                else:
                    asked.ended.set_result(outcome[place])

    def _next(self) -> tuple[list[_Asked], int]:
        """The steps of the next run, and how many repeats of each it executes."""
        waiting = [asked for asked in self._asked if not asked.ended.done()]
        count = len(waiting)
        for width in WIDTHS:
            if width <= count and width not in self._begun:
                self._begun.add(width)
                Thread(target=self.widen, args=(width,), name="widen", daemon=True).start()
        group = waiting[: self._width(count)]
        left = min((asked.left for asked in group), default=0)
        return group, left if count == 1 else min(left, AT_ONCE)

    def _width(self, count: int) -> int:
        """How many of so many chats are decoded by the next run: the most that was not tried, else as many as have
        their tokens soonest."""
        possible = [width for width in (1, *WIDTHS) if width <= count and width in self._graphs]
        untried = [width for width in possible if len(self._times[width]) < TRIES]
        if untried:
            return max(untried)
        return min(possible, key=lambda width: median(self._times[width]), default=0)

    def _run(self, group: Sequence[_Asked], repeat: int) -> list[Values]:
        """All tokens of each."""
        width, parts = len(group), [asked.step.part(asked.done, repeat) for asked in group]
        wide, graph = self._graphs[width]
        start = time.perf_counter()
        rooms = wide.states([asked.room for asked in group])
        inputs = {name: np.stack([part.inputs[name] for part in parts]) for name in parts[0].inputs}
        variables = wide.variables([part.variables for part in parts])
        outputs = graph.run_in(rooms, wide.inputs(inputs), variables, repeat)
        tokens = [wide.outputs(outputs, row)[OUTPUT] for row in range(width)]
        self._times[width].append((time.perf_counter() - start) / (width * repeat))
        return tokens

    def _wide(self, width: int) -> tuple[Abreast, CompiledGraph]:
        """The program that writes for so many chats."""
        wide = abreast(self.programs.writer, width, AT_ONCE)
        return wide, self._compiled(wide.program)

    def _compiled(self, program: Program) -> CompiledGraph:
        return CompiledGraph(program, self._weights, device=self._device)
