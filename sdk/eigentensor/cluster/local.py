"""A session that executes in this process, so that the first result comes soon: the reference computes what is small
and new, what comes again is compiled beside it. All of them give the same bits, so nobody sees which one it was."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from threading import RLock, Thread
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eigentensor import reference
from eigentensor.cluster.session import NOTHING, Stats, WorkerStats, check_inputs_alone
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
    from eigentensor.sharding.layout import Place
    from eigentensor.sharding.signals import Signals

#: Compiled programs that are held ready; others are read from the disk again.
READY = 256
Values = NDArray[Any]
#: Gives results of a program, by any key, on flat inputs by number of buffer and values of variables.
Execution = Callable[[Mapping[int, Values], Mapping[str, int], Mapping[int, Result]], dict[int, Values]]


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
    """A program as a session knows it. `execute` is the compiled one, once there is one, and `places` those of its
    calls, where they are on several workers."""

    program: Program
    inputs: Mapping[str, int]  #: numbers of buffers
    constants: Mapping[int, Values]
    evaluations: int
    signals: Mapping[int, str]
    sights: int = 0
    execute: Execution | None = None
    places: "tuple[Place, ...]" = ()
    compiler: Thread | None = None
    failed: EigenTensorError | None = None
    lock: Any = field(default_factory=RLock)

    def forget(self) -> None:
        """What was compiled is for places that no longer hold."""
        self.execute = self.compiler = self.failed = None


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
        self._programs: OrderedDict[bytes, _Defined] = OrderedDict()  #: the last one used is the last
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
            if known := self._programs.get(root):
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
            self._programs, self._tensors = OrderedDict(), {}

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
        defined = self._programs.get(root)
        if defined is None:
            raise BindingError(f"no program {root.hex()[:10]}… is defined in this session", fix="Define it first.")
        return defined

    def _executed(
        self, root: bytes, inputs: Mapping[str, int], outputs: Mapping[str, int], variables: Mapping[str, int]
    ) -> dict[int, Values]:
        defined = self._defined(root)
        self._programs.move_to_end(root)
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
            tier = self.tiers.of(defined.evaluations, defined.sights, at_once=self._is_at_once(defined))
            if tier is Tier.BOTH and defined.compiler is None:
                defined.compiler = Thread(target=self._compile, args=[defined], name="segment compiler", daemon=True)
                defined.compiler.start()
            if tier is not Tier.COMPILED:
                return partial(_interpreted, defined)
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
        known = self._known.by_name if self._known else {}
        return any(name in known and known[name].compile for name in defined.signals.values())

    def _compile(self, defined: _Defined) -> None:
        """Makes the compiled program, or keeps what hinders it."""
        with defined.lock:
            while defined.execute is None and defined.failed is None:
                said = self._known, defined.signals
                try:
                    execute = self._on_workers(defined) if self.workers > 1 else self._on_device(defined)
                except EigenTensorError as error:
                    defined.failed = error
                    return
                self._made += 1
                if self.workers == 1 or said == (self._known, defined.signals):  # else places are no longer those
                    defined.execute = execute

    def _on_device(self, defined: _Defined) -> Execution:
        from eigentensor.cache import Cache, default_folder  # what is only interpreted waits for no device
        from eigentensor.runtime import devices

        program, device = defined.program, self.device or devices.default()
        loaded = devices.load(program, device, Cache(default_folder()), threads=self.threads)
        loaded.bind(dict(defined.constants))
        self._compiled += loaded.compiled

        def execute(
            arrays: Mapping[int, Values], variables: Mapping[str, int], results: Mapping[int, Result]
        ) -> dict[int, Values]:
            loaded.run(arrays, [iteration_values(program, variables)])
            return {key: loaded.read(result) for key, result in results.items()}

        return execute

    def _on_workers(self, defined: _Defined) -> Execution:
        from eigentensor.runtime import Sharded, devices

        program, device = defined.program, self.device or devices.default()
        hints = self._known.hints(defined.signals, len(program.calls), range(self.workers)) if self._known else ()
        sharded = Sharded(program, workers=self.workers, hints=hints, device=device, threads=self.threads or 1)
        defined.places = sharded.plan.places

        def execute(
            arrays: Mapping[int, Values], variables: Mapping[str, int], results: Mapping[int, Result]
        ) -> dict[int, Values]:
            given = {name: arrays[n].reshape(program.buffers[n].shape) for name, n in defined.inputs.items()}
            outputs = sharded.run(given, variables).outputs
            return {key: outputs[result.name] for key, result in results.items()}

        return execute


def _interpreted(
    defined: _Defined, arrays: Mapping[int, Values], variables: Mapping[str, int], results: Mapping[int, Result]
) -> dict[int, Values]:
    reference.check_arithmetic()
    known = {**arrays, **defined.constants}
    written = [known[number] for number in range(len(known))]
    written += reference.calls(defined.program, written, iteration_values(defined.program, variables))
    return {key: written[result.buffer].reshape(result.shape) for key, result in results.items()}
