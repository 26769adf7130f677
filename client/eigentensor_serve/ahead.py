"""Kernels of what is deployed for this machine, compiled beside everything else that a deployment does: the service
finds them in the cache."""

from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from types import TracebackType

from eigentensor.cache import Cache, default_folder
from eigentensor.errors import EigenTensorError
from eigentensor.program import Program


class Ahead:
    """Compiles for a processor, one program after the other, and is done when its block ends; a block that ends with an
    error waits for nothing. What cannot be compiled is for the service to tell."""

    def __init__(self) -> None:
        self._waiting = SimpleQueue[Program | None]()
        self._thread: Thread | None = None

    def __enter__(self) -> "Ahead":
        return self

    def __call__(self, program: Program) -> None:
        """Compiles a program when those before it are compiled."""
        self._waiting.put(program)
        if self._thread is None:
            self._thread = Thread(target=self._work, name="ahead", daemon=True)
            self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        self._waiting.put(None)
        if self._thread is not None and kind is None:
            self._thread.join()

    def _work(self) -> None:
        from eigentensor.runtime import devices  # with tinygrad

        cache = Cache(default_folder())
        while (program := self._waiting.get()) is not None:
            with suppress(EigenTensorError, OSError):
                devices.compiled(program, "CPU", cache)
