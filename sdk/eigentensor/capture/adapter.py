"""tinygrad at arm's length: what it would run is recorded instead, under settings that no environment can change."""

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from threading import RLock, current_thread, main_thread
from typing import Any, NamedTuple, cast

import tinygrad
import tinygrad.tensor as tensor_module
from tinygrad import Tensor
from tinygrad.engine import realize
from tinygrad.engine.jit import _TinyJit
from tinygrad.helpers import CACHELEVEL, Context, Metadata
from tinygrad.tensor import all_tensors
from tinygrad.uop.ops import GroupOp, Ops, all_metadata

from eigentensor.errors import CaptureError

TINYGRAD = "0.14.0"
DEVICE = "CPU"  # where placeholders live; nothing is ever run there
#: Held by whoever computes with tinygrad, whose state is global, while other threads may record.
LOCK = RLock()
os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)
_HOST = ("PYTHON", "NPY", "DISK")
_SETTINGS: dict[str, Any] = {
    "DEV": DEVICE, "SPLIT_REDUCEOP": 0, "SCACHE": 0, "CAPTURING": 1, "TRACEMETA": 1,
    "BEAM": 0, "NOOPT": 0, "IMAGE": 0, "FLOAT16": 0, "OPENPILOT_HACKS": 0, "WINO": 0, "TRANSCENDENTAL": 1, "PCONTIG": 0,
    "MAX_KERNEL_BUFFERS": 0, "FUSE_OPTIM": 0, "DEFAULT_FLOAT": "float32", "DEFAULT_INT": "int32", "TUPLE_ORDER": 1,
    "DISALLOW_BROADCAST": 0, "EMULATED_DTYPES": "", "USE_ATOMICS": 0, "DEBUG": 0, "DEBUG_RANGEIFY": 0,
}  # fmt: skip
_LIBRARIES = (str(Path(tinygrad.__file__).parent), str(Path(__file__).parent), str(Path(inspect.__file__).parent))


def require_release(installed: str) -> None:
    """Raises CaptureError for a tinygrad whose inside this module does not know."""
    if installed != TINYGRAD:
        raise CaptureError(f"tinygrad {installed} is installed", fix=f"pip install tinygrad=={TINYGRAD}")


require_release(version("tinygrad"))


class Step(NamedTuple):
    """Something that tinygrad would have run: a kernel (SINK) or a copy, and the buffers that it names, target first.

    `line` is that of the last assignment to the target, or empty.
    """

    ast: Any
    buffers: tuple[Any, ...]
    line: str


class _Recorder:
    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.assigned: dict[Any, str] = {}

    def add_linear(self, linear: Any, _values: dict[str, int]) -> None:
        for call in linear.src:
            buffers = tuple(s for s in call.src[1:] if not s.is_bound_var)
            line = next((found for b in buffers[:1] if (found := self.assigned.get(b))), "")
            self.steps.append(Step(call.src[0], buffers, line))

    def assign(self, original: Any) -> Any:
        """Tensor.assign, noting which line assigns to which buffer.

        Assigning to a view, tinygrad changes what was read from the buffer before, too; here that stays what it was.
        """

        def noted(tensor: Tensor, value: Any) -> Tensor:
            self.assigned[buffer_of(tensor)] = user_line()
            storage = _storage(tensor)
            before = [(t, t.uop) for reference in list(all_tensors) if (t := reference()) is not None]
            result = cast(Tensor, original(tensor, value))
            for t, uop in before:
                if t.uop is not uop and t is not tensor and _storage(t) is not storage:
                    t.uop = uop
            return result

        return noted


