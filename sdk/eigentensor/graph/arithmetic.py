"""Operations of whole tensors as nodes: types are promoted, shapes broadcast, then it is one of the format's."""

from collections.abc import Sequence
from math import prod
from typing import Any

from eigentensor.graph.moves import axes_of, broadcast, common_shape, permute, reshape
from eigentensor.graph.node import Form, Node, counter, node
from eigentensor.graph.types import literal, name, number, promoted, refused, scalar_type
from eigentensor.program.ops import DType, Op
from eigentensor.program.signatures import UNIFORM

_HALVES = (DType.FLOAT16, DType.BFLOAT16)
#: Whole powers up to this are products.
PRODUCTS = 8


def cast(x: Node, dtype: DType) -> Node:
    """The tensor in another type; itself if it has that type already."""
    return x if x.dtype is dtype else node(Op.CAST, x, arg=dtype)


def together(*operands: Any) -> list[Node]:
    """The operands, nodes and numbers and arrays, in one type and one shape."""
    nodes = [x if isinstance(x, Node | bool | int | float) else literal(x) for x in operands]
    tensors = [x for x in nodes if isinstance(x, Node)]
    dtype, shape = tensors[0].dtype, common_shape(*(x.shape for x in tensors))
    for t in tensors[1:]:
        dtype = promoted(dtype, t.dtype)
    for x in nodes:
        if not isinstance(x, Node):
            dtype = promoted(dtype, scalar_type(x, dtype))
    return [broadcast(cast(x, dtype), shape) if isinstance(x, Node) else number(x, dtype, shape) for x in nodes]


def binary(op: Op, a: Any, b: Any) -> Node:
    """An operation of the format on two tensors of one type and shape, made so by `together`.

    Raises CaptureError for a type that it is not defined on.
    """
    first, second = together(a, b)
    if first.dtype not in UNIFORM[op]:
        raise refused(f"{op.name.lower()} is not defined on {name(first.dtype)}", "Cast with astype.")
    return node(op, first, second)


def is_false(x: Node) -> Node:
    """Whether each bool is false."""
    return node(Op.CMPEQ, x, number(False, DType.BOOL, x.shape))


def at_most(a: Any, b: Any) -> Node:
    """a ≤ b; false where one is NaN."""
    first, second = together(a, b)
    if not first.dtype.is_float:
        return is_false(node(Op.CMPLT, second, first))
    return node(Op.OR, node(Op.CMPLT, first, second), node(Op.CMPEQ, first, second))


def triangle(x: Node, lowest: int | None, highest: int | None) -> Node:
    """x where the column less the row, of the last two axes, is within these bounds; zeros elsewhere."""
    rank = len(x.shape)
    if rank < 2:
        raise refused(f"{x.shape} has no diagonals", "Give a tensor with at least two axes.")
    rows, columns = counter(x.shape, rank - 2), counter(x.shape, rank - 1)
    for bound, first, second in ((lowest, columns, rows), (highest, rows, columns)):
        if bound is not None:
            offset = bound if bound is lowest else -bound
            is_out = binary(Op.CMPLT, binary(Op.SUB, first, second), offset)
            x = node(Op.WHERE, is_out, number(0, x.dtype, x.shape), x)
    return x


def divide(a: Any, b: Any) -> Node:
    """a/b, of integers in float32."""
    first, second = together(a, b)
    return node(Op.DIV, *(x if x.dtype.is_float else cast(x, DType.FLOAT32) for x in (first, second)))


def floor(x: Node) -> Node:
    """The largest whole number that is not above each element: truncated, and one less where that went up.

    Integers are whole.
    """
    if not x.dtype.is_float:
        return x
    whole = node(Op.TRUNC, x)
    return node(Op.WHERE, node(Op.CMPLT, x, whole), node(Op.SUB, whole, number(1, x.dtype, x.shape)), whole)


def floor_divide(a: Any, b: Any) -> Node:
    """The quotient towards −∞; of floats that of the rounded division."""
    first, second = together(a, b)
    return floor(node(Op.DIV, first, second)) if first.dtype.is_float else binary(Op.FLOORDIV, first, second)


def remainder(a: Any, b: Any) -> Node:
    """What is left of a after whole multiples of b, with the sign of b."""
    first, second = together(a, b)
    if not first.dtype.is_float:
        return binary(Op.FLOORMOD, first, second)
    return node(Op.SUB, first, node(Op.MUL, floor(node(Op.DIV, first, second)), second))


def negative(x: Node) -> Node:
    """Each element times −1, so that 0.0 becomes −0.0; unsigned integers wrap. Raises CaptureError for bools."""
    if x.dtype is DType.BOOL:
        raise refused("a bool has no negative", "Use ~ for what is not.")
    return node(Op.MUL, x, number(-1, x.dtype, x.shape)) if x.dtype.is_signed or x.dtype.is_float else _wrapped(x)


def _wrapped(x: Node) -> Node:
    return node(Op.SUB, number(0, x.dtype, x.shape), x)


def real(x: Node) -> Node:
    """x as a float: integers and bools in float32."""
    return x if x.dtype.is_float else cast(x, DType.FLOAT32)


