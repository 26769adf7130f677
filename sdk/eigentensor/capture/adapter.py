"""tinygrad at arm's length: what it would run is recorded instead, under settings that no environment can change."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from threading import RLock, current_thread, main_thread
from typing import Any, NamedTuple, cast

import numpy as np
import tinygrad.schedule as schedule_module
import tinygrad.tensor as tensor_module
from tinygrad import Device, Tensor
from tinygrad.device import Buffer
from tinygrad.engine import realize
from tinygrad.engine.jit import _TinyJit
from tinygrad.function import _function
from tinygrad.helpers import CACHELEVEL, Context, Metadata
from tinygrad.tensor import all_tensors
from tinygrad.uop.ops import GroupOp, Ops, PatternMatcher, UOp, UPat, buffers, graph_rewrite, python_alu

from eigentensor import clang
from eigentensor.capture import relocation, unseen
from eigentensor.capture.lines import raised_at, user_line
from eigentensor.capture.relocation import Relocation, is_host
from eigentensor.errors import CaptureError, EigenTensorError
from eigentensor.system import held_over_forks

TINYGRAD = "0.14.0"
DEVICE = relocation.DEVICE
#: Held by whoever computes with tinygrad, whose state is global, while other threads may record.
LOCK = RLock()
held_over_forks(LOCK)
_SETTINGS: dict[str, Any] = {
    "DEV": DEVICE, "SPLIT_REDUCEOP": 0, "SCACHE": 1, "CAPTURING": 1, "TRACEMETA": 1,
    "BEAM": 0, "NOOPT": 0, "IMAGE": 0, "FLOAT16": 0, "OPENPILOT_HACKS": 0, "WINO": 0, "TRANSCENDENTAL": 1, "PCONTIG": 0,
    "MAX_KERNEL_BUFFERS": 0, "FUSE_OPTIM": 0, "DEFAULT_FLOAT": "float32", "DEFAULT_INT": "int32", "TUPLE_ORDER": 1,
    "DISALLOW_BROADCAST": 0, "EMULATED_DTYPES": "", "USE_ATOMICS": 0, "DEBUG": 0, "DEBUG_RANGEIFY": 0,
}  # fmt: skip


def require_release(installed: str) -> None:
    """Raises CaptureError for a tinygrad whose inside this module does not know."""
    if installed != TINYGRAD:
        raise CaptureError(f"tinygrad {installed} is installed", fix=f"pip install tinygrad=={TINYGRAD}")


require_release(version("tinygrad"))
if (_clang := clang.path()) is None:
    from eigentensor.capture.processor import stand_in

    stand_in()
elif "clang" not in os.environ.get("CC", "clang" if Path(_clang).name == "clang" else ""):
    os.environ["CC"] = _clang  # tinygrad knows no names with a release, and what others mean by CC may be gcc


def _quotient(a: float, b: float) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.divide(np.float64(a), np.float64(b)))


python_alu.setdefault(Ops.FDIV, _quotient)  # tinygrad computes what is constant, and does not know this one


class RecordedCall(NamedTuple):
    """Something that tinygrad would have run: a kernel (SINK) or a copy, and the buffers that it names, target first.

    `line` is that of the last assignment to the target, or empty.
    """

    ast: Any
    buffers: tuple[Any, ...]
    line: str

    @property
    def target(self) -> Any:
        """What it writes: the first buffer, or of a custom kernel the one that it stores to."""
        u = self.ast.src[0] if self.ast.op is Ops.SINK else self.ast
        while u.op is not Ops.PARAM and u.src:
            u = u.src[0]
        is_custom = self.ast.op is Ops.SINK and u.op is Ops.PARAM and u.arg.slot in range(len(self.buffers))
        return self.buffers[u.arg.slot if is_custom else 0]


#: Of buffers: a graph, and what is in the place of some of its nodes.
Held = dict[Any, tuple[Any, dict[Any, Any]]]


def _unchanged(graphs: Mapping[Any, Any]) -> Held:
    return {buffer: (graph, {}) for buffer, graph in graphs.items()}


class Recording:
    """What tinygrad would have run: `calls` over buffers of one device, and what these stand for: `relocation`.

    `unnamed` are the tensors that existed before and have no name, by their ids; `existing` the buffers of all that
    existed. `held` is what buffers hold, in the order in which they are filled. `bound` are the values of variables,
    `gradients` what is known of the gradients of tensors, `done` what parts that repeat themselves did (`repeated`).
    """

    def __init__(self) -> None:
        self.calls: list[RecordedCall] = []
        self.relocation = Relocation()
        self.assigned: dict[Any, str] = {}
        self.stood_in: dict[Any, Any] = {}
        self.names: dict[Any, str] = {}
        self.held: list[Held] = []
        self.unnamed: dict[int, Tensor] = {}
        self.existing: frozenset[Any] = frozenset()
        self.bound: dict[str, int] = {}
        self.gradients = unseen.Gradients()
        self.counters: dict[str, Tensor] = {}
        self.done: dict[Any, Any] = {}

    def written(self) -> dict[Any, str]:
        """The buffers that calls write, with the line of the last assignment; where one stands for a buffer, both."""
        targets = {storage_of(call.target): call.line for call in self.calls if call.buffers}
        origins = self.relocation.origins
        return targets | {origins[u]: line for u, line in targets.items() if u in origins}

    def used(self) -> set[Any]:
        """The buffers that calls name."""
        return {storage_of(buffer) for call in self.calls for buffer in call.buffers}

    def name(self, tensors: Iterable[Tensor]) -> None:
        """Lets these tensors be assigned."""
        for tensor in tensors:
            self.unnamed.pop(id(tensor), None)

    def add_linear(self, linear: Any, values: dict[str, int]) -> None:
        """The calls that tinygrad would make, recorded: kernel, buffers and the line of the assignment.

        tinygrad's JIT calls it.
        """
        for name, value in values.items():
            if self.bound.get(name, value) != value:
                raise unseen.bound_twice(name)
        for call in linear.src:
            recorded = RecordedCall(call.src[0], tuple(s for s in call.src[1:] if not s.is_bound_var), "")
            line = self.assigned.get(recorded.target, "") if recorded.buffers else ""
            self.calls.append(recorded._replace(line=line))

    def map(self, original: Any) -> Any:
        """_apply_map_to_tensors, noted."""

        def noted(applied: dict[Any, Any], name: str) -> None:
            if name == "buffers":
                self.held.append(_unchanged({storage_of(new): old for old, new in applied.items()}))
            original(applied, name=name)

        return noted

    def stand_in(self, name: str, tensor: Tensor, other: Tensor) -> None:
        """Lets another tensor be used for one, which has this name, as long as this is recorded."""
        self.stood_in[buffer_of(other)] = tensor.uop
        self.names[buffer_of(other)] = name
        tensor.uop = other.uop

    def require_states(self, written: Mapping[Any, str], used: Set[Any]) -> None:
        """Raises CaptureError if something is written, on the line that is said, that is no state of its own, or that
        something else shares that is used; or if gradients add up from call to call."""
        if (line := self.gradients.adding_up()) is not None:
            raise unseen.adding_up(line)
        if self.counters and Tensor._device_rng_counters is not self.counters:
            raise unseen.seeded_late()
        for buffer, line in written.items():
            if buffer in self.existing:
                raise unseen.unnamed(f"of {buffer.max_numel()} elements", line)
        stored = {buffer: buffers_of(uop) for buffer, uop in self.stood_in.items()}
        for buffer in written.keys() & stored.keys():
            others = [self.names[b] for b, theirs in stored.items() if b is not buffer and theirs & stored[buffer]]
            if others or used & stored[buffer]:
                raise unseen.shared(self.names[buffer], others)

    def forgotten(self, uops: Sequence[Any]) -> tuple[Any, ...]:
        """Graphs made while this was recorded, with what buffers would hold in their place, and nothing assigned."""
        for held in (*self.held[::-1], _unchanged(self.stood_in), _unchanged(self.relocation.origins)):
            graph = UOp.sink(*uops)
            there = {buffer: held[buffer] for buffer in buffers_of(graph) & held.keys()}
            whole = {buffer: u.substitute(changes) for buffer, (u, changes) in there.items()}
            same = {buffer: u.reshape(buffer.shape) for buffer, u in whole.items() if u.numel() == buffer.numel()}
            uops = graph.substitute(same, walk=True).src if same else uops
        return tuple(graph_rewrite(UOp.sink(*uops), _UNASSIGNED).src)

    def assign(self, original: Any) -> Any:
        """Tensor.assign, noting which line assigns to which buffer.

        Assigning to a view, tinygrad changes what was read from the buffer before, too; here that stays what it was.
        """

        def noted(tensor: Tensor, value: Any) -> Tensor:
            self._require_seen(tensor)
            self.assigned[buffer_of(tensor)] = user_line()
            storage = viewed(tensor.uop)
            before = [(t, t.uop) for reference in list(all_tensors) if (t := reference()) is not None]
            result = cast(Tensor, original(tensor, value))
            for t, uop in before:
                if t.uop is not uop and t is not tensor and viewed(t.uop) is not storage:
                    t.uop = uop
            return result

        return noted

    def replace(self, original: Any) -> Any:
        """Tensor.replace, refused where nobody would see it."""

        def seen(tensor: Tensor, value: Tensor) -> Tensor:
            self._require_seen(tensor)
            return cast(Tensor, original(tensor, value))

        return seen

    def _require_seen(self, tensor: Tensor) -> None:
        self.gradients.add_to(tensor)
        if id(tensor) in self.unnamed:
            raise unseen.unnamed(f"of shape {tensor.shape}", user_line())
        if _function.depth and (viewed(tensor.uop) in self.existing or viewed(tensor.uop) in self.stood_in):
            fix = "assign outside of it, or store: Tensor(t.uop.after(t.uop.store(new.uop)))"
            raise CaptureError("a function of tinygrad assigns to a tensor from outside", fix=fix, line=user_line())


@contextmanager
def recording() -> Iterator[Recording]:
    """Within it tinygrad records calls instead of running them; random numbers start anew from the user's seed.

    All tensors are on one device then: neither the default device nor where data lie decides anything. Afterwards all
    that existed before are what they were. One thread at a time: tinygrad's state is global.
    """
    with LOCK:
        if is_recording():
            raise CaptureError("tinygrad is recording already", fix="capture outside of captured and jitted functions")
        yield from _recorded()


@contextmanager
def computing() -> Iterator[None]:
    """Within it tinygrad computes, in any thread: its cache of kernels on disk is for one alone."""
    with LOCK, Context(CACHELEVEL=CACHELEVEL.value if current_thread() is main_thread() else 0):
        yield


def is_recording() -> bool:
    """Whether what is computed now is recorded, here or by a TinyJit, instead of run."""
    return bool(realize.capturing)


def current() -> Recording | None:
    """The recording that is under way."""
    return next((of for of in realize.capturing if isinstance(of, Recording)), None)


def _recorded() -> Iterator[Recording]:
    recorder = Recording()
    before = [(t, t.uop, t.grad) for reference in list(all_tensors) if (t := reference()) is not None]
    recorder.gradients.held = {id(grad): t for t, _, grad in before if grad is not None}
    recorder.unnamed = {id(t): t for t, _, _ in before if id(t) not in recorder.gradients.held}
    replaced = [(owner, name, getattr(owner, name)) for owner, name in _REPLACED]
    for owner, name, original in replaced:
        setattr(owner, name, _REPLACED[owner, name](recorder, original))
    realize.capturing.append(recorder)
    try:
        with Context(**_SETTINGS):
            relocated = recorder.relocation([u for _, u, _ in before])
            for (tensor, _, _), uop in zip(before, relocated, strict=True):
                tensor.uop = uop
            recorder.existing = _kept(relocated)
            yield recorder
    finally:
        realize.capturing.remove(recorder)
        for owner, name, value in replaced:
            setattr(owner, name, value)
        tensor_module._METADATA.set(None)  # a Tensor method that raises leaves its name behind
        for tensor, uop, grad in before:
            tensor.uop, tensor.grad = uop, grad
        old = {id(tensor) for tensor, _, _ in before}
        new = [t for reference in list(all_tensors) if (t := reference()) is not None and id(t) not in old]
        for tensor, uop in zip(new, recorder.forgotten([t.uop for t in new]), strict=True):
            tensor.uop = uop


def _kept(graphs: Sequence[Any]) -> frozenset[Any]:
    """The buffers of graphs that nothing in these graphs is still going to write."""
    nodes = UOp.sink(*graphs).toposort()
    filled = {viewed(u.src[0]) for u in nodes if u.op is Ops.STORE}
    return frozenset(u for u in nodes if u.op is Ops.BUFFER and not u.is_variable and u not in filled)


#: What was assigned to a tensor after it was made: nothing is run.
_UNASSIGNED = PatternMatcher(
    [(UPat(Ops.AFTER, name="u"), lambda u: u.src[0] if u.src[0].base.op is Ops.AFTER and not u.is_bound_var else None)]
)


def _located(name: str) -> Any:
    return Metadata(name=f"{name} at {user_line()}")


def without_jit(function: Any) -> Any:
    """The function that a TinyJit wraps; any other is itself."""
    return function.fxn if isinstance(function, _TinyJit) else function


def _canonical(original: Any) -> Any:
    """Device.canonicalize where all devices that compute are one."""

    def canonical(devices: Any, device: str | None) -> str:
        name = str(original(devices, device))
        return name if is_host(name) else DEVICE

    return canonical


def _call_plainly(jit: Any, *args: Any, **kwargs: Any) -> Any:
    return jit.fxn(*args, **kwargs)


#: What stands in for parts of tinygrad while it is recorded, from the recorder and the original.
_REPLACED: dict[tuple[Any, str], Callable[[Recording, Any], Any]] = {
    (Tensor, "_seed"): lambda _, seed: seed,
    (schedule_module, "schedule_cache"): lambda *_: {},  # what was scheduled under these settings alone
    (Tensor, "_device_seeds"): lambda *_: {},
    (Tensor, "_device_rng_counters"): lambda recorder, _: recorder.counters,
    (Tensor, "assign"): Recording.assign,
    (Tensor, "replace"): Recording.replace,
    (Tensor, "grad"): lambda recorder, slot: recorder.gradients.noted(slot, dict(recorder.unnamed)),
    (Tensor, "schedule_linear"): lambda _, original: unseen.not_by_users(original, *unseen.SCHEDULED),
    (Tensor, "linear_with_vars"): lambda _, original: unseen.not_by_users(original, *unseen.SCHEDULED),
    (UOp, "call"): lambda _, original: unseen.custom(original),
    (UOp, "bind"): lambda _, original: unseen.not_by_users(original, *unseen.BOUND),
    (UOp, "unbind"): lambda _, original: unseen.not_by_users(original, *unseen.UNBOUND),
    (UOp, "unbind_all"): lambda _, original: unseen.not_by_users(original, *unseen.UNBOUND),
    (tensor_module, "_apply_map_to_tensors"): Recording.map,
    (tensor_module, "Metadata"): lambda *_: _located,
    (type(Device), "canonicalize"): lambda _, original: _canonical(original),
    (_TinyJit, "__call__"): lambda *_: _call_plainly,
}


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Whatever fails within it, and says not itself why, is a CaptureError: in tinygrad, or a fault of this package."""
    try:
        yield
    except (EigenTensorError, MemoryError):
        raise
    except Exception as error:
        message = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
        fix = "write it with other Tensor methods, or capture its parts apart"
        raise CaptureError(f"{what}: {message}", fix=fix, line=raised_at(error) or user_line()) from error


