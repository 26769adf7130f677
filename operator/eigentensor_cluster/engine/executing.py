"""Programs as a slot executes them: compiled in this process where all clients are trusted, else each in a sandbox."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from numpy.typing import NDArray

from eigentensor.cluster.session import SECONDS
from eigentensor.program.binding import Results
from eigentensor.program.codec import encode
from eigentensor.program.model import Program
from eigentensor.reexecution import confined
from eigentensor.runtime import devices, selftest
from eigentensor.runtime.compiled import CompiledGraph
from eigentensor.runtime.memory.plan import HOST, installed
from eigentensor.runtime.sandbox.boxed import SlotPart
from eigentensor.runtime.sandbox.execution import run_sandboxed
from eigentensor.runtime.sandbox.tenant import Tenant
from eigentensor.runtime.sharded.mail import Port
from eigentensor_cluster.engine.parts import Key, Parts

Values = NDArray[Any]
Tensors = Mapping[str, Values]

MEMORY = 8 << 30  #: bytes for the buffers of one
READY = 64  #: programs that are held ready in one place
IDLE = 16  #: processes of tenants that are held ready, though nobody uses them


class Ready(Protocol):
    """Holds programs ready, for one thread at a time."""

    def has(self, key: Hashable) -> bool:
        """Whether a program of this root, or a part of this key, is ready."""

    def run(self, root: bytes, program: Program, tensors: Tensors, variables: Mapping[str, int]) -> tuple[Tensors, int]:
        """A program's outputs, by name, and how many kernels were compiled for it. Raises what the execution raises."""

    def share(
        self, part: SlotPart, given: Sequence[Values], variables: Sequence[int], wanted: Sequence[int], port: Port
    ) -> list[Values]:
        """The `wanted` pieces of a part of a plan, after a run on the elements of its given ones, with the values of
        all variables; other workers are behind the port. Raises what the execution raises, and the port."""

    def close(self) -> None:
        """Ends what it holds, if nobody uses it."""

    def stop(self) -> None:
        """Ends what can be ended of what it executes, and waits for nothing."""


class Trusted:
    """Programs that are compiled in this process."""

    def __init__(self, device: str, threads: int, parts: Parts) -> None:
        """`parts` are those of all sessions."""
        self._device, self._threads, self._parts = device, threads, parts
        self._graphs: OrderedDict[bytes, CompiledGraph] = OrderedDict()

    def has(self, key: Hashable) -> bool:
        """As `Ready.has`."""
        return key in self._graphs

    def run(self, root: bytes, program: Program, tensors: Tensors, variables: Mapping[str, int]) -> tuple[Tensors, int]:
        """As `Ready.run`."""
        compiled = 0
        if root not in self._graphs:
            self._graphs[root] = CompiledGraph(program, device=self._device, threads=self._threads)
            compiled = self._graphs[root].compiled
            if len(self._graphs) > READY:
                self._graphs.popitem(last=False)
        self._graphs.move_to_end(root)
        return self._graphs[root].run(tensors, variables).outputs, compiled

    def share(
        self, part: SlotPart, given: Sequence[Values], variables: Sequence[int], wanted: Sequence[int], port: Port
    ) -> list[Values]:
        """As `Ready.share`."""
        return self._parts.share(part, given, variables, wanted, port)

    def close(self) -> None:
        """Forgets them."""
        self._graphs.clear()

    def stop(self) -> None:
        """Nothing: kernels of this process end when they are done."""


class Confined:
    """Programs of one tenant in a sandboxed process of their own."""

    def __init__(self, device: str, threads: int, memory: int) -> None:
        self._tenant = Tenant(replace(confined.limits(memory, SECONDS), threads=threads), device=device)

    def has(self, key: Hashable) -> bool:
        """As `Ready.has`."""
        return self._tenant.has(key)

    def run(self, root: bytes, program: Program, tensors: Tensors, variables: Mapping[str, int]) -> tuple[Tensors, int]:
        """As `Ready.run`; what was compiled before the process was told of it does not count."""
        return self._tenant.run(root, program, tensors, variables, seconds=SECONDS).outputs, 0

    def share(
        self, part: SlotPart, given: Sequence[Values], variables: Sequence[int], wanted: Sequence[int], port: Port
    ) -> list[Values]:
        """As `Ready.share`."""
        return self._tenant.share(part, given, variables, wanted, port, seconds=SECONDS)

    def close(self) -> None:
        """Ends the process."""
        self._tenant.close()

    def stop(self) -> None:
        """Ends the process: what it executes fails."""
        self._tenant.stop()


