"""A session that executes in this process, so that the first result comes soon: the reference computes what is small
and new, what comes again is compiled beside it. All of them give the same bits, so nobody sees which one it was."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from threading import RLock, Thread
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eigentensor import reference
from eigentensor.cluster.session import NOTHING, Stats, WorkerStats
from eigentensor.errors import BindingError, EigenTensorError, ExecutionError
from eigentensor.merkle import program_root
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.binding import iteration_values
from eigentensor.program.codec import encode
from eigentensor.program.cost import costs
from eigentensor.program.fitting import check_variables
from eigentensor.program.model import Program, Result, Role

if TYPE_CHECKING:
    from eigentensor.runtime.devices import Loaded


class Tier(Enum):
    """What executes a program: `BOTH` is the reference while the program is being compiled beside it."""

    REFERENCE = "reference"
    BOTH = "both"
    COMPILED = "compiled"


@dataclass(frozen=True, slots=True)
class Tiers:
    """When a program is compiled: at its `sight`-th run, or at its first if it has more than `most` evaluations."""

    most: int = 2_000_000
    sight: int = 3

    def of(self, evaluations: int, sight: int, *, at_once: bool) -> Tier:
        """The tier of a program's run, the first of which is sight 1; with `at_once` it is to be compiled anyway."""
        if at_once or evaluations > self.most:
            return Tier.COMPILED
        return Tier.BOTH if sight >= self.sight else Tier.REFERENCE


@dataclass(slots=True)
class _Defined:
    """A program as a session knows it. `loaded` is the compiled one, once there is one."""

    program: Program
    inputs: Mapping[str, int]  #: numbers of buffers
    constants: Mapping[int, NDArray[Any]]
    evaluations: int
    signals: Mapping[int, str]
    sights: int = 0
    loaded: "Loaded | None" = None
    compiler: Thread | None = None
    failed: EigenTensorError | None = None
    lock: Any = field(default_factory=RLock)