class _Unwritten(Buffer):  # type: ignore[misc]
    """A buffer that never has contents: whoever reads it is told so, instead of given what memory has there."""

    def __init__(self, u: Any, what: str) -> None:
        super().__init__(u.device, u.max_numel(), u.dtype)
        self.what = what

    def refusal(self) -> CaptureError:
        return CaptureError(f"{self.what} is read where it has no value", fix="read it only in the graph that it is of")

    def allocate(self, *_: Any, **__: Any) -> Any:
        raise self.refusal()


def placeholder(what: str, shape: tuple[int, ...], dtype: Any, device: str | None = DEVICE) -> Tensor:
    """A tensor over a buffer of its own that has no contents; `what` says in errors what it stands for."""
    tensor = Tensor.empty(*shape, dtype=dtype, device=device)
    buffer = buffer_of(tensor)
    buffers[buffer] = _Unwritten(buffer, what).ref(1)
    return tensor


def buffer_of(tensor: Tensor) -> Any:
    """The identity of a tensor's storage."""
    u = tensor.uop.base
    while u.op in (Ops.AFTER, Ops.RESHAPE):
        u = u.src[0].base
    return u


def buffers_of(u: Any) -> set[Any]:
    """The buffers that a node is made of."""
    return {n for n in u.toposort() if n.op is Ops.BUFFER and not n.is_variable}


