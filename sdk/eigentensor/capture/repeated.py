"""What a function does again to other tensors, layer after layer: recorded once, then with others in their place."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from tinygrad import Tensor
from tinygrad.tensor import all_tensors
from tinygrad.uop.ops import UOp

from eigentensor.capture import adapter
from eigentensor.capture.adapter import Recording, buffer_of


def repeated(kind: Hashable, tensors: Sequence[Tensor], made: Callable[[], Tensor]) -> Tensor:
    """What `made` makes, realized. It may read and assign these tensors, and read others.

    Calls of one kind do the same, each to its own tensors: a captured function repeats what one of them did, which is
    many times as fast as making it again. Not where a tensor is not realized yet, or of another shape or type, nor
    after a call that left or realized tensors for those that follow it.
    """
    recording = adapter.current()
    if recording is None:
        return made().contiguous().realize()
    key = (kind, *((tensor.shape, tensor.dtype) for tensor in tensors))
    done = recording.done.get(key)
    if done is not None and (changes := done.changes(tensors)) is not None:
        return done.again(recording, tensors, changes)
    return _first(recording, key, tensors, made)


@dataclass(frozen=True, slots=True)
class _Done:
    """What was recorded: the nodes of the tensors before and after it, calls, and what was made, as it was built and
    as it is stored."""

    before: tuple[Any, ...]
    after: tuple[Any, ...]
    calls: tuple[adapter.RecordedCall, ...]
    built: Any
    stored: Any

    def changes(self, tensors: Sequence[Tensor]) -> dict[Any, Any] | None:
        """The buffers of these tensors, by those in whose place they are; None if they are views of another kind, or
        share what was not shared."""
        changes: dict[Any, Any] = {}
        for old, tensor in zip(self.before, tensors, strict=True):
            new = buffer_of(tensor)
            if changes.setdefault(storage := adapter.storage_of(old), new) is not new:
                return None
            if tensor.uop is not old.substitute({storage: new}):
                return None
        return changes if len(set(changes.values())) == len(changes) else None

    def again(self, recording: Recording, tensors: Sequence[Tensor], changes: dict[Any, Any]) -> Tensor:
        """Records the same of other tensors, by the changes that these are. What lies between has new buffers."""
        for call in self.calls:
            target = adapter.storage_of(call.target)
            if target not in changes:
                changes[target] = UOp.new_buffer(adapter.DEVICE, target.max_numel(), target.dtype)
            buffers = tuple(changes[u] if u in changes else u.substitute(changes) for u in call.buffers)
            recording.calls.append(call._replace(buffers=buffers))
        for tensor, before, after in zip(tensors, self.before, self.after, strict=True):
            if after is not before:
                tensor.uop = after.substitute(changes)
        stored = self.stored.substitute(changes)
        recording.held.append({adapter.storage_of(stored): (self.built, changes)})
        return Tensor(stored)


def _first(recording: Recording, key: Hashable, tensors: Sequence[Tensor], made: Callable[[], Tensor]) -> Tensor:
    """What `made` makes, kept under the key if it can be repeated."""
    known = {id(tensor): (tensor, tensor.uop) for tensor in _living()}
    before, begin = tuple(tensor.uop for tensor in tensors), len(recording.calls)
    result = made().contiguous()
    built = result.uop
    result.realize()
    calls = tuple(recording.calls[begin:])
    own = {id(result), *map(id, tensors)}
    # A tensor that it left, or stored, is there for others: they do not make it again.
    is_alone = all(id(t) in own or (id(t) in known and known[id(t)][1] is t.uop) for t in _living())
    if calls and is_alone and all(uop.has_buffer_identity() for uop in before):
        recording.done[key] = _Done(before, tuple(tensor.uop for tensor in tensors), calls, built, result.uop)
    return result


def _living() -> list[Tensor]:
    return [tensor for reference in list(all_tensors) if (tensor := reference()) is not None]
