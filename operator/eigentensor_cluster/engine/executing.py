"""Programs as a slot executes them: compiled in this process where all clients are trusted, else each in a sandbox."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from eigentensor.cluster.session import SECONDS
from eigentensor.program.binding import Results
from eigentensor.program.codec import encode
from eigentensor.program.model import Program
from eigentensor.reexecution import confined
from eigentensor.runtime import devices, selftest
from eigentensor.runtime.compiled import CompiledGraph
from eigentensor.runtime.sandbox.execution import run_sandboxed
from eigentensor.runtime.sandbox.tenant import Tenant
from eigentensor.runtime.sharded import Sharded
from eigentensor.sharding.signals import Hint
from eigentensor_cluster.engine.interface import Work

Tensors = Mapping[str, NDArray[Any]]

MEMORY = 8 << 30  #: bytes for the buffers of one
READY = 64  #: programs that are held ready in one place
IDLE = 16  #: processes of tenants that are held ready, though nobody uses them


class Ran(NamedTuple):
    """Outputs by name, kernels that were compiled for them, and slots that were used."""

    outputs: Tensors
    compiled: int
    slots: int = 1


class Ready(Protocol):
    """Holds programs ready, for one thread at a time."""

    def has(self, root: bytes) -> bool:
        """Whether a program is ready."""

    def run(self, work: Work, tensors: Tensors, variables: Mapping[str, int]) -> Ran:
        """What comes of a program. Raises what the execution raises."""

    def close(self) -> None:
        """Ends what it holds."""


class Trusted:
    """Programs that are compiled in this process. One whose signals say where its calls are computed is shared out,
    with the same bits, among as many threads as the worker has slots, each of which holds its part alone."""

    def __init__(self, device: str, threads: int, slots: int) -> None:
        self._device, self._threads = device, threads
        self._slots = slots if device.partition(":")[0] in ("CPU", devices.REFERENCE) else 1
        self._graphs: OrderedDict[tuple[bytes, tuple[Hint | None, ...]], CompiledGraph | Sharded] = OrderedDict()

    def has(self, root: bytes) -> bool:
        """As `Ready.has`."""
        return any(key[0] == root for key in self._graphs)

    def run(self, work: Work, tensors: Tensors, variables: Mapping[str, int]) -> Ran:
        """As `Ready.run`."""
        hints, compiled = work.hints(self._slots), 0
        graph = self._graphs.get((work.root, hints))
        if graph is None and hints:
            graph = Sharded(work.program, workers=self._slots, hints=hints, device=self._device, threads=self._threads)
        elif graph is None:
            graph = CompiledGraph(work.program, device=self._device, threads=self._threads)
            compiled = graph.compiled
        self._graphs[work.root, hints] = graph
        self._graphs.move_to_end((work.root, hints))
        if len(self._graphs) > READY:
            self._graphs.popitem(last=False)
        return Ran(graph.run(tensors, variables).outputs, compiled, self._slots if hints else 1)

    def close(self) -> None:
        """Forgets them."""
        self._graphs.clear()


class Confined:
    """Programs of one tenant in a sandboxed process of their own, each on one slot."""

    def __init__(self, device: str, threads: int, slots: int) -> None:
        self._tenant = Tenant(replace(confined.limits(MEMORY, SECONDS), threads=threads), device=device)

    def has(self, root: bytes) -> bool:
        """As `Ready.has`: all of a tenant's."""
        return True

    def run(self, work: Work, tensors: Tensors, variables: Mapping[str, int]) -> Ran:
        """As `Ready.run`; kernels are compiled outside of the process, and do not count."""
        return Ran(self._tenant.run(work.root, work.program, tensors, variables, seconds=SECONDS).outputs, 0)

    def close(self) -> None:
        """Ends the process."""
        self._tenant.close()


class Programs:
    """What executes programs for the slots of a worker. Safe for several threads.

    A tenant is whoever may share what is ready: a session, or all of them where everybody is trusted. Each has as many
    as it uses at a time; those that were not used for longest are ended, where there are more than may be.
    """

    def __init__(self, *, is_trusting: bool, device: str | None = None, slots: int = 1, idle: int = IDLE) -> None:
        self.is_trusting, self.device = is_trusting, device or devices.default(confined=not is_trusting)
        self._threads = max(1, (os.cpu_count() or 1) // slots)
        self._slots = slots
        self._make: Callable[[str, int, int], Ready] = Trusted if is_trusting else Confined
        self._most = max(idle, slots)
        self._lock, self._idle = threading.Lock(), list[tuple[int | None, Ready]]()
        self._over: set[int | None] = set()  # sessions

    def run(self, work: Work, tensors: Tensors, variables: Mapping[str, int]) -> Ran:
        """As `Ready.run`, by what is the tenant's."""
        tenant = None if self.is_trusting else work.session
        ready = self._taken(tenant, work.root) or self._make(self.device, self._threads, self._slots)
        try:
            return ready.run(work, tensors, variables)
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
            return CompiledGraph(program, device=self.device, threads=self._threads).run(tensors)
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