def viewed(u: Any) -> Any:
    """What a node is a view of, through other types, too, or itself."""
    while u.op in (*GroupOp.Movement, Ops.BITCAST, Ops.DETACH, Ops.AFTER):
        u = u.src[0]
    return u


class Window(NamedTuple):
    """Consecutive elements of a buffer, from `offset` on, whose bits are read as `dtype`."""

    buffer: Any
    offset: int
    dtype: Any


def window(u: Any) -> Window:
    """What an argument of a kernel is: a buffer or a part of it."""
    dtype, offset = u.dtype, 0
    while u.op is not Ops.BUFFER:
        if u.op is Ops.SHRINK and len(u.shape) == 1:
            offset += int(u.marg[0][0])
        elif u.op is not Ops.RESHAPE and not (u.op is Ops.BITCAST and u.dtype.itemsize == u.src[0].dtype.itemsize):
            raise CaptureError(
                f"a kernel reads a {u.op.name} of a buffer", fix="call .clone() instead of .contiguous()"
            )
        u = u.src[0]
    return Window(u, offset, dtype)


def storage_of(u: Any) -> Any:
    """The buffer, or the parameter of a function, that a node is a view of, whatever is written to it."""
    while u.op is not Ops.BUFFER and u.src:
        u = u.src[0]
    return u