def function(of: str, x: Node) -> Node:
    """A function of `lowering.functions`."""
    return node(Form.FUNCTION, real(x), arg=of)


def unary(op: Op, x: Node) -> Node:
    """An operation that is defined on floats only; integers become float32 first."""
    return node(op, real(x))


def power(a: Any, b: Any) -> Node:
    """a to the power of b: small whole powers are products, ½ is the square root."""
    if isinstance(a, Node) and isinstance(b, int | float) and not isinstance(b, bool):
        if b == int(b) and (0 if not a.dtype.is_float else -PRODUCTS) <= b <= PRODUCTS:
            x = _product(a, abs(int(b)))
            return unary(Op.RECIPROCAL, x) if b < 0 else x
        if b == 0.5:
            return unary(Op.SQRT, a)
    first, second = together(a, b)
    if not first.dtype.is_float:
        raise refused("integers to a power that varies, or is large or negative", "Cast to float32 with astype.")
    return node(Form.FUNCTION, first, second, arg="power")


def _product(x: Node, times: int) -> Node:
    if times == 0:
        return number(1, x.dtype, x.shape)
    half = _product(x, times // 2) if times > 1 else x
    square = node(Op.MUL, half, half) if times > 1 else x
    return node(Op.MUL, square, x) if times % 2 and times > 1 else square


def reduced(op: Op, x: Node, axis: int | Sequence[int] | None, keepdims: bool) -> Node:
    """A reduction over the axes, all of them for None. Of no elements it is the operation's identity."""
    axes = axes_of(axis, len(x.shape))
    total = node(op, x, arg=axes) if axes else x
    return reshape(total, [1 if a in axes else e for a, e in enumerate(x.shape)]) if keepdims else total


def accumulated(x: Node) -> Node:
    """The tensor in the type in which it is summed: half types in float32, narrow integers and bools in 32 bits."""
    if x.dtype in _HALVES:
        return cast(x, DType.FLOAT32)
    if x.dtype is DType.BOOL or (x.dtype.is_integer and x.dtype.size < 4):
        return cast(x, DType.INT32 if x.dtype is DType.BOOL or x.dtype.is_signed else DType.UINT32)
    return x


def rounded(total: Node, dtype: DType) -> Node:
    """A sum in the type of its terms, if that is a half type."""
    return cast(total, dtype) if dtype in _HALVES else total


def total(op: Op, x: Node, axis: int | Sequence[int] | None, keepdims: bool) -> Node:
    """Sum or product."""
    return rounded(reduced(op, accumulated(x), axis, keepdims), x.dtype)


def mean(x: Node, axis: int | Sequence[int] | None, keepdims: bool) -> Node:
    """The sum times 1/n."""
    count = prod(x.shape[a] for a in axes_of(axis, len(x.shape)))
    if not count:
        raise refused(f"the mean of no elements of {x.shape}", "Leave out the empty axis.")
    wide = real(accumulated(x))
    summed = reduced(Op.REDUCE_ADD, wide, axis, keepdims)
    return rounded(node(Op.MUL, summed, number(1 / count, wide.dtype, summed.shape)), x.dtype)


def matmul(a: Node, b: Node) -> Node:
    """The product of matrices over the last two axes, of vectors where there is only one; others broadcast."""
    if not a.shape or not b.shape:
        raise refused("a number in a product of matrices", "Use * instead.")
    left = reshape(a, (1, *a.shape)) if len(a.shape) == 1 else a
    right = reshape(b, (*b.shape, 1)) if len(b.shape) == 1 else b
    if left.shape[-1] != right.shape[-2]:
        raise refused(f"{a.shape} @ {b.shape}: {left.shape[-1]} columns, {right.shape[-2]} rows", "Transpose one.")
    dtype = promoted(a.dtype, b.dtype)
    rank = len(right.shape)
    turned = permute(right, (*range(rank - 2), rank - 1, rank - 2))
    rows = reshape(left, (*left.shape[:-1], 1, left.shape[-1]))
    columns = reshape(turned, (*turned.shape[:-2], 1, *turned.shape[-2:]))
    terms = accumulated(binary(Op.MUL, cast(rows, dtype), cast(columns, dtype)))
    product = cast(node(Op.REDUCE_ADD, terms, arg=(len(terms.shape) - 1,)), dtype)
    shape = list(product.shape)
    if len(b.shape) == 1:
        shape.pop()
    if len(a.shape) == 1:
        shape.pop(-1 if len(b.shape) == 1 else -2)
    return reshape(product, shape)


def choice(condition: Node, a: Any, b: Any) -> Node:
    """`a` where the condition holds, else `b`, all broadcast to one shape.

    Both are computed. Raises CaptureError unless the condition is of bools.
    """
    if condition.dtype is not DType.BOOL:
        raise refused(f"a condition of {name(condition.dtype)}", "Compare it: x != 0.")
    if not any(isinstance(x, Node) for x in (a, b)):
        a = literal(a)
    yes, no = together(a, b)
    shape = common_shape(condition.shape, yes.shape)
    return node(Op.WHERE, broadcast(condition, shape), broadcast(yes, shape), broadcast(no, shape))