class Programs:
    """What executes programs for the slots of a worker. Safe for several threads.

    A tenant is whoever may share what is ready: a session, or all of them where everybody is trusted. Each has as many
    as it uses at a time; those that were not used for longest are ended, where there are more than may be.
    """

    def __init__(
        self,
        *,
        is_trusting: bool,
        device: str | None = None,
        slots: int = 1,
        idle: int = IDLE,
        cores: int = 0,
        memory: int = 0,
    ) -> None:
        """`cores` are those that all slots have together; 0: those that this process may run on. `memory` are the bytes
        that each slot has for a program's buffers; 0: its share of this machine's, or what programs of strangers may
        take."""
        self.is_trusting, self.device = is_trusting, device or devices.default(confined=not is_trusting)
        self.threads = max(1, (cores or len(os.sched_getaffinity(0))) // slots)
        self.memory = memory or (installed() // slots if is_trusting else MEMORY)
        self._parts = Parts(self.device, self.threads)  # of those who are trusted
        self._most = max(idle, slots)
        self._lock, self._idle = threading.Lock(), list[tuple[int | None, Ready]]()
        self._used: list[tuple[int | None, Ready]] = []
        self._over, self._is_over = set[int | None](), False  # sessions; all

    @property
    def is_sharing(self) -> bool:
        """Whether it may execute parts of programs: the device has no memory of its own."""
        return self.device.partition(":")[0] in (HOST, devices.REFERENCE)

    def run(
        self, session: int, root: bytes, program: Program, tensors: Tensors, variables: Mapping[str, int]
    ) -> tuple[Tensors, int]:
        """As `Ready.run`, for a session."""
        with self._held(session, root) as ready:
            return ready.run(root, program, tensors, variables)

    def share(
        self, part: SlotPart, given: Sequence[Values], variables: Sequence[int], wanted: Sequence[int], port: Port
    ) -> list[Values]:
        """As `Ready.share`, of a part with a `Key`."""
        assert isinstance(part.key, Key)
        with self._held(part.key.session, part.key) as ready:
            return ready.share(part, given, variables, wanted, port)

    def end(self, session: int) -> None:
        """Ends what is ready for a session alone, and what still runs for it: its process, or else when it is done.
        Waits for nothing."""
        with self._lock:
            self._over.add(session)
        self._parts.end(session)
        self._close(lambda tenant: tenant == session)

    def close(self) -> None:
        """Ends all, as `end` does."""
        with self._lock:
            self._is_over = True
        self._close(lambda tenant: True)

    def check(self) -> None:
        """Holds the device to the reference, as programs are executed here. Raises ExecutionError unless every bit is
        right."""
        selftest.check(self._conforming)

    def _conforming(self, program: Program, tensors: dict[str, NDArray[Any]]) -> Results:
        if self.is_trusting:
            return CompiledGraph(program, device=self.device, threads=self.threads).run(tensors)
        limits = confined.limits(self.memory, SECONDS)
        return run_sandboxed(encode(program), tensors, limits=limits, device=self.device)

    @contextmanager
    def _held(self, session: int, key: Hashable) -> Iterator[Ready]:
        """One of the tenant's for a while: one that has the program or part ready, if such a one is idle."""
        tenant = None if self.is_trusting else session
        ready = self._taken(tenant, key) or self._made()
        with self._lock:
            self._used.append((tenant, ready))
            is_over = self._is_over or tenant in self._over
        if is_over:  # meanwhile
            ready.stop()
        try:
            yield ready
        finally:
            self._give(tenant, ready)

    def _made(self) -> Ready:
        if self.is_trusting:
            return Trusted(self.device, self.threads, self._parts)
        return Confined(self.device, self.threads, self.memory)

    def _taken(self, tenant: int | None, key: Hashable) -> Ready | None:
        """One of the tenant's that is idle, if any is; one that has this ready, if there is."""
        with self._lock:
            own = [one for one in reversed(self._idle) if one[0] == tenant]
            chosen = next((one for one in own if one[1].has(key)), own[0] if own else None)
            if chosen is not None:
                self._idle.remove(chosen)
        return None if chosen is None else chosen[1]

    def _give(self, tenant: int | None, ready: Ready) -> None:
        with self._lock:
            self._used.remove((tenant, ready))
            self._idle.append((tenant, ready))
            over = [self._idle.pop()] if self._is_over or tenant in self._over else self._idle[: -self._most]
            del self._idle[: -self._most]
        for _, one in over:
            one.close()

    def _close(self, which: Callable[[int | None], bool]) -> None:
        with self._lock:
            used = [one for tenant, one in self._used if which(tenant)]
            idle = [one for tenant, one in self._idle if which(tenant)]
            self._idle = [one for one in self._idle if not which(one[0])]
        for one in (*used, *idle):
            one.stop()
        if idle:
            threading.Thread(target=_end, args=[idle], name="ending", daemon=True).start()


def _end(some: Sequence[Ready]) -> None:
    for one in some:
        one.close()