@contextmanager
def recording() -> Iterator[list[Step]]:
    """Within it tinygrad records steps instead of running them; random numbers start anew from the user's seed.

    Afterwards all tensors that existed before are what they were. One thread at a time: tinygrad's state is global.
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


def _recorded() -> Iterator[list[Step]]:
    recorder = _Recorder()
    before = [(t, t.uop, t.grad) for reference in list(all_tensors) if (t := reference()) is not None]
    replaced = [(owner, name, getattr(owner, name)) for owner, name in _REPLACED]
    for owner, name, original in replaced:
        setattr(owner, name, _REPLACED[owner, name](recorder, original))
    realize.capturing.append(recorder)
    try:
        with Context(**_SETTINGS):
            yield recorder.steps
    finally:
        realize.capturing.remove(recorder)
        for owner, name, value in replaced:
            setattr(owner, name, value)
        tensor_module._METADATA.set(None)  # a Tensor method that raises leaves its name behind
        for tensor, uop, grad in before:
            tensor.uop, tensor.grad = uop, grad


def _located(name: str) -> Any:
    return Metadata(name=f"{name} at {user_line()}")


def without_jit(function: Any) -> Any:
    """The function that a TinyJit wraps; any other is itself."""
    return function.fxn if isinstance(function, _TinyJit) else function


def _call_plainly(jit: Any, *args: Any, **kwargs: Any) -> Any:
    return jit.fxn(*args, **kwargs)


#: What stands in for parts of tinygrad while it is recorded, from the recorder and the original.
_REPLACED: dict[tuple[Any, str], Callable[[_Recorder, Any], Any]] = {
    (Tensor, "_seed"): lambda _, seed: seed,
    (Tensor, "_device_seeds"): lambda *_: {},
    (Tensor, "_device_rng_counters"): lambda *_: {},
    (Tensor, "assign"): _Recorder.assign,
    (tensor_module, "Metadata"): lambda *_: _located,
    (_TinyJit, "__call__"): lambda *_: _call_plainly,
}


def is_library(path: str) -> bool:
    """Whether a file belongs to tinygrad, to this package or to the standard library."""
    return path.startswith((*_LIBRARIES, "<"))


def user_line() -> str:
    """file:line of the innermost caller that is the user's."""
    frame = inspect.currentframe()
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def defined_at(function: Any) -> str:
    """file:line where a function begins; empty for other callables."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def raised_at(error: BaseException) -> str:
    """file:line of the user's code that an exception came through last."""
    trace, line = error.__traceback__, ""
    while trace is not None:
        if not is_library(trace.tb_frame.f_code.co_filename):
            line = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return line


def origin(u: Any) -> str:
    """Which Tensor method on which line of the user's code made this node, as far as known."""
    return next((str(m[0]) for n in (u, *u.src) if (m := all_metadata.get(n))), "")


def placeholder(shape: tuple[int, ...], dtype: Any) -> Tensor:
    """A tensor over a buffer of its own that is never allocated."""
    return Tensor.empty(*shape, dtype=dtype, device=DEVICE)


def buffer_of(tensor: Tensor) -> Any:
    """The identity of a tensor's storage."""
    u = tensor.uop.base
    while u.op in (Ops.AFTER, Ops.RESHAPE):
        u = u.src[0].base
    return u


def _storage(tensor: Tensor) -> Any:
    """What a tensor is a view of, through other types, too, or itself."""
    u = tensor.uop
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


def is_host(buffer: Any) -> bool:
    """Whether a buffer or tensor is a file's or Python's: it has contents, but nothing computes there."""
    return str(buffer.device).startswith(_HOST)


def host_bytes(buffer: Any) -> bytes:
    """The contents of a realized buffer of any device."""
    storage = buffer.buffer.ensure_allocated()
    return bytes(storage.as_memoryview())


def contents(tensor: Tensor) -> bytes:
    """The elements of a tensor, which is computed if it is not yet."""
    if not tensor.numel():
        return b""
    u = tensor.uop
    while u.op in (Ops.RESHAPE, Ops.BITCAST):  # the same bytes, and not every compiler knows bfloat16
        u = u.src[0]
    tensor = Tensor(u)
    if is_host(tensor) or isinstance(tensor.device, tuple):
        tensor = tensor.to(DEVICE)
    with computing():
        tensor.realize()
        whole = tensor if tensor.uop.has_buffer_identity() else tensor.clone().realize()
    return host_bytes(buffer_of(whole))


def is_realized(buffer: Any) -> bool:
    return bool(buffer.is_realized)
