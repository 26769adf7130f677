"""Graphs of other devices on the one where they are captured, and what the buffers held that they had."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat, graph_rewrite

DEVICE = "CPU"  # where graphs are while they are recorded; nothing is ever run there
_HOST = ("PYTHON", "NPY", "DISK", "TINYFS")


def is_host(device: Any) -> bool:
    """Whether a device is a file or Python: tensors have contents there, but nothing computes."""
    return str(device).startswith(_HOST)


class Relocation:
    """Puts graphs on `DEVICE`; `moved` are its buffers by the nodes that have contents elsewhere, `origins` back."""

    def __init__(self) -> None:
        self.moved: dict[Any, Any] = {}
        self.origins: dict[Any, Any] = {}

    def __call__(self, uops: Sequence[Any]) -> tuple[Any, ...]:
        """The same graphs, every buffer and copy of which is on `DEVICE`."""
        return tuple(graph_rewrite(UOp.sink(*uops), _RULES, ctx=self, bottom_up=True).src)

    def placed(self, u: Any) -> Any:
        """The buffer, in the node's shape, that stands for a node with contents."""
        if u not in self.moved:
            new = UOp.new_buffer(DEVICE, u.max_numel(), u.dtype)
            self.moved[u], self.origins[new] = new, u
        return self.moved[u].reshape(u.shape)


def _copy(u: Any) -> Any:
    """A copy between devices that compute is what it copies."""
    if not isinstance(u.arg, str) or not isinstance(u.src[0].device, str | None):
        return None
    if is_host(u.src[0].device):
        return u.replace(arg=DEVICE) if u.arg != DEVICE else None
    return u.src[0]


def _bitcast(relocation: Relocation, u: Any) -> Any:
    """Bytes of a file that are read as elements of another width."""
    is_wider = is_host(u.device) and u.dtype.itemsize != u.src[0].dtype.itemsize
    return relocation.placed(u) if is_wider else None


def _buffer(relocation: Relocation, u: Any) -> Any:
    if u.is_variable or u.device == DEVICE:
        return None
    return relocation.placed(u) if isinstance(u.device, str) or u.is_realized else None


def _shards(relocation: Relocation, u: Any) -> Any:
    return relocation.placed(u) if u.src[0].base.is_realized else None


def _parameter(u: Any) -> Any:
    elsewhere = u.arg.device is not None and u.arg.device != DEVICE
    return u.replace(arg=replace(u.arg, device=DEVICE)) if elsewhere else None


_RULES = PatternMatcher(
    [
        (UPat(Ops.COPY, name="u"), _copy),
        (UPat(Ops.BITCAST, name="u"), lambda ctx, u: _bitcast(ctx, u)),
        (UPat(Ops.BUFFER, name="u"), lambda ctx, u: _buffer(ctx, u)),
        (UPat(Ops.UNSHARD, name="u"), lambda ctx, u: _shards(ctx, u)),
        (UPat(Ops.PARAM, name="u"), _parameter),
    ]
)
