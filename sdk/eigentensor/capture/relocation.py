"""Graphs of other devices on the one where they are captured."""

from typing import Any

from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat, graph_rewrite

from eigentensor.capture.adapter import DEVICE, is_host


def relocated(uops: list[Any], moved: dict[Any, Any]) -> tuple[Any, ...]:
    """The graphs with every buffer and copy on the capture device; `moved` remembers what became of each buffer."""
    return tuple(graph_rewrite(UOp.sink(*uops), _relocation, ctx=moved).src)


def _moved_buffer(moved: dict[Any, Any], buffer: Any) -> Any:
    if buffer.is_variable or is_host(buffer) or buffer.device == DEVICE:
        return None
    if buffer not in moved:
        moved[buffer] = UOp.new_buffer(DEVICE, buffer.max_numel(), buffer.dtype)
    return moved[buffer]


_relocation = PatternMatcher(
    [
        (UPat(Ops.COPY, name="copy"), lambda copy: copy.replace(arg=DEVICE) if copy.arg != DEVICE else None),
        (UPat(Ops.BUFFER, name="buffer"), lambda ctx, buffer: _moved_buffer(ctx, buffer)),
    ]
)