def known(u: Any) -> bytes | None:
    """The contents of a node on any device that has them; None for what `Tensor.empty` made, which nobody wrote.

    Raises CaptureError for what a program will be given, or would compute.
    """
    if u.op is not Ops.BUFFER or isinstance(u.device, tuple):
        return contents(Tensor(u))
    _refuse_unwritten(u)
    is_there = u.is_realized or str(u.device).startswith("DISK")
    return bytes(u.buffer.ensure_allocated().as_memoryview()) if is_there else None


def contents(tensor: Tensor) -> bytes:
    """The elements of a tensor, which is computed if it is not yet; zeros for `Tensor.empty`.

    Raises CaptureError if that fails.
    """
    if not tensor.numel():
        return b""
    _refuse_unwritten(tensor.uop)
    u = tensor.uop
    while u.op in (Ops.RESHAPE, Ops.BITCAST) and not is_host(u.device):
        u = u.src[0]  # the same bytes, and not every compiler knows bfloat16
    tensor = Tensor(u)
    if is_host(tensor.device) or isinstance(tensor.device, tuple):
        tensor = tensor.to(DEVICE)
    buffer = buffer_of(_computed(tensor))
    data = known(buffer)
    return bytes(buffer.max_numel() * buffer.dtype.itemsize) if data is None else data


