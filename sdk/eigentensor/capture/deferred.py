"""What a function of tinygrad realizes on the way, as a part of its graph."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tinygrad import Tensor
from tinygrad import tensor as tensor_module
from tinygrad.uop.ops import Ops, UOp

from eigentensor.capture.adapter import DEVICE, storage_of

Contents = dict[Any, Any]  # of buffers: the node whose elements each would hold


@contextmanager
def deferred() -> Iterator[Contents]:
    """Within it Tensor.realize computes nothing: it gives a tensor a buffer, and says here what that would hold.

    As in tinygrad, whatever reads a buffer afterwards finds there what was assigned to it.
    """
    contents, original = Contents(), Tensor.realize

    def realize(tensor: Tensor, *others: Tensor, **_: Any) -> Tensor:
        _store([t for t in (tensor, *others) if not t.uop.is_virtual and not t.uop.has_buffer_identity()], contents)
        return tensor

    Tensor.realize = realize
    try:
        yield contents
    finally:
        Tensor.realize = original


def _store(tensors: Sequence[Tensor], contents: Contents) -> None:
    assigned: dict[Any, list[Any]] = {}  # by buffer, what it is after each assignment, the last one at the end
    order = UOp.sink(*(t.uop for t in tensors)).toposort()
    for u in order:
        if u.op is Ops.AFTER and not u.is_bound_var and u.has_buffer_identity(after_ok=True):
            assigned.setdefault(storage_of(u), []).append(u)
    changes: dict[Any, Any] = {}
    for buffer, states in assigned.items():
        new = _new(buffer, states[-1], contents)
        changes |= {u: new.reshape(u.shape) for u in (buffer, *states)}
    for u in (t.uop for t in tensors):
        if u.base not in changes and u not in changes:
            changes[u] = _new(u, u.contiguous(), contents).reshape(u.shape)
    tensor_module._apply_map_to_tensors(changes, name="buffers")


def _new(like: Any, content: Any, contents: Contents) -> Any:
    buffer = UOp.new_buffer(DEVICE, like.max_numel(), like.dtype)
    contents[buffer] = content
    return buffer
