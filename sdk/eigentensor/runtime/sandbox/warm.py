"""A stranger's program that stays in its sandbox: started once with its weights, then executed call after call.

The child sees what the child of a single execution sees, and is sealed before any of the program runs. Its calls may be
of different callers: a program is data whose kernels were checked and compiled here, and the child holds nothing of a
call once the next one came, but states: a call that goes on from those that one of the last calls left does not bring
them. Calls that are there at the same time are handed over together, and executed as `together` says.
"""

import asyncio
import json
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.cache import Cache, default_folder
from eigentensor.errors import EigenTensorError, SandboxError
from eigentensor.program.abreast import abreast
from eigentensor.program.binding import bind
from eigentensor.program.codec import encode
from eigentensor.program.model import Program, Role
from eigentensor.runtime import devices
from eigentensor.runtime.memory.plan import refuse_over
from eigentensor.runtime.reach import NOTHING
from eigentensor.runtime.sandbox.bubblewrap import MESSAGE, OUTPUT
from eigentensor.runtime.sandbox.confine import Limits
from eigentensor.runtime.sandbox.execution import bodies_of, command, compile_sandboxed, settled
from eigentensor.runtime.sandbox.piped import (
    Child,
    Incoming,
    Silent,
    Turn,
    awaited,
    begin,
    ended,
    error_of,
    nonsense,
    response,
    send,
    waited,
)
from eigentensor.runtime.sandbox.ready import Given, ReadyProgram
from eigentensor.runtime.sandbox.returned import Observed, Wanted
from eigentensor.runtime.sandbox.slots import Slots
from eigentensor.runtime.sandbox.together import admitted, held, most_together, open_buffers
from eigentensor.runtime.sandbox.warm_child import LENGTH
from eigentensor.scratch import scratch

LIFE = 1 << 30  #: processor seconds of a child: each call has a limit by the clock


