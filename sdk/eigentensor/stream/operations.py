"""What each instruction means: a node of a graph, made of its operands. Shapes and types are those of that node.

A number beside a tensor stands in the argument, as (operand that it is, number): floats as texts of their bits, so that
0.0 is not −0.0 and 1.0 not 1. A subscript stands there as a tuple of integers, None and (start, stop, step).
"""

import operator
import sys
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

from eigentensor.errors import CaptureError
from eigentensor.graph.creation import arange, concat, full
from eigentensor.graph.node import Form, Node, Shape, leaf, node
from eigentensor.graph.schedule import LEAVES
from eigentensor.graph.tensor import Tensor, matmul, maximum, minimum, where
from eigentensor.numerics.dtypes import DType
from eigentensor.program.ops import REDUCTIONS
from eigentensor.stream.draws import normal, uniform

_PACKAGE = str(Path(__file__).parents[1])
Meaning = Callable[..., Tensor]


class Kind:
    """Shape and type of a tensor: one object for each, so that identity is equality."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Shape, dtype: DType) -> None:
        self.shape, self.dtype = shape, dtype

    def __repr__(self) -> str:
        return f"{self.dtype.name.lower()}{list(self.shape)}"


_kinds: dict[tuple[Shape, DType], Kind] = {}


def kind_of(shape: Shape, dtype: DType) -> Kind:
    """The one kind of this shape and type."""
    known = _kinds.get((shape, dtype))
    return known if known is not None else _kinds.setdefault((shape, dtype), Kind(shape, dtype))


def encoded(number: float) -> Hashable:
    """A number as it stands in an argument: equal only to itself, bit for bit and type for type."""
    if isinstance(number, bool):
        return str(number)
    return number.hex() if isinstance(number, float) else number


def decoded(number: Any) -> float:
    """The number that `encoded` has written."""
    if not isinstance(number, str):
        return int(number)
    return number == "True" if number in ("True", "False") else float.fromhex(number)


def subscript(key: Any) -> tuple[Hashable, ...]:
    """A subscript of integers, slices, None and … as an argument. Raises CaptureError for anything else."""
    parts: list[Hashable] = []
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, slice):
            parts.append(tuple(None if at is None else operator.index(at) for at in (part.start, part.stop, part.step)))
        elif part is None or part is Ellipsis:
            parts.append(part)
        elif isinstance(part, bool) or not hasattr(part, "__index__"):
            raise CaptureError(
                f"{part!r} is no index", fix="Index with integers, slices, None and …; choose with where."
            )
        else:
            parts.append(operator.index(part))
    return tuple(parts)


def _between(function: Callable[[Any, Any], Any]) -> Meaning:
    """An operation of two tensors, or of one and the number that stands in the argument."""

    def of(arg: Any, *operands: Tensor) -> Tensor:
        if arg is None:
            result: Tensor = function(*operands)
            return result
        place, number = arg
        both: list[Any] = [*operands]
        both.insert(place, decoded(number))
        result = function(*both)
        return result

    return of


def _method(name: str) -> Meaning:
    method = getattr(Tensor, name)

    def of(_: None, x: Tensor) -> Tensor:
        result: Tensor = method(x)
        return result

    return of


def _along(name: str) -> Meaning:
    """A method that takes axes and keepdims, which are the argument."""
    method = getattr(Tensor, name)

    def of(arg: tuple[Any, bool], x: Tensor) -> Tensor:
        result: Tensor = method(x, *arg)
        return result

    return of


def _indexed(arg: tuple[Any, ...], x: Tensor) -> Tensor:
    return x[tuple(slice(*part) if isinstance(part, tuple) else part for part in arg)]


def _choice(arg: Any, *operands: Tensor) -> Tensor:
    """Of three tensors, or of two and a number: (place, number)."""
    parts: list[Any] = [*operands]
    if arg is not None:
        parts.insert(arg[0], decoded(arg[1]))
    return where(*parts)


#: What takes two operands, one of which may be a number.
BETWEEN: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "pow": operator.pow,
    "floordiv": operator.floordiv, "mod": operator.mod, "maximum": maximum, "minimum": minimum,
    "lt": operator.lt, "le": operator.le, "eq": operator.eq, "ne": operator.ne,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
}  # fmt: skip
#: What takes one tensor and no argument.
UNARY = ("exp", "log", "sqrt", "relu", "sigmoid", "tanh", "sin", "cos", "reciprocal", "gelu", "silu", "softplus")
#: What takes axes and keepdims.
ALONG = ("sum", "mean", "max", "min", "argmax", "argmin")

OPERATIONS: dict[str, Meaning] = {
    **{name: _between(function) for name, function in BETWEEN.items()},
    **{name: _method(name) for name in UNARY},
    **{name: _along(name) for name in ALONG},
    "neg": lambda _, x: -x,
    "abs": lambda _, x: abs(x),
    "not": lambda _, x: ~x,
    "cast": lambda dtype, x: x.astype(dtype),
    "reshape": lambda shape, x: x.reshape(shape),
    "permute": lambda axes, x: x.transpose(axes),
    "expand": lambda shape, x: x.broadcast_to(shape),
    "index": _indexed,
    "rows": lambda _, x, numbers: x[numbers],
    "pad": lambda widths, x: x.pad(widths),
    "flip": lambda axes, x: x.flip(axes),
    "concat": lambda axis, *parts: concat(parts, axis),
    "where": _choice,
    "matmul": lambda _, a, b: matmul(a, b),
    "full": lambda arg: full(arg[0], decoded(arg[2]), arg[1]),
    "arange": lambda arg: arange(*arg),
    "uniform": uniform,
    "normal": normal,
}


def meaning(op: str, arg: Any, *operands: Node) -> Node:
    """The node of an instruction. What could end in a product is rounded: no sum of another instruction joins it, so
    that bits do not depend on where a run of instructions ends."""
    made = OPERATIONS[op](arg, *map(Tensor, operands)).node
    below = made
    while isinstance(below.op, Form) and below.op in _MOVES:
        below = below.src[0]
    is_apart = below.op in LEAVES or below.op is Form.ROUNDED or (below.op in REDUCTIONS and not _is_short(below))
    return made if is_apart or made.dtype is not DType.FLOAT32 else node(Form.ROUNDED, made)


_MOVES = frozenset(
    {Form.RESHAPE, Form.PERMUTE, Form.EXPAND, Form.SHRINK, Form.FLIP, Form.PAD, Form.GATHER}
)  # no product comes or goes by them


def _is_short(n: Node) -> bool:
    """Whether a reduction takes at most one step, so that it is its term."""
    return n.src[0].elements <= n.elements


def kind_of_result(op: str, arg: Any, kinds: Sequence[Kind]) -> Kind:
    """Shape and type of what an instruction makes.

    Raises CaptureError, with the user's line, if the operands do not fit.
    """
    operands = [Tensor(leaf(Form.INPUT, f"x{n}", kind.dtype, kind.shape)) for n, kind in enumerate(kinds)]
    try:
        made = OPERATIONS[op](arg, *operands)
    except CaptureError as error:
        raise CaptureError(error.reason, fix=error.fix, line=user_line()) from None
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        what = f"{op} of {', '.join(map(str, kinds)) or 'nothing'} with {arg}: {error}"
        raise CaptureError(what, fix="Look at what it takes.", line=user_line()) from None
    return kind_of(made.shape, made.dtype)


def user_line() -> str:
    """The line outside of this package that is being executed."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
