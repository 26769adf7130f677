"""What a deployment for this machine does beside everything else: kernels are compiled, so that the service finds them
in the cache, and weights are written while their programs are captured."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from types import TracebackType
from typing import Any

from numpy.typing import NDArray

from eigentensor.cache import Cache, default_folder
from eigentensor.errors import EigenTensorError
from eigentensor.numerics.dtypes import DType
from eigentensor.program import Program, Role
from eigentensor.store import LocalStore
from eigentensor.store.tensors import parts as parts_of
from eigentensor_serve.apps.deployment import Parts

Arrays = Mapping[str, NDArray[Any]]


class Ahead:
    """Compiles for a processor, one program after the other, and is done when its block ends; a block that ends with an
    error waits for nothing but the end of what is being written. What cannot be compiled is for the service to tell,
    what cannot be written for who writes it then."""

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self._waiting = SimpleQueue[Program | None]()
        self._compiling: Thread | None = None
        self._writing: _Writing | None = None

    def __enter__(self) -> "Ahead":
        return self

    def program(self, program: Program) -> None:
        """Compiles a program when those before it are compiled."""
        self._waiting.put(program)
        if self._compiling is None:
            self._compiling = Thread(target=self._compile, name="ahead", daemon=True)
            self._compiling.start()

    def weights(self, tensors: Arrays, dtypes: Mapping[str, DType]) -> None:
        """Begins to put weights into the store."""
        self._writing = _Writing(self._store, tensors, dtypes)
        self._writing.start()

    def kept(self, parts: Parts) -> Parts:
        """The parts, with weights by their root if they are in the store now."""
        expected = {name: buffer.dtype for name, buffer in parts.program.named(Role.WEIGHT).items()}
        writing = self._writing
        if writing is None or isinstance(parts.weights, bytes) or writing.dtypes != expected:
            return parts
        if any(array is not writing.tensors[name] for name, array in parts.weights.items()):
            return parts
        root = writing.root()
        return parts if root is None else replace(parts, weights=root)

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        self._waiting.put(None)
        if self._compiling is not None and kind is None:
            self._compiling.join()
        if self._writing is not None:
            self._writing.end()

    def _compile(self) -> None:
        from eigentensor.runtime import devices  # with tinygrad

        cache = Cache(default_folder())
        while (program := self._waiting.get()) is not None:
            with suppress(EigenTensorError, OSError):
                devices.compiled(program, "CPU", cache)


class _Writing:
    """Some weights on their way into a store."""

    def __init__(self, store: LocalStore, tensors: Arrays, dtypes: Mapping[str, DType]) -> None:
        self.tensors, self.dtypes = dict(tensors), dict(dtypes)
        self._store, self._over = store, Event()
        self._root: bytes | None = None
        self._thread = Thread(target=self._put, name="weights", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def root(self) -> bytes | None:
        """Their root, when they are there; None if they could not be written."""
        self._thread.join()
        return self._root

    def end(self) -> None:
        """Leaves nothing behind that is not whole."""
        self._over.set()
        self._thread.join()

    def _put(self) -> None:
        with suppress(EigenTensorError, OSError):
            names = self._store.names(self._store.put(self._written))
            self._root = bytes.fromhex(names.computed or "") or None

    def _written(self, path: Path) -> None:
        with path.open("wb") as file:
            for part in parts_of(self.tensors, self.dtypes):
                if self._over.is_set():
                    raise OSError("nobody wants them any more")
                file.write(part)