class WarmProgram(ReadyProgram):
    """A valid program with its weights, in files that their bindings root names. Safe for several threads, whose calls
    it executes one after the other; a child that died or was killed is started anew by the next one."""

    def __init__(
        self,
        program: Program,
        weights: Sequence[Path] = (),
        limits: Limits | None = None,
        *,
        device: str = "CPU",
        cache: Cache | None = None,
        unsafe: bool = False,
    ) -> None:
        """`limits` are of the child; its seconds are those of a start, compiling included. `unsafe` does without the
        sandbox. Raises LimitError for too large a program."""
        self.program, self.weights, self.device, self.unsafe = program, tuple(weights), device, unsafe
        self.limits = replace(limits or Limits(), cpu_seconds=LIFE)
        refuse_over(self.limits.memory, program, device)
        self._cache = cache or Cache(default_folder())
        self.most = most_together(program, self.limits.memory)  #: calls that are handed over together at most
        self._records = replace(program, buffers=tuple(open_buffers(program)))
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._widths: tuple[int, ...] = ()
        self._is_tried = False  # whether to widen this child was tried
        self._closed = 0  # how often

    @property
    def is_warm(self) -> bool:
        """Whether a child is there."""
        return self._child is not None

    def warm(self) -> None:
        """Starts the child if there is none. Raises NoSandbox, LimitError, ExecutionError."""
        with self._lock:
            self._started()

    @property
    def widths(self) -> tuple[int, ...]:
        """How many calls a run of the child may execute, besides one."""
        return self._widths

    @property
    def may_widen(self) -> bool:
        """Whether `widen` was not tried since the child was started. One that was lost with several calls at hand is
        not widened again."""
        return not self._is_tried

    def widen(self) -> None:
        """Compiles the program for several calls at once, in as many widths as the limits of the child hold, and then
        replaces the child by one that has them. Calls go on meanwhile. Raises what `warm` raises."""
        self._is_tried, closed = True, self._closed
        widths = admitted(self.program, self.limits.memory, self.device)
        if not widths:
            return
        child: Child | None = self._begun(widths)
        with self._lock:
            if closed == self._closed:
                child, self._child, self._widths = self._child, child, widths
        if child is not None:
            self._end(child, wait=devices.has_own_memory(self.device))

    def run(
        self,
        tensors: Mapping[str, NDArray[Any]],
        variables: Mapping[str, int] | None = None,
        repeat: int = 1,
        *,
        keep: Collection[int] = (),
        seconds: float = 60.0,
    ) -> Observed:
        """Results for inputs and states, and what the executed calls `keep` wrote.

        Raises BindingError if they do not fit the program; LimitError if it takes longer than `seconds`, of which a
        start is no part, or more memory than the limits; ExecutionError if the child died.
        """
        return _only(self.run_all([Given(tensors, variables or {})], repeat, keep=[keep], seconds=seconds))

    async def run_async(
        self,
        tensors: Mapping[str, NDArray[Any]],
        variables: Mapping[str, int] | None = None,
        repeat: int = 1,
        *,
        keep: Collection[int] = (),
        seconds: float = 60.0,
    ) -> Observed:
        """As `run`, for one caller at a time: its event loop goes on meanwhile."""
        given = Given(tensors, variables or {})
        return _only(await self.run_all_async([given], repeat, keep=[keep], seconds=seconds))

    def run_all(
        self,
        calls: Sequence[Given],
        repeat: int = 1,
        *,
        keep: Sequence[Collection[int]],
        seconds: float = 60.0,
    ) -> list[Observed | EigenTensorError]:
        """What `run` has for each of several calls, at most `most`, or the error that it raises: all that are not done
        have the one of a child that died, or took longer than `seconds` for each of them. Raises BindingError if one
        does not fit the program, and what `warm` raises."""
        asked = self._asked(calls, repeat, keep)
        with self._lock:
            child = self._started()
            try:
                waited(_talk(child, asked), monotonic() + seconds * len(calls))
            except Silent as silent:
                return asked.outcomes(self._lost(child, silent, asked))
            return asked.kept(child.slots)

    async def run_all_async(
        self,
        calls: Sequence[Given],
        repeat: int = 1,
        *,
        keep: Sequence[Collection[int]],
        seconds: float = 60.0,
    ) -> list[Observed | EigenTensorError]:
        """As `run_all`, for one caller at a time: its event loop goes on meanwhile."""
        asked, loop = self._asked(calls, repeat, keep), asyncio.get_running_loop()
        if self._child is None:
            await loop.run_in_executor(None, self.warm)
        with self._lock:
            child = self._started()
            try:
                await awaited(_talk(child, asked), loop.time() + seconds * len(calls))
            except Silent as silent:
                return asked.outcomes(await loop.run_in_executor(None, self._lost, child, silent, asked))
            except asyncio.CancelledError:  # it is in the middle of something
                self._end(child)
                raise
            return asked.kept(child.slots)

    def _asked(self, calls: Sequence[Given], repeat: int, keep: Sequence[Collection[int]]) -> "_Asked":
        flats = [bind(self._records, *call, repeat) for call in calls]
        wanted = [Wanted(self.program, repeat, tuple(sorted(set(some)))) for some in keep]
        return _Asked(calls, flats, repeat, wanted)

    def close(self) -> None:
        """Ends the child, which clears the memory of its device; the next call starts another one."""
        with self._lock:
            self._closed, self._is_tried = self._closed + 1, False
            if self._child is not None:
                self._end(self._child, wait=devices.has_own_memory(self.device))

    def __enter__(self) -> "WarmProgram":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _started(self) -> Child:
        if self._child is None:
            self._child = self._begun()
        return self._child

    def _begun(self, widths: Sequence[int] = ()) -> Child:
        """A child that is ready, with the program alone and in these widths; what they need is compiled before. Raises
        as `warm`."""
        until = monotonic() + self.limits.seconds
        programs = [abreast(self.program, width).program for width in (1, *widths)]
        bodies = [body for program in programs for body in bodies_of(program)]
        here = None if self.device == devices.REFERENCE else settled(bodies, self.device, self.unsafe)
        reach = here.reach if here is not None else NOTHING
        for program in programs if here is not None else ():
            compile_sandboxed(program, until - monotonic(), device=self.device, cache=self._cache, unsafe=self.unsafe)
        job = {
            "limits": asdict(self.limits), "file_bytes": OUTPUT if reach.scratch else MESSAGE,
            "sealed": not self.unsafe, "device": self.device,
            "toolchain": here.to_json() if here else "", "widths": widths,
            "reach": reach.to_json(),
            "tensors": [f"tensors{i}" for i in range(len(self.weights))],
        }  # fmt: skip
        with scratch() as folder:
            (folder / "job.json").write_text(json.dumps(job))
            (folder / "program").write_bytes(encode(self.program))
            self._cache.folder.mkdir(parents=True, exist_ok=True)
            seen = {name: folder / name for name in ("job.json", "program")} | {"kernels": self._cache.folder}
            seen |= {f"tensors{i}": file for i, file in enumerate(self.weights)}
            slots = held(programs, self.limits.memory, self.device)
            child = begin(*command(folder, seen, reach, self.unsafe, "warm_child"), slots=slots)
            try:
                ready = waited(response(Incoming(child), 0), until)
            except Silent as silent:
                raise self._lost(child, silent) from None
            if isinstance(ready, EigenTensorError):
                self._end(child)
                raise ready
        return child

    def _lost(self, child: Child, silent: Silent, asked: "_Asked | None" = None) -> EigenTensorError:
        """The error of a child that does not go on as it should, which is ended."""
        if asked is not None:
            self._is_tried = len(asked.wanted) > 1
        return error_of(child, silent, self._end(child, wait=silent.died))

    def _end(self, child: Child, wait: bool = False) -> str:
        """Ends it; what it wrote as errors."""
        if self._child is child:
            self._child, self._widths = None, ()
        return ended(child, wait=wait)