class LocalSession:
    """A session in this process; `run` executes before it returns. Raises ExecutionError once it is closed.

    `device` and `threads` as for `CompiledGraph`; on another device than the default everything is compiled at once.
    """

    def __init__(self, *, device: str | None = None, threads: int | None = None, tiers: Tiers | None = None) -> None:
        self.device, self.threads = device, threads
        self.tiers = tiers or (Tiers() if device is None else Tiers(most=-1))
        self._lock = RLock()
        self._programs: dict[bytes, _Defined] = {}
        self._tensors: dict[int, NDArray[Any] | EigenTensorError] = {}
        self._compile_at_once: frozenset[str] = frozenset()
        self._is_closed = False
        self._runs = self._compiled = 0
        self._seconds = 0.0

    def define(self, program: Program, signals: Mapping[int, str] = NOTHING) -> bytes:
        """As the protocol says."""
        if named := [b.name for b in program.buffers if b.role in (Role.WEIGHT, Role.STATE)]:
            raise BindingError(
                f"a session takes programs of inputs and outputs; this one has {', '.join(named)} beside them",
                fix="Make them inputs.",
            )
        root = program_root(encode(program))
        with self._lock:
            self._refuse_closed()
            if root in self._programs:
                self._programs[root].signals = signals
            else:
                numbered = list(enumerate(program.buffers))
                constants = {
                    n: np.frombuffer(b.data, STORAGE[b.dtype].newbyteorder("<"))
                    for n, b in numbered
                    if b.role is Role.CONSTANT
                }
                inputs = {b.name: n for n, b in numbered if b.role is Role.INPUT}
                self._programs[root] = _Defined(program, inputs, constants, costs(program).evaluations, signals)
        return root

    def put(self, handle: int, value: NDArray[Any], dtype: DType) -> None:
        """As the protocol says."""
        if value.dtype != STORAGE[dtype]:
            raise BindingError(f"a tensor of {dtype.name.lower()} is given as {value.dtype}")
        with self._lock:
            self._refuse_closed()
            self._tensors[handle] = np.ascontiguousarray(value).reshape(value.shape)

    def run(
        self,
        root: bytes,
        inputs: Mapping[str, int],
        outputs: Mapping[str, int],
        variables: Mapping[str, int] = NOTHING,
        freed: Sequence[int] = (),
    ) -> None:
        """As the protocol says: what fails is kept for whoever asks for an output."""
        with self._lock:
            self._refuse_closed()
            try:
                self._tensors.update(self._executed(root, inputs, outputs, variables))
            except EigenTensorError as error:
                self._tensors.update(dict.fromkeys(outputs.values(), error))
            self._runs += 1
            self.free(freed)

    def get(self, handle: int) -> NDArray[Any]:
        """As the protocol says."""
        with self._lock:
            self._refuse_closed()
            tensor = self._tensors.get(handle)
        if tensor is None:
            raise BindingError(f"there is no tensor {handle} in this session", fix="It was freed, or never made.")
        if isinstance(tensor, EigenTensorError):
            raise tensor
        return tensor

    def free(self, handles: Sequence[int]) -> None:
        """As the protocol says."""
        with self._lock:
            for handle in handles:
                self._tensors.pop(handle, None)

    def configure(self, signals: str) -> None:
        """As the protocol says: here they say only what is compiled at its first sight. Raises ConfigError, with the
        line, for a text that is no configuration."""
        from eigentensor.sharding.signals import parse  # few have any

        known = parse(signals)
        with self._lock:
            self._refuse_closed()
            self._compile_at_once = frozenset(name for name, of in known.by_name.items() if of.compile)

    def stats(self) -> Stats:
        """As the protocol says; there is one worker, this process."""
        with self._lock:
            self._refuse_closed()
            held = sum(t.nbytes for t in self._tensors.values() if not isinstance(t, EigenTensorError))
            worker = WorkerStats("local", self._runs, self._seconds)
            return Stats(len(self._tensors), held, len(self._programs), self._runs, self._compiled, (worker,))

    def close(self) -> None:
        """As the protocol says."""
        with self._lock:
            self._is_closed = True
            self._programs, self._tensors = {}, {}

    def prepare(self, root: bytes) -> None:
        """As `Preparing` says."""
        with self._lock:
            self._refuse_closed()
            defined = self._defined(root)
        self._compile(defined)
        if defined.failed is not None:
            raise defined.failed

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise ExecutionError("this session is closed", fix="Open another one.")

    def _defined(self, root: bytes) -> _Defined:
        defined = self._programs.get(root)
        if defined is None:
            raise BindingError(f"no program {root.hex()[:10]}… is defined in this session", fix="Define it first.")
        return defined

    def _executed(
        self, root: bytes, inputs: Mapping[str, int], outputs: Mapping[str, int], variables: Mapping[str, int]
    ) -> dict[int, NDArray[Any]]:
        defined = self._defined(root)
        arrays = {}
        for name, number in defined.inputs.items():
            tensor = self._tensors.get(inputs.get(name, 0))
            if isinstance(tensor, EigenTensorError):
                raise tensor
            buffer = defined.program.buffers[number]
            if tensor is None or tensor.shape != buffer.shape or tensor.dtype != STORAGE[buffer.dtype]:
                what = "nothing" if tensor is None else f"{tensor.dtype} of shape {tensor.shape}"
                raise BindingError(
                    f"input {name!r}: expected {buffer.dtype.name.lower()} of shape {buffer.shape}, given {what}"
                )
            arrays[number] = tensor.reshape(-1)
        check_variables(defined.program, variables, 1)
        values = iteration_values(defined.program, variables)
        defined.sights += 1
        start = time.perf_counter()
        try:
            return self._by_tier(defined, arrays, outputs, values)
        finally:
            self._seconds += time.perf_counter() - start

    def _by_tier(
        self,
        defined: _Defined,
        arrays: dict[int, NDArray[Any]],
        outputs: Mapping[str, int],
        values: tuple[int, ...],
    ) -> dict[int, NDArray[Any]]:
        results = {handle: defined.program.outputs[name] for name, handle in outputs.items()}
        if defined.loaded is None:
            at_once = not self._compile_at_once.isdisjoint(defined.signals.values())
            tier = self.tiers.of(defined.evaluations, defined.sights, at_once=at_once)
            if tier is Tier.BOTH and defined.compiler is None:
                defined.compiler = Thread(target=self._compile, args=[defined], name="segment compiler", daemon=True)
                defined.compiler.start()
            if tier is not Tier.COMPILED:
                return _interpreted(defined, arrays, results, values)
            self._compile(defined)
        if defined.failed is not None:
            raise defined.failed
        loaded = defined.loaded
        assert loaded is not None
        loaded.run(arrays, [values])
        return {handle: loaded.read(result) for handle, result in results.items()}

    def _compile(self, defined: _Defined) -> None:
        """Makes the compiled program, or keeps what hinders it."""
        from eigentensor.cache import Cache, default_folder  # what is only interpreted waits for no device
        from eigentensor.runtime import devices

        with defined.lock:
            if defined.loaded is not None or defined.failed is not None:
                return
            try:
                device = self.device or devices.default()
                loaded = devices.load(defined.program, device, Cache(default_folder()), threads=self.threads)
                loaded.bind(dict(defined.constants))
            except EigenTensorError as error:
                defined.failed = error
                return
            self._compiled += loaded.compiled
            defined.loaded = loaded


def _interpreted(
    defined: _Defined, arrays: Mapping[int, NDArray[Any]], results: Mapping[int, Result], values: tuple[int, ...]
) -> dict[int, NDArray[Any]]:
    reference.check_arithmetic()
    known = {**arrays, **defined.constants}
    written = [known[number] for number in range(len(known))]
    written += reference.calls(defined.program, written, values)
    return {handle: written[result.buffer].reshape(result.shape) for handle, result in results.items()}
