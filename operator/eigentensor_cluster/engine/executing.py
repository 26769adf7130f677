"""Programs as a slot executes them: compiled in this process where all clients are trusted, else each in a sandbox."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from numpy.typing import NDArray

from eigentensor.program.binding import Results
from eigentensor.program.codec import encode
from eigentensor.program.model import Program
from eigentensor.reexecution import confined
from eigentensor.runtime import devices, selftest
from eigentensor.runtime.compiled import CompiledGraph
from eigentensor.runtime.sandbox.execution import run_sandboxed
from eigentensor.runtime.sandbox.warm import WarmProgram

Tensors = Mapping[str, NDArray[Any]]

SECONDS = 300.0  #: that one execution of a stranger's program may take
MEMORY = 8 << 30  #: bytes for the buffers of one
READY = 16  #: programs that a worker holds ready


class Ready(Protocol):
    """A program that can be executed at once, for one thread at a time."""

    compiled: int  #: kernels that were not in the cache

    def run(self, tensors: Tensors, variables: Mapping[str, int]) -> Tensors:
        """Its outputs, by name."""

    def close(self) -> None:
        """Ends what it holds."""


class Trusted:
    """A program that is compiled in this process."""

    def __init__(self, program: Program, device: str, threads: int) -> None:
        self._graph = CompiledGraph(program, device=device, threads=threads)
        self.compiled = self._graph.compiled

    def run(self, tensors: Tensors, variables: Mapping[str, int]) -> Tensors:
        """As `Ready.run`."""
        return self._graph.run(tensors, variables).outputs

    def close(self) -> None:
        """Nothing is held beside memory."""


class Confined:
    """A stranger's program in a sandboxed child of its own, which sees the tensors of this program's runs alone."""

    def __init__(self, program: Program, device: str, threads: int) -> None:
        limits = replace(confined.limits(MEMORY, SECONDS), threads=threads)
        self._warm, self.compiled = WarmProgram(program, limits=limits, device=device), 0
        self._warm.warm()

    def run(self, tensors: Tensors, variables: Mapping[str, int]) -> Tensors:
        """As `Ready.run`."""
        return self._warm.run(tensors, variables, seconds=SECONDS).results.outputs

    def close(self) -> None:
        """Ends the child."""
        self._warm.close()


class Programs:
    """Programs that are held ready for the slots of a worker. Safe for several threads.

    A tenant is whoever may share what is ready: a session, or all of them where everybody is trusted.
    """

    def __init__(self, *, is_trusting: bool, device: str | None = None, slots: int = 1, ready: int = READY) -> None:
        self.is_trusting, self.device = is_trusting, device or devices.default(confined=not is_trusting)
        self._threads = max(1, (os.cpu_count() or 1) // slots)
        self._make: Callable[[Program, str, int], Ready] = Trusted if is_trusting else Confined
        self._most = max(ready, slots)
        self._lock, self._idle = threading.Lock(), OrderedDict[int, tuple[Hashable, bytes, Ready]]()

    def run(
        self, session: int, root: bytes, program: Program, tensors: Tensors, variables: Mapping[str, int]
    ) -> tuple[Tensors, int]:
        """The outputs of a program, and how many kernels were compiled for it. Raises what the execution raises."""
        tenant = None if self.is_trusting else session
        ready, compiled = self._taken(tenant, root), 0
        if ready is None:
            ready = self._make(program, self.device, self._threads)
            compiled = ready.compiled
        try:
            outputs = ready.run(tensors, variables)
        except BaseException:
            ready.close()
            raise
        self._give(tenant, root, ready)
        return outputs, compiled

    def end(self, session: int) -> None:
        """Ends what is ready for a session alone."""
        self._close([key for key, (tenant, _, _) in self._all() if tenant == session])

    def close(self) -> None:
        """Ends all."""
        self._close([key for key, _ in self._all()])

    def check(self) -> None:
        """Holds the device to the reference, as programs are executed here. Raises ExecutionError unless every bit is
        right."""
        selftest.check(self._conforming)

    def _conforming(self, program: Program, tensors: dict[str, NDArray[Any]]) -> Results:
        if self.is_trusting:
            return CompiledGraph(program, device=self.device, threads=self._threads).run(tensors)
        limits = confined.limits(MEMORY, SECONDS)
        return run_sandboxed(encode(program), tensors, limits=limits, device=self.device)

    def _all(self) -> list[tuple[int, tuple[Hashable, bytes, Ready]]]:
        with self._lock:
            return list(self._idle.items())

    def _taken(self, tenant: Hashable, root: bytes) -> Ready | None:
        with self._lock:
            for key, (whose, which, _) in reversed(self._idle.items()):
                if (whose, which) == (tenant, root):
                    return self._idle.pop(key)[2]
        return None

    def _give(self, tenant: Hashable, root: bytes, ready: Ready) -> None:
        with self._lock:
            self._idle[id(ready)] = (tenant, root, ready)
            over = [key for key, _ in zip(self._idle, range(len(self._idle) - self._most), strict=False)]
        self._close(over)

    def _close(self, keys: list[int]) -> None:
        for key in keys:
            with self._lock:
                one = self._idle.pop(key, None)
            if one is not None:
                one[2].close()
