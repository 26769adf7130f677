"""Tensors made of numbers, of counters, and of other tensors one after the other."""

from collections.abc import Sequence
from typing import Any

from eigentensor.graph import moves
from eigentensor.graph.arithmetic import cast
from eigentensor.graph.node import counter
from eigentensor.graph.tensor import Operand, Tensor, node_of
from eigentensor.graph.types import dtype_of, number, promoted, refused
from eigentensor.program.ops import DType


def tensor(value: Operand) -> Tensor:
    """An array or nested lists, at most 1 KiB, as a tensor that stands in the program."""
    return Tensor(node_of(value))


def concat(tensors: Sequence[Operand], axis: int = 0) -> Tensor:
    """The tensors one after the other along an axis, in the type in which all of them meet.

    Raises CaptureError for none.
    """
    nodes = [node_of(t) for t in tensors]
    if not nodes or not nodes[0].shape:
        raise refused("nothing to join", "Give tensors with at least one axis.")
    dtype = nodes[0].dtype
    for n in nodes[1:]:
        dtype = promoted(dtype, n.dtype)
    return Tensor(moves.concat([cast(n, dtype) for n in nodes], axis))


def stack(tensors: Sequence[Operand], axis: int = 0) -> Tensor:
    """Tensors of one shape along a new axis."""
    nodes = [node_of(t) for t in tensors]
    place = moves.axis_of(axis, len(nodes[0].shape) + 1) if nodes else 0
    return concat([Tensor(moves.reshape(n, (*n.shape[:place], 1, *n.shape[place:]))) for n in nodes], axis)


def full(shape: int | Sequence[int], value: float, dtype: Any = DType.FLOAT32) -> Tensor:
    """A tensor of one number everywhere. Raises CaptureError if the type has no such number."""
    return Tensor(number(value, dtype_of(dtype), (shape,) if isinstance(shape, int) else tuple(shape)))


def zeros(shape: int | Sequence[int], dtype: Any = DType.FLOAT32) -> Tensor:
    """A tensor of +0 everywhere."""
    return full(shape, 0, dtype)


def ones(shape: int | Sequence[int], dtype: Any = DType.FLOAT32) -> Tensor:
    """A tensor of 1 everywhere."""
    return full(shape, 1, dtype)


def arange(start: int, stop: int | None = None, step: int = 1) -> Tensor:
    """Integers as int32; counters of loops, so that nothing is stored."""
    steps = range(start, stop, step) if stop is not None else range(0, start, step)
    multiples = Tensor(counter((len(steps),), 0)) * steps.step
    return multiples + steps.start
