"""Recorded steps → kernels in single assignment: a buffer that is written again becomes a new array."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tinygrad.codegen.simplify import pm_load_collapse
from tinygrad.schedule.rangeify import pm_mops
from tinygrad.uop.ops import Ops, graph_rewrite

from eigentensor.capture.adapter import Step, host_bytes, is_host, is_realized, origin
from eigentensor.capture.convert import Conversion, dtype_of, split_gate
from eigentensor.capture.kernel import Kernel, fresh_array
from eigentensor.capture.store import Store, stored
from eigentensor.errors import CaptureError
from eigentensor.program.expression import Array, Axis, Node, conjunction
from eigentensor.program.ops import DType


@dataclass
class Schedule:
    """What a function does, as kernels; `current` is the array that a tinygrad buffer holds now."""

    current: dict[Any, Array] = field(default_factory=dict)
    data: dict[Array, bytes] = field(default_factory=dict)  # arrays whose contents are known at capture
    kernels: list[Kernel] = field(default_factory=list)
    written: set[Any] = field(default_factory=set)

    def external(self, buffer: Any) -> Array:
        """Make a buffer that comes from outside known."""
        array = fresh_array(dtype_of(buffer.dtype), int(buffer.max_numel()))
        self.current[buffer] = array
        return array

    def read(self, buffer: Any) -> Array | None:
        """The array that a buffer holds; None if nobody ever wrote it."""
        if buffer not in self.current and (is_host(buffer) or is_realized(buffer)):
            self.data[self.external(buffer)] = host_bytes(buffer)
        return self.current.get(buffer)

    def add(self, step: Step) -> None:
        if step.ast.op is Ops.COPY:
            target, source = step.buffers
            array = self.read(source)
            if array is None:
                raise CaptureError("a tensor is copied before it has a value")
            self.current[target] = array
            self.written.add(target)
        elif step.ast.op is Ops.SINK:
            self._kernel(step)
        else:
            raise CaptureError(
                f"a custom kernel ({step.ast.op.name}) cannot be in a program", fix="use Tensor methods only"
            )

    def _kernel(self, step: Step) -> None:
        ast = graph_rewrite(step.ast, pm_mops, bottom_up=True)
        ast = graph_rewrite(ast, pm_load_collapse)
        where = origin(ast)
        try:
            self._converted(ast, step.buffers, where)
        except CaptureError as error:
            raise CaptureError(f"{error.what}{f' ({where})' if where else ''}", fix=error.fix) from None

    def _converted(self, ast: Any, buffers: tuple[Any, ...], where: str) -> None:
        if len(ast.src) != 1:
            raise CaptureError(
                "a custom kernel with several stores cannot be in a program", fix="use Tensor methods only"
            )
        end = ast.src[0]
        store, ranges = (end.src[0], end.src[1:]) if end.op is Ops.END else (end, ())
        target = buffers[store.src[0].src[0].arg.slot]
        dtype_of(target.dtype)
        old = self.current.get(target)
        arrays = {slot: self.read(b) for slot, b in enumerate(buffers) if b is not target or old is not None}
        convert = Conversion({slot: array for slot, array in arrays.items() if array is not None})
        result = fresh_array(dtype_of(target.dtype), int(target.max_numel()))
        element, gate = split_gate(store.src[0].src[1])
        value, inner = split_gate(store.src[1])
        gates = [convert(g, DType.BOOL) for g in (gate, inner) if g is not None]
        extents: Mapping[Axis, Node] = {
            convert.axis(r): convert(r.src[0], DType.INDEX) for r in ranges if r.op is Ops.RANGE
        }
        whole = Store(
            result,
            convert(element, DType.INDEX),
            convert(value, result.dtype),
            conjunction(*gates) if gates else None,
            extents,
        )
        self.kernels.append(stored(whole, old, result, where))
        self.current[target] = result
        self.written.add(target)
