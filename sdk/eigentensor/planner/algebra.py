"""What rewrites are written with: numbers as tensors, and operations that pass through movements."""

from math import isfinite

import numpy as np

from eigentensor.graph.node import Form, Node, constant, node, remade, rewrite
from eigentensor.numerics.conversion import cast
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.floats import widen
from eigentensor.numerics.operations import from_pattern
from eigentensor.program.ops import Op

#: Movements whose elements are elements of what they move, nothing added.
PLAIN = frozenset({Form.RESHAPE, Form.PERMUTE, Form.EXPAND, Form.SHRINK, Form.FLIP})


def number(like: Node, value: float) -> Node:
    """A tensor of one number, rounded to the float type of `like`, in its shape."""
    array = cast(DType.FLOAT32, like.dtype, np.asarray(value, np.float32))
    pattern = int(array.view(f"u{like.dtype.size}"))
    return constant(like.dtype, pattern, like.shape)


def value_of(n: Node) -> float | None:
    """The number that a float tensor is everywhere, if it is a constant, however moved; None if it is not."""
    while n.op in PLAIN:
        n = n.src[0]
    if n.op is not Op.CONST or not n.dtype.is_float:
        return None
    value = float(widen(n.dtype, from_pattern(n.dtype, n.arg)))
    return value if isfinite(value) else None


def is_number(n: Node, value: float) -> bool:
    """Whether all elements are this constant."""
    return value_of(n) == value


def function(name: str, x: Node) -> Node:
    """A function of `lowering.functions`, by name, of each element."""
    return node(Form.FUNCTION, x, arg=name)


def add(a: Node, b: Node | float) -> Node:
    """a + b; a number takes a's type and shape."""
    return node(Op.ADD, a, b if isinstance(b, Node) else number(a, b))


def multiply(a: Node, b: Node | float) -> Node:
    """a · b; a number takes a's type and shape."""
    return node(Op.MUL, a, b if isinstance(b, Node) else number(a, b))


def negative(x: Node) -> Node:
    """−x, as the product with −1 that other rules look for."""
    return multiply(x, -1)


def magnitude(x: Node) -> Node:
    """|x| as the larger of x and −x."""
    return node(Op.MAX, x, negative(x))


def with_sign_of(x: Node, positive: Node) -> Node:
    """The value, negative where x is."""
    return node(Op.WHERE, node(Op.CMPLT, x, number(x, 0)), negative(positive), positive)


def below_movement(op: Op | Form, x: Node, arg: object = None) -> Node:
    """op(x) for an operation of one operand, computed where x is smallest: below movements that repeat it."""
    chain: list[Node] = []
    base, smallest = x, 0
    while base.op in PLAIN:
        chain.append(base)
        base = base.src[0]
        if base.elements < (chain[smallest - 1].src[0] if smallest else x).elements:
            smallest = len(chain)
    result = node(op, chain[smallest - 1].src[0] if smallest else x, arg=arg)
    for moved in reversed(chain[:smallest]):
        result = remade(moved, (result,))
    return result


def unmoved(n: Node) -> Node:
    """What a tensor is before it is moved."""
    while n.op in PLAIN:
        n = n.src[0]
    return n


def substituted(within: Node, old: Node, new: Node) -> Node:
    """A tensor in which `new` stands for `old`."""
    return rewrite((within,), lambda n: new if n is old else n)[0]


def constant_along(n: Node, axes: tuple[int, ...]) -> Node | None:
    """The tensor without axes along which it only repeats itself; None if it does more."""
    kept = tuple(extent for axis, extent in enumerate(n.shape) if axis not in axes)
    if n.op is Op.CONST:
        return constant(n.dtype, n.arg, kept)
    if n.op is not Form.EXPAND or any(n.src[0].shape[axis] != 1 for axis in axes):
        return None
    source = n.src[0]
    small = node(Form.RESHAPE, source, arg=tuple(e for axis, e in enumerate(source.shape) if axis not in axes))
    return small if small.shape == kept else node(Form.EXPAND, small, arg=kept)
