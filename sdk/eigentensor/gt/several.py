"""What is made of several tensors: a choice between them, the larger one, all of them one after the other."""

from collections.abc import Sequence

from eigentensor.gt.tensors import Operand, Tensor, between, record, tensor_of
from eigentensor.stream.operations import encoded


def where(condition: Operand, a: Operand, b: Operand) -> Tensor:
    """`a` where the condition holds, else `b`."""
    test = tensor_of(condition)
    if isinstance(b, int | float) and isinstance(a, Tensor):
        return record("where", (2, encoded(b)), test, a)
    if isinstance(a, int | float) and isinstance(b, Tensor):
        return record("where", (1, encoded(a)), test, b)
    return record("where", None, test, tensor_of(a), tensor_of(b))


def maximum(a: Operand, b: Operand) -> Tensor:
    """The larger one of each pair; equal ones share the gradient."""
    return between("maximum", a, b)


def minimum(a: Operand, b: Operand) -> Tensor:
    """The smaller one of each pair; equal ones share the gradient."""
    return between("minimum", a, b)


def cat(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors one after the other along an axis."""
    return record("concat", axis, *tensors)


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors of one shape along a new axis."""
    return cat([each.unsqueeze(axis) for each in tensors], axis)