def _computed(tensor: Tensor) -> Tensor:
    """The tensor in a buffer of its own."""
    if tensor.uop.has_buffer_identity():
        return tensor
    before = [(t, t.uop) for reference in list(all_tensors) if (t := reference()) is not None]
    try:
        with computing():
            tensor.realize()
            return tensor if tensor.uop.has_buffer_identity() else tensor.clone().realize()
    except Exception as error:  # of a compiler, of a driver, of memory
        for t, uop in before:  # tinygrad takes what it could not compute for computed
            t.uop = uop
        what = f"tinygrad cannot compute a tensor of {str(tensor.dtype)[7:]} on {tensor.device}"
        fix = "give the tensor contents, or compute it on another device"
        raise CaptureError(f"{what}: {type(error).__name__}", fix=fix) from error


#: The names of `random_state` in programs.
RANDOM_COUNTER, RANDOM_SEED = "random.counter", "random.seed"


def random_state() -> dict[str, Tensor]:
    """tinygrad's seed of random numbers on the default device and how many were drawn, by their names in programs."""
    device = Device.DEFAULT
    if device not in Tensor._device_seeds:
        Tensor._next_counter(device, 0)
    return {RANDOM_SEED: Tensor._device_seeds[device], RANDOM_COUNTER: Tensor._device_rng_counters[device]}


