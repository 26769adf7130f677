"""Kernels that differ in names alone, such as those of layers that are alike: they are lowered once."""

from collections.abc import Hashable
from functools import lru_cache
from typing import NamedTuple

from eigentensor.lowering.kernel import Kernel, fresh_array, located
from eigentensor.lowering.limits import guard, lowered, split
from eigentensor.lowering.passes import tidy, unnest
from eigentensor.lowering.spans import cut
from eigentensor.lowering.windows import gathered
from eigentensor.program.expression import Array, Axis, Lowered, Node, node, rewrite
from eigentensor.program.ops import REDUCTIONS, Op

_RESULT = -1  # of a pattern; what it loads from and its axes are numbered from zero


class Pattern(NamedTuple):
    """A kernel whose arrays and axes are numbers, and the arrays that these stand for, in order."""

    kernel: Kernel
    arrays: tuple[Array, ...]


def pattern(kernel: Kernel) -> Pattern:
    """The pattern of a kernel: of others that differ in names alone it has the same kernel."""
    arrays: dict[Array, Array] = {}
    axes: dict[Axis, Axis] = {}

    def array(of: Array) -> Array:
        return arrays.setdefault(of, of._replace(key=len(arrays)))

    def axis(of: Axis) -> Axis:
        return axes.setdefault(of, of._replace(name=len(axes)))

    def change(n: Node) -> Node:
        if n.op is Op.LOAD:
            return node(n.op, n.dtype, *n.src, arg=array(n.arg))
        if n.op is Op.RANGE:
            return node(n.op, n.dtype, arg=axis(n.arg))
        return node(n.op, n.dtype, *n.src, arg=tuple(map(axis, n.arg))) if n.op in REDUCTIONS else n

    outer = tuple(map(axis, kernel.axes))
    value = rewrite(kernel.value, change)
    return Pattern(Kernel(kernel.result._replace(key=_RESULT), outer, value), tuple(arrays))


def admitted(kernel: Kernel) -> list[tuple[Hashable, Lowered]]:
    """The calls that compute a kernel, by the keys of their results. Raises CaptureError with its origin."""
    of, arrays = pattern(kernel)
    with located(kernel.origin):
        parts = _parts(of)
    keys: dict[Hashable, Array] = {_RESULT: kernel.result, **dict(enumerate(arrays))}
    keys |= {result.key: fresh_array(result.dtype, result.elements) for result, _ in parts if result.key not in keys}
    return [
        (keys[result.key].key, part._replace(arrays=tuple(keys[array.key] for array in part.arrays)))
        for result, part in parts
    ]


@lru_cache(maxsize=512)
def _parts(kernel: Kernel) -> tuple[tuple[Array, Lowered], ...]:
    return tuple(
        (part.result, lowered(part)) for simple in simplest(kernel) for short in cut(simple) for part in fitted(short)
    )


def simplest(kernel: Kernel) -> list[Kernel]:
    """The kernels that compute the same without reductions inside reductions."""
    return unnest(Kernel(kernel.result, kernel.axes, gathered(tidy(kernel.value)), kernel.origin))


def fitted(kernel: Kernel) -> list[Kernel]:
    """The kernels that compute the same within the rules of the format."""
    return split(guard(kernel))
