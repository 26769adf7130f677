"""Recorded calls → kernels in single assignment: a buffer that is written again becomes a new array."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tinygrad.codegen.simplify import pm_load_collapse
from tinygrad.schedule.rangeify import pm_mops
from tinygrad.uop.ops import Ops, graph_rewrite

from eigentensor.capture.adapter import RecordedCall, Window, known, window
from eigentensor.capture.convert import Conversion, Source, dtype_of, split_gate
from eigentensor.capture.store import Store, no_box, stored
from eigentensor.capture.unseen import CUSTOM
from eigentensor.errors import CaptureError
from eigentensor.lowering.kernel import Kernel, add, bitcast, fresh_array, index, located
from eigentensor.program.expression import Array, conjunction
from eigentensor.program.ops import DType


@dataclass
class Schedule:
    """What a function does, as kernels; `current` is the array that a tinygrad buffer holds now.

    `origins` has the node whose contents a buffer stands for, where that is another one.
    """

    origins: Mapping[Any, Any]
    current: dict[Any, Array] = field(default_factory=dict)
    data: dict[Array, bytes] = field(default_factory=dict)  # arrays whose contents are known at capture
    kernels: list[Kernel] = field(default_factory=list)
    written: set[Any] = field(default_factory=set)
    converted: dict[Any, Kernel] = field(default_factory=dict)  # by tinygrad's: those of layers are the same ones

    def external(self, buffer: Any) -> Array:
        """Make a buffer that comes from outside known."""
        array = fresh_array(dtype_of(buffer.dtype), int(buffer.max_numel()))
        self.current[buffer] = array
        return array

    def read(self, buffer: Any) -> Array | None:
        """The array that a buffer holds; None for `Tensor.empty`, which is zeros in a program."""
        if buffer not in self.current and (content := known(self.origins.get(buffer, buffer))) is not None:
            self.data[self.external(buffer)] = content
        return self.current.get(buffer)

    def add(self, call: RecordedCall) -> None:
        """Takes up the next call."""
        if call.ast.op is Ops.COPY:
            target, source = map(window, call.buffers)
            array = self.read(source.buffer)
            if array is None or source.offset or target.offset:
                raise CaptureError("a part of a tensor is copied", fix="copy the whole tensor")
            self._write(target.buffer, array)
        elif call.ast.op is Ops.SINK and len(call.ast.src) == 1:
            self._kernel(call)
        else:
            raise CaptureError("a custom kernel cannot be in a program", fix="use Tensor methods only")

    def _kernel(self, call: RecordedCall) -> None:
        with located(call.line):
            windows = [window(b) for b in call.buffers]
            arrays = [self.read(w.buffer) for w in windows]
            own = {array: array._replace(key=n) for n, array in enumerate(dict.fromkeys(filter(None, arrays)))}
            reads = [None if array is None else own[array] for array in arrays]
            sizes = [(w.buffer.dtype, int(w.buffer.max_numel()), w.offset, w.dtype) for w in windows]
            key = call.ast, *reads, *sizes
            if call.ast.arg.name == CUSTOM or key not in self.converted:
                self.converted[key] = _converted(call.ast, windows, reads)
        kernel = self.converted[key].reading({stand_in: array for array, stand_in in own.items()})
        result = fresh_array(kernel.result.dtype, kernel.result.elements)
        self.kernels.append(Kernel(result, kernel.axes, kernel.value, call.line))
        self._write(windows[int(str(kernel.result.key))].buffer, result)

    def _write(self, buffer: Any, array: Array) -> None:
        self.current[buffer] = array
        self.written.add(buffer)


def _converted(ast: Any, windows: Sequence[Window], reads: Sequence[Array | None]) -> Kernel:
    """A kernel of tinygrad's over these arrays, None for zeros; the key of its result is the slot that it writes."""
    end = graph_rewrite(graph_rewrite(ast, pm_mops, bottom_up=True), pm_load_collapse).src[0]
    store, ranges = (end.src[0], end.src[1:]) if end.op is Ops.END else (end, ())
    if store.op is not Ops.STORE:
        raise CaptureError("a custom kernel stores more than once", fix="write one for each tensor")
    place = store.src[0]
    if place.op is not Ops.INDEX or place.src[0].op is not Ops.PARAM:
        raise no_box()
    slot = place.src[0].arg.slot
    target = windows[slot]
    if ast.arg.name == CUSTOM:
        _require_one_order(store, windows, target)
    pairs = enumerate(zip(reads, windows, strict=True))
    convert = Conversion({n: Source(array, w.offset, dtype_of(w.dtype)) for n, (array, w) in pairs if array})
    result = Array(slot, dtype_of(target.buffer.dtype), int(target.buffer.max_numel()))
    element, gate = split_gate(place.src[1])
    value, inner = split_gate(store.src[1])
    gates = [convert(g, DType.BOOL) for g in (gate, inner) if g is not None]
    new = Store(
        result,
        add(convert(element, DType.INDEX), index(target.offset)),
        bitcast(result.dtype, convert(value, dtype_of(target.dtype))),
        conjunction(*gates) if gates else None,
        {convert.axis(r): convert(r.src[0], DType.INDEX) for r in ranges if r.op is Ops.RANGE},
    )
    return stored(new, reads[slot], result, "")


def _require_one_order(store: Any, windows: Sequence[Window], target: Window) -> None:
    """Raises CaptureError for a kernel that reads elsewhere what it writes: what it finds there depends on an order."""
    element, _ = split_gate(store.src[0].src[1])
    for u in store.toposort():
        if u.op is Ops.INDEX and u is not store.src[0] and u.src[0].op is Ops.PARAM:
            read = windows[u.src[0].arg.slot]
            is_elsewhere = read != target or split_gate(u.src[1])[0] is not element
            if read.buffer is target.buffer and is_elsewhere:
                fix = "write to a new tensor: Tensor.empty(…)"
                raise CaptureError("a custom kernel reads what it writes, at other elements", fix=fix)