def has_value(tensor: Tensor) -> bool:
    """Whether nothing that a program will be given, or would compute, is needed for a tensor."""
    return bool(tensor.uop.is_realized) or _unwritten(tensor.uop) is None


def _refuse_unwritten(root: Any) -> None:
    if (storage := _unwritten(root)) is not None:
        raise storage.refusal()


def _unwritten(root: Any) -> _Unwritten | None:
    stored = (buffers.get(u) for u in root.toposort() if u.op is Ops.BUFFER)
    return next((storage for storage in stored if isinstance(storage, _Unwritten)), None)


# What a function realizes on the way, as a part of its graph.

#: Of buffers: the node whose elements each would hold.
Contents = dict[Any, Any]


@contextmanager
def deferred() -> Iterator[Contents]:
    """Within it Tensor.realize computes nothing: it gives a tensor a buffer, and says here what that would hold.

    As in tinygrad, whatever reads a buffer afterwards finds there what was assigned to it.
    """
    contents, original = Contents(), Tensor.realize

    def realize(tensor: Tensor, *others: Tensor, **_: Any) -> Tensor:
        _store_realized(
            [t for t in (tensor, *others) if not t.uop.is_virtual and not t.uop.has_buffer_identity()], contents
        )
        return tensor

    Tensor.realize = realize
    try:
        yield contents
    finally:
        Tensor.realize = original


def _store_realized(tensors: Sequence[Tensor], contents: Contents) -> None:
    assigned: dict[Any, list[Any]] = {}  # by buffer, what it is after each assignment, the last one at the end
    order = UOp.sink(*(t.uop for t in tensors)).toposort()
    for u in order:
        if u.op is Ops.AFTER and not u.is_bound_var and u.has_buffer_identity(after_ok=True):
            assigned.setdefault(storage_of(u), []).append(u)
    changes: dict[Any, Any] = {}
    for buffer, states in assigned.items():
        new = _new_buffer(buffer, states[-1], contents)
        changes |= {u: new.reshape(u.shape) for u in (buffer, *states)}
    for u in (t.uop for t in tensors):
        if u.base not in changes and u not in changes:
            changes[u] = _new_buffer(u, u.contiguous(), contents).reshape(u.shape)
    tensor_module._apply_map_to_tensors(changes, name="buffers")


def _new_buffer(like: Any, content: Any, contents: Contents) -> Any:
    buffer = UOp.new_buffer(DEVICE, like.max_numel(), like.dtype)
    contents[buffer] = content
    return buffer
