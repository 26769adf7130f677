"""What capture works on between tinygrad's schedule and the program: kernels over expressions, in single assignment."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from math import prod

from eigentensor.errors import CaptureError
from eigentensor.numerics.dtypes import DType
from eigentensor.program.expression import Array, Axis, Node, binary, const, counter, node, rewrite
from eigentensor.program.ops import Op

_names = count(1 << 20)
INT32_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Kernel:
    """Writes `value` to every element of `result`, in row-major order of the axes; `origin` is the line behind it."""

    result: Array
    axes: tuple[Axis, ...]
    value: Node
    origin: str = ""

    def reading(self, aliases: Mapping[Array, Array]) -> "Kernel":
        """The same with loads from other arrays."""

        def change(n: Node) -> Node:
            return node(Op.LOAD, n.dtype, *n.src, arg=aliases.get(n.arg, n.arg)) if n.op is Op.LOAD else n

        return Kernel(self.result, self.axes, rewrite(self.value, change) if aliases else self.value, self.origin)


@contextmanager
def located(line: str) -> Iterator[None]:
    """Errors of capture from within name the line, unless it is empty or they name one already."""
    try:
        yield
    except CaptureError as error:
        if error.line or not line:
            raise
        raise CaptureError(error.reason, fix=error.fix, line=line, topic=error.topic) from error


def fresh_axis(extent: int, is_reduce: bool = False) -> Axis:
    """An axis that occurs nowhere else."""
    return Axis(next(_names), extent, is_reduce)


def fresh_array(dtype: DType, elements: int) -> Array:
    """A buffer that nothing has written yet."""
    return Array(next(_names), dtype, elements)


def index(value: int) -> Node:
    """A constant of an index expression."""
    return const(DType.INDEX, value)


def add(a: Node, b: Node) -> Node:
    """a + b of index expressions; zero is left out."""
    if a is index(0):
        return b
    return a if b is index(0) else binary(Op.ADD, a, b)


def scaled(a: Node, factor: int) -> Node:
    """a · factor of an index expression; one is left out."""
    return a if factor == 1 else index(0) if factor == 0 else binary(Op.MUL, a, index(factor))


def flat(axes: tuple[Axis, ...]) -> Node:
    """The element that row-major loops over the axes stand at."""
    total, stride = index(0), prod(axis.extent for axis in axes)
    for axis in axes:
        stride //= axis.extent or 1
        total = add(total, scaled(counter(axis), stride))
    return total


def less(a: Node, b: Node) -> Node:
    """a < b of indices: what guards are made of."""
    return binary(Op.CMPLT, a, b)


def where(condition: Node, yes: Node, no: Node) -> Node:
    """A choice between two expressions of one type."""
    return node(Op.WHERE, yes.dtype, condition, yes, no)


def bitcast(dtype: DType, value: Node) -> Node:
    """The bits of a value as another type of its width; itself if that is its type."""
    return value if value.dtype is dtype else node(Op.BITCAST, dtype, value)


def cast(dtype: DType, value: Node) -> Node:
    """The value in another type. As an index it is kept within int32, beyond which no tensor has elements to select."""
    if dtype is DType.INDEX and value.dtype.is_float:
        value = node(Op.CAST, DType.INT32, value)
    if dtype is DType.INDEX and value.dtype in (DType.INT64, DType.UINT64):
        value = binary(Op.MIN, value, const(value.dtype, INT32_MAX))
        value = binary(Op.MAX, value, const(value.dtype, ~INT32_MAX)) if value.dtype.is_signed else value
    return value if value.dtype is dtype else node(Op.CAST, dtype, value)
