"""All programs of one tenant in a sandbox of its own: a process that takes programs as they come, and runs them.

It is sealed before the first of them, and sees no tensors but this tenant's. Kernels are checked and compiled outside,
as for every stranger's program, and read by it from the cache. Parts of programs that several workers execute together
are executed by it, too: their boxes go in and out by whoever is outside (`boxed`).
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigentensor.cache import Cache, default_folder
from eigentensor.errors import BindingError, EigenTensorError, ExecutionError, LimitError
from eigentensor.program.binding import Results, bind, collect
from eigentensor.program.codec import encode
from eigentensor.program.model import Body, Program, Role
from eigentensor.runtime import devices
from eigentensor.runtime.memory.plan import plan, refuse_over
from eigentensor.runtime.reach import NOTHING
from eigentensor.runtime.sandbox.boxed import Run, SlotPart
from eigentensor.runtime.sandbox.bubblewrap import MESSAGE, OUTPUT
from eigentensor.runtime.sandbox.confine import Limits
from eigentensor.runtime.sandbox.execution import bodies_of, command, compile_bodies, settled
from eigentensor.runtime.sandbox.piped import (
    Child,
    Incoming,
    Silent,
    Turn,
    begin,
    ended,
    error_of,
    nonsense,
    response,
    send,
    waited,
)
from eigentensor.runtime.sandbox.returned import tensor
from eigentensor.runtime.sandbox.shared import LEFT, Shared, left_by
from eigentensor.runtime.sandbox.together import open_buffers
from eigentensor.runtime.sandbox.warm import LIFE
from eigentensor.runtime.sandbox.warm_child import LENGTH
from eigentensor.runtime.sharded.machines import refuse_own
from eigentensor.runtime.sharded.mail import Port
from eigentensor.scratch import scratch

#: The request that makes something known by a number, whose kernels a toolchain finds.
_Asking = Callable[[int, str], tuple[dict[str, Any], list[memoryview]]]
PROGRAMS = 64  #: and parts that a process holds ready; those that were not run for longest are forgotten


class _Known(NamedTuple):
    """By which number the process knows something, and bytes that it holds for it between runs."""

    number: int
    size: int


class Tenant:
    """Programs without weights, by their roots, and parts of some, in one sandboxed process. Safe for several threads,
    whose runs it executes one after the other. A process that died or took too long is started anew by the next run."""

    def __init__(
        self, limits: Limits | None = None, *, device: str = "CPU", cache: Cache | None = None, unsafe: bool = False
    ) -> None:
        """`limits` are of the process; its seconds are those of a start, and of compiling a program. `unsafe` does
        without the sandbox."""
        self.device, self.unsafe = device, unsafe
        self.limits = replace(limits or Limits(), cpu_seconds=LIFE)
        self._cache = cache or Cache(default_folder())
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._shared: Shared | None = None
        self._known: OrderedDict[Hashable, _Known] = OrderedDict()
        self._count, self._is_over = 0, False

    def has(self, key: Hashable) -> bool:
        """Whether the process holds a program of this root, or a part of this key, ready."""
        return key in self._known

    def run(
        self,
        root: bytes,
        program: Program,
        tensors: Mapping[str, NDArray[Any]],
        variables: Mapping[str, int] | None = None,
        *,
        seconds: float = 60.0,
    ) -> Results:
        """Results for inputs and states. Tensors that may not be written to must not change: they are brought to the
        process once. The results may not be written to.

        Raises BindingError if they do not fit the program, or if it has weights; LimitError if it takes longer than
        `seconds`, of which starting and compiling are no part, or more memory than the limits; NoSandbox; and
        ExecutionError if the process died.
        """
        if program.named(Role.WEIGHT):
            raise BindingError("a tenant's programs have no weights", fix="Give them as inputs.")
        opened = open_buffers(program)
        flats = bind(replace(program, buffers=tuple(opened)), tensors, variables)

        def defining(number: int, toolchain: str) -> tuple[dict[str, Any], list[memoryview]]:
            data = encode(program)
            return {"define": number, "bytes": len(data), "toolchain": toolchain}, [memoryview(data)]

        with self._lock:
            if root not in self._known:
                refuse_over(self.limits.memory, program, self.device)
                self._take(root, bodies_of(program), plan(program, over=True).size, defining)
            assert self._shared is not None
            places = self._shared.places([np.asarray(tensors[b.name]) for b in opened], flats)
            head = {"run": self._number(root), "variables": dict(variables or {}), "given": places}
            piped = [flat.view(np.uint8).data for flat, at in zip(flats, places, strict=True) if at is None]
            return self._executed(program, head, piped, seconds)

    def share(
        self,
        part: SlotPart,
        given: Sequence[NDArray[Any]],
        variables: Sequence[int],
        wanted: Sequence[int],
        port: Port,
        *,
        seconds: float = 60.0,
    ) -> list[NDArray[Any]]:
        """The `wanted` pieces of a part of a plan, flat, after a run on the elements of its given ones, with the values
        of all variables; other workers are behind the port.

        Raises LimitError if the process takes longer than `seconds` for its own steps, of which starting, compiling and
        waiting for others are no part, or for a part that holds more than the limits; NoSandbox; ExecutionError if the
        process died, or for a device that has memory of its own; and what the port raises. Whatever is raised of a run,
        the process is over.
        """
        if self.device != devices.REFERENCE:
            refuse_own(self.device)
        with self._lock:
            if part.key not in self._known:
                self._check_room(part)
                self._take(part.key, part.bodies(), part.planned.held, part.request)
            child, run = self._child, Run(self._number(part.key), part, given, variables, wanted)
            assert child is not None
            self._check()
            try:
                return run.talk(child, port, seconds)
            except Silent as silent:
                raise error_of(child, silent, self._end(wait=silent.died)) from None
            except BaseException:
                self._end()
                raise

    def close(self) -> None:
        """Ends the process, which clears the memory of its device; the next run starts another one."""
        with self._lock:
            self._end(wait=devices.has_own_memory(self.device))
            if self._shared is not None:
                self._shared.close()
                self._shared = None

    def stop(self) -> None:
        """Ends the process for ever, whatever it does: a run raises ExecutionError then. Waits for nothing."""
        self._is_over = True
        if (child := self._child) is not None:
            child.over.set()

    def _check(self) -> None:
        if self._is_over:
            raise ExecutionError("what executes the program is over")

    def _check_room(self, part: SlotPart) -> None:
        if part.planned.held > self.limits.memory:
            raise LimitError(
                f"a part of the program holds {part.planned.held:,} bytes, there are {self.limits.memory:,}",
                fix="Take more workers, or workers with more memory.",
            )

    def _number(self, key: Hashable) -> int:
        self._known.move_to_end(key)
        return self._known[key].number

    def _take(self, key: Hashable, bodies: Iterable[Body], size: int, asking: _Asking) -> None:
        """Lets the process take something: these bodies are compiled for it."""
        self._check()
        until, toolchain = monotonic() + self.limits.seconds, ""
        if self.device != devices.REFERENCE:
            bodies = tuple(dict.fromkeys(bodies))
            toolchain = settled(bodies, self.device, self.unsafe).to_json()
            left = until - monotonic()
            compile_bodies(bodies, left, device=self.device, cache=self._cache, unsafe=self.unsafe)
        if self._child is None:
            self._child = self._begun(until)
        while self._known and not self._has_room(size):
            _, oldest = self._known.popitem(last=False)
            self._asked({"forget": oldest.number}, [], 0, until - monotonic())
        self._asked(*asking(self._count + 1, toolchain), 0, until - monotonic())
        self._count += 1
        self._known[key] = _Known(self._count, size)

    def _has_room(self, size: int) -> bool:
        held = sum(of.size for of in self._known.values())
        return len(self._known) < PROGRAMS and held + size <= self.limits.memory

    def _executed(self, program: Program, head: Mapping[str, Any], piped: list[memoryview], seconds: float) -> Results:
        """What the process makes of a program that it knows."""
        shared = self._shared
        assert shared is not None
        left = left_by(program, LEFT)
        size = sum(of.elements * of.dtype.size for of, at in left if at is None)
        rest, begin = np.frombuffer(self._asked(head, piped, size, seconds), np.uint8), 0
        arrays = dict[int, NDArray[Any]]()
        for result, (of, at) in zip(program.results, left, strict=True):
            size = of.elements * of.dtype.size
            if at is None:
                data, begin = rest[begin : begin + size], begin + size
            else:
                data = shared.taken(at, size)
            arrays[result.buffer] = tensor(lambda _, data=data: data, of, f"{result.name!r}")  # type: ignore[misc]
        return collect(program, arrays)

    def _asked(self, head: Mapping[str, Any], parts: list[memoryview], size: int, seconds: float) -> bytearray:
        """What the process responds. Raises the error that it reports, or what became of it: then it is over."""
        child = self._child
        assert child is not None
        self._check()
        text = json.dumps(head).encode()
        try:
            came = waited(_talk(child, [LENGTH.pack(len(text)) + text, *parts], size), monotonic() + seconds)
        except Silent as silent:
            raise error_of(child, silent, self._end(wait=silent.died)) from None
        if isinstance(came, EigenTensorError):
            raise came
        return came

    def _begun(self, until: float) -> Child:
        here = None if self.device == devices.REFERENCE else settled((), self.device, self.unsafe)
        reach = here.reach if here is not None else NOTHING
        job = {
            "limits": asdict(self.limits), "file_bytes": OUTPUT if reach.scratch else MESSAGE,
            "sealed": not self.unsafe, "device": self.device, "reach": reach.to_json(),
            "toolchain": here.to_json() if here else "",
        }  # fmt: skip
        self._shared = self._shared or Shared(self.limits.memory)
        with scratch() as folder:
            (folder / "job.json").write_text(json.dumps(job))
            self._cache.folder.mkdir(parents=True, exist_ok=True)
            seen = {"job.json": folder / "job.json", "kernels": self._cache.folder}
            child = begin(*command(folder, seen, reach, self.unsafe, "tenant_child"), files=self._shared.files)
            try:
                ready = waited(response(Incoming(child), 0), until)
            except Silent as silent:
                raise error_of(child, silent, ended(child, wait=silent.died)) from None
            if isinstance(ready, EigenTensorError):
                ended(child)
                raise ready
        return child

    def _end(self, *, wait: bool = False) -> str:
        """Ends the process, if there is one, which knows no programs then; what it wrote as errors."""
        child, self._child = self._child, None
        self._known.clear()
        return "" if child is None else ended(child, wait=wait)


def _talk(child: Child, parts: list[bytes | memoryview], size: int) -> "Turn[bytearray | EigenTensorError]":
    """One request and its response, of so many bytes. Raises Silent."""
    yield from send(child, parts)
    yield child.responses, True
    incoming = Incoming(child)
    came = yield from response(incoming, size)
    if incoming.is_ahead:
        raise nonsense()
    return came
