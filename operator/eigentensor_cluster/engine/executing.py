"""Programs as a slot executes them: compiled in this process where all clients are trusted, else each in a sandbox."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
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
from eigentensor.runtime.memory.plan import HOST
from eigentensor.runtime.sandbox.execution import run_sandboxed
from eigentensor.runtime.sandbox.tenant import Tenant

Tensors = Mapping[str, NDArray[Any]]

MEMORY = 8 << 30  #: bytes for the buffers of one
READY = 64  #: programs that are held ready in one place
IDLE = 16  #: processes of tenants that are held ready, though nobody uses them


class Ready(Protocol):
    """Holds programs ready, for one thread at a time."""

    def has(self, root: bytes) -> bool:
        """Whether a program is ready."""

    def run(self, root: bytes, program: Program, tensors: Tensors, variables: Mapping[str, int]) -> tuple[Tensors, int]:
        """A program's outputs, by name, and how many kernels were compiled for it. Raises what the execution raises."""

    def close(self) -> None:
        """Ends what it holds."""


class Trusted:
    """Programs that are compiled in this process."""

    def __init__(self, device: str, threads: int) -> None:
        self._device, self._threads = device, threads
        self._graphs: OrderedDict[bytes, CompiledGraph] = OrderedDict()

    def has(self, root: bytes) -> bool:
        """As `Ready.has`."""
        return root in self._graphs

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

    def close(self) -> None:
        """Forgets them."""
        self._graphs.clear()


class Confined:
    """Programs of one tenant in a sandboxed process of their own."""

    def __init__(self, device: str, threads: int) -> None:
        self._tenant = Tenant(replace(confined.limits(MEMORY, SECONDS), threads=threads), device=device)

    def has(self, root: bytes) -> bool:
        """As `Ready.has`: all of a tenant's."""
        return True

    def run(self, root: bytes, program: Program, tensors: Tensors, variables: Mapping[str, int]) -> tuple[Tensors, int]:
        """As `Ready.run`; what was compiled before the process was told of it does not count."""
        return self._tenant.run(root, program, tensors, variables, seconds=SECONDS).outputs, 0

    def close(self) -> None:
        """Ends the process."""
        self._tenant.close()


class Programs:
    """What executes programs for the slots of a worker. Safe for several threads.

    A tenant is whoever may share what is ready: a session, or all of them where everybody is trusted. Each has as many
    as it uses at a time; those that were not used for longest are ended, where there are more than may be.
    """

    def __init__(
        self, *, is_trusting: bool, device: str | None = None, slots: int = 1, idle: int = IDLE, cores: int = 0
    ) -> None:
        """`cores` are those that all slots have together; 0: this machine's."""
        self.is_trusting, self.device = is_trusting, device or devices.default(confined=not is_trusting)
        self.threads = max(1, (cores or os.cpu_count() or 1) // slots)
        self._make: Callable[[str, int], Ready] = Trusted if is_trusting else Confined
        self._most = max(idle, slots)
        self._lock, self._idle = threading.Lock(), list[tuple[int | None, Ready]]()
        self._over: set[int | None] = set()  # sessions

    @property
    def is_sharing(self) -> bool:
        """Whether it may execute parts of programs: everybody is trusted, and the device has no memory of its own."""
        return self.is_trusting and self.device.partition(":")[0] in (HOST, devices.REFERENCE)

    def run(
        self, session: int, root: bytes, program: Program, tensors: Tensors, variables: Mapping[str, int]
    ) -> tuple[Tensors, int]:
        """As `Ready.run`, for a session."""
        tenant = None if self.is_trusting else session
        ready = self._taken(tenant, root) or self._make(self.device, self.threads)
        try:
            return ready.run(root, program, tensors, variables)
        finally:
            self._give(tenant, ready)

    def end(self, session: int) -> None:
        """Ends what is ready for a session alone, and what still runs for it when that is done."""
        with self._lock:
            self._over.add(session)
        self._close(lambda tenant: tenant == session)

    def close(self) -> None:
        """Ends all."""
        self._close(lambda tenant: True)

    def check(self) -> None:
        """Holds the device to the reference, as programs are executed here. Raises ExecutionError unless every bit is
        right."""
        selftest.check(self._conforming)

    def _conforming(self, program: Program, tensors: dict[str, NDArray[Any]]) -> Results:
        if self.is_trusting:
            return CompiledGraph(program, device=self.device, threads=self.threads).run(tensors)
        limits = confined.limits(MEMORY, SECONDS)
        return run_sandboxed(encode(program), tensors, limits=limits, device=self.device)

    def _taken(self, tenant: int | None, root: bytes) -> Ready | None:
        """One of the tenant's that is idle, if any is; one that has the program ready, if there is."""
        with self._lock:
            own = [one for one in reversed(self._idle) if one[0] == tenant]
            chosen = next((one for one in own if one[1].has(root)), own[0] if own else None)
            if chosen is not None:
                self._idle.remove(chosen)
        return None if chosen is None else chosen[1]

    def _give(self, tenant: int | None, ready: Ready) -> None:
        with self._lock:
            self._idle.append((tenant, ready))
            over = [self._idle.pop()] if tenant in self._over else self._idle[: -self._most]
            del self._idle[: -self._most]
        for _, one in over:
            one.close()

    def _close(self, which: Callable[[int | None], bool]) -> None:
        with self._lock:
            over = [one for one in self._idle if which(one[0])]
            self._idle = [one for one in self._idle if not which(one[0])]
        for _, one in over:
            one.close()