@dataclass
class _Asked:
    """What is asked for: calls with their flat inputs and states, and what is wanted back of each of them; then slots
    for what they leave, and the responses that came."""

    calls: Sequence[Given]
    flats: Sequence[Sequence[NDArray[Any]]]
    repeat: int
    wanted: Sequence[Wanted]
    slots: Sequence[int | None] = ()
    came: list[bytearray | EigenTensorError] = field(default_factory=list)

    def request(self, slots: Slots) -> list[bytes | memoryview]:
        """Its bytes: without the states that these slots hold."""
        held = [slots.holding(call.tensors) for call in self.calls]
        self.slots = slots.free(len(self.calls), held)
        keep, variables = [one.keep for one in self.wanted], [dict(call.variables) for call in self.calls]
        head = {"variables": variables, "repeat": self.repeat, "keep": keep, "from": held, "to": self.slots}
        text = json.dumps(head).encode()
        inputs = len(self.wanted[0].program.named(Role.INPUT))  # come before states
        brought = [flats if slot is None else flats[:inputs] for flats, slot in zip(self.flats, held, strict=True)]
        return [LENGTH.pack(len(text)) + text, *(flat.view(np.uint8).data for flats in brought for flat in flats)]

    def outcomes(self, lost: EigenTensorError | None = None) -> list[Observed | EigenTensorError]:
        """What came of each call; those that have no response were `lost`."""
        done: list[Observed | EigenTensorError] = []
        for wanted, data in zip(self.wanted, self.came, strict=False):
            try:
                done.append(data if isinstance(data, EigenTensorError) else wanted.unpack(data))
            except SandboxError as error:
                done.append(error)
        return done if lost is None else done + [lost] * (len(self.wanted) - len(done))

    def kept(self, slots: Slots) -> list[Observed | EigenTensorError]:
        """The same of all calls, whose new states these slots hold from now on."""
        outcomes = self.outcomes()
        for slot, outcome in zip(self.slots, outcomes, strict=True):
            if slot is not None and not isinstance(outcome, EigenTensorError):
                slots.keep(slot, outcome.results.states)
        return outcomes


def _only(outcomes: Sequence[Observed | EigenTensorError]) -> Observed:
    """The outcome of one call. Raises the error that it is."""
    (outcome,) = outcomes
    if isinstance(outcome, EigenTensorError):
        raise outcome
    return outcome


def _talk(child: Child, asked: _Asked) -> "Turn[None]":
    """One request and its responses, as they come. Raises Silent."""
    yield from send(child, asked.request(child.slots))
    yield child.responses, True
    incoming = Incoming(child)
    for wanted in asked.wanted:
        asked.came.append((yield from response(incoming, wanted.size)))
    if incoming.is_ahead:
        raise nonsense()
