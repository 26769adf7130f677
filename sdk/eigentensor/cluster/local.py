"""A session that executes in this process, so that the first result comes soon: the reference computes what is small
and new, what comes again is compiled beside it. All of them give the same bits, so nobody sees which one it was."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock, Thread
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.cluster.executions import Execution, on_device, on_workers, soonest
from eigentensor.cluster.session import NOTHING, PROGRAMS, Stats, WorkerStats, check_inputs_alone
from eigentensor.cluster.tiers import Tier, Tiers, evaluations
from eigentensor.errors import BindingError, EigenTensorError, ExecutionError
from eigentensor.latest import Latest
from eigentensor.merkle import program_root
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.codec import encode
from eigentensor.program.fitting import check_variables
from eigentensor.program.model import Body, Program, Role
from eigentensor.runtime.memory.plan import HOST

if TYPE_CHECKING:
    from eigentensor.sharding.layout import Place
    from eigentensor.sharding.signals import Signals

#: Compiled programs that are held ready; others are read from the disk again.
READY = 256
Values = NDArray[Any]


@dataclass(slots=True)
class _Defined:
    """A program as a session knows it. `soonest` executes it until `execute` does, which is the compiled one; `places`
    are those of its calls, where they are on several workers."""

    program: Program
    inputs: Mapping[str, int]  #: numbers of buffers
    constants: Mapping[int, Values]
    heavy: frozenset[Body]
    signals: Mapping[int, str]
    sights: int = 0
    soonest: Execution | None = None
    execute: Execution | None = None
    places: "tuple[Place, ...]" = ()
    compiler: Thread | None = None
    failed: Exception | None = None
    lock: Any = field(default_factory=RLock)

    def forget(self) -> None:
        """What was compiled is for places that no longer hold."""
        self.soonest = self.execute = self.compiler = self.failed = None


class LocalSession:
    """A session in this process; `run` executes before it returns. Raises ExecutionError once it is closed.

    `device` and `threads` as for `CompiledGraph`; on another device than the default everything is compiled at once.
    With several `workers` what is compiled is shared out among so many, each a thread that holds its part alone: where
    signals say, else where that is cheapest.
    """

    def __init__(
        self, *, device: str | None = None, threads: int | None = None, workers: int = 1, tiers: Tiers | None = None
    ) -> None:
        self.device, self.threads, self.workers = device, threads, workers
        self.tiers = tiers or (Tiers() if device is None else Tiers(most=-1))
        self._lock = RLock()
        self._programs: Latest[bytes, _Defined] = Latest(PROGRAMS)
        self._tensors: dict[int, Values | EigenTensorError] = {}
        self._known: Signals | None = None
        self._is_closed = False
        self._runs = self._compiled = 0
        self._made = 0  #: programs compiled since some were forgotten
        self._seconds = 0.0

    def define(self, program: Program, signals: Mapping[int, str] = NOTHING) -> bytes:
        """As the protocol says."""
        check_inputs_alone(program)
        root = program_root(encode(program))
        with self._lock:
            self._refuse_closed()
            if known := self._programs.use(root):
                if known.signals != signals:
                    known.signals = signals
                    self._placed_anew(known)
            else:
                numbered = list(enumerate(program.buffers))
                constants = {
                    n: np.frombuffer(b.data, STORAGE[b.dtype].newbyteorder("<"))
                    for n, b in numbered
                    if b.role is Role.CONSTANT
                }
                inputs = {b.name: n for n, b in numbered if b.role is Role.INPUT}
                heavy = self.tiers.heavy(evaluations(program))
                self._programs[root] = _Defined(program, inputs, constants, heavy, signals)
        return root

    def has(self, root: bytes) -> bool:
        """As the protocol says."""
        return root in self._programs

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
            except OSError as error:  # no room for what is compiled, say
                failed = ExecutionError(f"this machine cannot execute: {error}")
                self._tensors.update(dict.fromkeys(outputs.values(), failed))
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
        """As the protocol says: what is compiled at its first sight, and where it is on several workers. Raises
        ConfigError, with the line, for a text that is no configuration."""
        from eigentensor.sharding.signals import parse  # few have any

        known = parse(signals)
        with self._lock:
            self._refuse_closed()
            self._known = known
            for defined in self._programs.values():
                self._placed_anew(defined)

    def stats(self) -> Stats:
        """As the protocol says. Workers take part in each run, for all of its time."""
        with self._lock:
            self._refuse_closed()
            held = sum(t.nbytes for t in self._tensors.values() if not isinstance(t, EigenTensorError))
            names = ["local"] if self.workers == 1 else [f"worker {number}" for number in range(self.workers)]
            workers = tuple(WorkerStats(name, self._runs, self._seconds) for name in names)
            return Stats(len(self._tensors), held, len(self._programs), self._runs, self._compiled, workers)

    def places(self, root: bytes) -> "tuple[Place, ...]":
        """Where each call of a program is computed, if there are several workers and it was compiled; else nothing."""
        with self._lock:
            return self._defined(root).places

    def close(self) -> None:
        """As the protocol says."""
        with self._lock:
            self._is_closed = True
            self._programs.clear()
            self._tensors = {}

    def prepare(self, root: bytes) -> None:
        """As `Preparing` says."""
        with self._lock:
            self._refuse_closed()
            defined = self._defined(root)
        self._compile(defined)
        if defined.failed is not None:
            raise defined.failed

    def _placed_anew(self, defined: _Defined) -> None:
        if self.workers > 1:
            defined.forget()

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise ExecutionError("this session is closed", fix="Open another one.")

    def _defined(self, root: bytes) -> _Defined:
        defined = self._programs.use(root)
        if defined is None:
            raise BindingError(f"no program {root.hex()[:10]}… is defined in this session", fix="Define it first.")
        return defined

    def _executed(
        self, root: bytes, inputs: Mapping[str, int], outputs: Mapping[str, int], variables: Mapping[str, int]
    ) -> dict[int, Values]:
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
        if variables or defined.program.variables:
            check_variables(defined.program, variables, 1)
        results = {handle: defined.program.outputs[name] for name, handle in outputs.items()}
        defined.sights += 1
        start = time.perf_counter()
        try:
            return self._execution(defined)(arrays, variables, results)
        finally:
            self._seconds += time.perf_counter() - start

    def _execution(self, defined: _Defined) -> Execution:
        """What executes a program this time. Raises what hinders it from being compiled, if it must be."""
        if defined.execute is None:
            at_once = self._is_at_once(defined)
            tier = self.tiers.of(len(defined.program.bodies), len(defined.heavy), defined.sights, at_once=at_once)
            if tier is Tier.BOTH and defined.compiler is None:
                defined.compiler = Thread(target=self._compile, args=[defined], name="segment compiler", daemon=True)
                defined.compiler.start()
            if tier is not Tier.COMPILED and defined.failed is None:
                if defined.soonest is None:
                    defined.soonest = soonest(defined.program, defined.constants, defined.heavy, self.threads)
                return defined.soonest
            self._compile(defined)
        if defined.failed is not None:
            raise defined.failed
        execute = defined.execute
        assert execute is not None
        self._let_go()
        return execute

    def _let_go(self) -> None:
        """Forgets what was compiled and not used for longest, if that is much."""
        if self._made > READY:
            ready = [defined for defined in self._programs.values() if defined.execute is not None]
            for defined in ready[: len(ready) - READY * 3 // 4]:
                defined.forget()
            self._made = min(len(ready), READY * 3 // 4)

    def _is_at_once(self, defined: _Defined) -> bool:
        """Whether a signal says so, or heavy bodies are for something else than one processor."""
        known = self._known.by_name if self._known else {}
        if any(name in known and known[name].compile for name in defined.signals.values()):
            return True
        return bool(defined.heavy) and (self.workers > 1 or self._device() != HOST)

    def _device(self) -> str:
        from eigentensor.runtime import devices  # what is only interpreted waits for no device

        return self.device or devices.default()

    def _compile(self, defined: _Defined) -> None:
        """Makes the compiled program, or keeps what hinders it."""
        with defined.lock:
            while defined.execute is None and defined.failed is None:
                said = self._known, defined.signals
                try:
                    execute = self._on_workers(defined) if self.workers > 1 else self._on_device(defined)
                except Exception as error:  # whoever runs it next is told, on whatever thread this was
                    defined.failed = error
                    return
                self._made += 1
                if self.workers == 1 or said == (self._known, defined.signals):  # else places are no longer those
                    defined.execute = execute
                    defined.soonest = None

    def _on_device(self, defined: _Defined) -> Execution:
        from eigentensor.cache import Cache, default_folder
        from eigentensor.runtime import devices

        loaded = devices.load(defined.program, self._device(), Cache(default_folder()), threads=self.threads)
        loaded.bind(dict(defined.constants))
        self._compiled += loaded.compiled
        return on_device(loaded, defined.program)

    def _on_workers(self, defined: _Defined) -> Execution:
        from eigentensor.runtime import Sharded

        program, threads = defined.program, self.threads or 1
        hints = self._known.hints(defined.signals, len(program.calls), range(self.workers)) if self._known else ()
        sharded = Sharded(program, workers=self.workers, hints=hints, device=self._device(), threads=threads)
        defined.places = sharded.plan.places
        return on_workers(sharded, defined.inputs)
