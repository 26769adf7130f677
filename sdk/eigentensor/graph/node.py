"""Tensors of a graph, before anything is cut into kernels: immutable, hash-consed, every shape known."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, auto
from math import prod
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

from numpy.typing import NDArray

from eigentensor.errors import CaptureError
from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Variable
from eigentensor.program.ops import COMPARISONS, REDUCTIONS, Op

Shape = tuple[int, ...]


class Form(IntEnum):
    """What a node can be besides an operation of the format; `arg` and operands of each."""

    INPUT = 128  # arg: name; beyond the codes of operations, so that none is equal to a form
    WEIGHT = auto()  # arg: name
    STATE = auto()  # arg: name; the value that goes in
    DATA = auto()  # arg: the little-endian bytes of its elements, few enough to stand in the program
    VARIABLE = auto()  # arg: Variable; an int32 of shape ()
    COUNTER = auto()  # arg: axis; an int32, the index along that axis
    FUNCTION = auto()  # x (power: x, y); arg: the name of a function of `lowering.functions`; x is a float
    RESHAPE = auto()  # x; arg: shape, as many elements in row-major order
    PERMUTE = auto()  # x; arg: for each axis the axis of x that it is
    EXPAND = auto()  # x; arg: shape, in which axes of extent 1 are repeated
    SHRINK = auto()  # x; arg: (start, stop) for each axis
    PAD = auto()  # x; arg: (before, after) for each axis: so many zeros
    FLIP = auto()  # x; arg: the axes that are reversed
    GATHER = auto()  # table, indices: rows of the table by number; zeros where there is no such row
    CONTIGUOUS = auto()  # x, stored: whoever uses it loads it
    ROUNDED = auto()  # x as it would be if it were stored: a product in it is no term that a sum accumulates


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Node:
    """A tensor: equal nodes are the same object, so identity is equality.

    `op` is a Form or an operation of the format: elementwise ones take operands of one shape, CONST has in `arg` its
    value (floats: the bit pattern) for all its elements, CAST and BITCAST a DType, REDUCE_* the axes that go away, in
    ascending order; REDUCE_MULACC does not occur: a sum of products becomes one where kernels are made. After what it
    reduces, a REDUCE_* may have an int32 of shape () for each axis, made of variables and numbers: so many elements of
    the axis count, the first ones.
    """

    op: Op | Form
    dtype: DType
    shape: Shape
    src: tuple["Node", ...] = ()
    arg: Any = None

    @property
    def elements(self) -> int:
        """How many elements the tensor has."""
        return prod(self.shape)

    def __repr__(self) -> str:
        arg = "" if self.arg is None else f" {self.arg}"
        return f"{self.op.name}({', '.join(map(repr, self.src))}{arg}){list(self.shape)}"


@dataclass(frozen=True)
class Graph:
    """Named results of nodes, and the data that the author has: weights and first values of states by name.

    `states` are the new values of the STATE nodes.
    """

    outputs: Mapping[str, Node]
    states: Mapping[str, Node] = field(default_factory=dict)
    data: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def roots(self) -> tuple[Node, ...]:
        """All results, outputs first: what is lowered."""
        return (*self.outputs.values(), *self.states.values())


_interned: "WeakValueDictionary[tuple[object, ...], Node]" = WeakValueDictionary()
_interning = Lock()


def _node(op: Op | Form, dtype: DType, shape: Shape, src: tuple[Node, ...] = (), arg: Hashable = None) -> Node:
    key = (type(op), op, dtype, shape, tuple(map(id, src)), arg)
    result = _interned.get(key)
    if result is None:
        with _interning:  # of two threads, both get what one of them made
            result = _interned.get(key)
            if result is None:
                result = _interned[key] = Node(op, dtype, shape, src, arg)
    return result


def leaf(form: Form, name: str, dtype: DType, shape: Shape) -> Node:
    """An INPUT, WEIGHT or STATE."""
    return _node(form, dtype, shape, arg=name)


def variable(of: Variable) -> Node:
    """The value of a program's variable in an iteration, as an int32 of shape ()."""
    return _node(Form.VARIABLE, DType.INT32, (), arg=of)


def constant(dtype: DType, value: int, shape: Shape = ()) -> Node:
    """A tensor of one value everywhere: an integer within its type, or the bit pattern of a float."""
    return _node(Op.CONST, dtype, shape, arg=value)


def data(dtype: DType, shape: Shape, elements: bytes) -> Node:
    """A tensor of these little-endian elements; those that stand in a program are limited to a few KiB."""
    return _node(Form.DATA, dtype, shape, arg=elements)


def counter(shape: Shape, axis: int) -> Node:
    """An int32 of this shape: each element is its own index along the axis."""
    return _node(Form.COUNTER, DType.INT32, shape, arg=axis)


def node(op: Op | Form, *src: Node, arg: Any = None) -> Node:
    """The one node of these parts, no leaf. Raises CaptureError if the shapes or types of the operands do not fit."""
    if isinstance(op, Form):
        return _node(op, src[0].dtype, _moved(op, src, arg), src, arg)
    if op in REDUCTIONS:
        shape = tuple(extent for axis, extent in enumerate(src[0].shape) if axis not in arg)
        return _node(op, src[0].dtype, shape, src, arg)
    if len({s.shape for s in src}) > 1:
        raise CaptureError(f"{op.name} of shapes {[s.shape for s in src]}", fix="Expand them to one shape first.")
    dtype = arg if op in (Op.CAST, Op.BITCAST) else DType.BOOL if op in COMPARISONS else src[-1].dtype
    return _node(op, dtype, src[0].shape, src, arg)


def _moved(form: Form, src: tuple[Node, ...], arg: Any) -> Shape:
    shape = src[0].shape
    match form:
        case Form.RESHAPE:
            if prod(arg) != prod(shape):
                raise CaptureError(f"{shape} cannot be reshaped to {arg}", fix="Keep the number of elements.")
            return tuple(arg)
        case Form.PERMUTE:
            return tuple(shape[axis] for axis in arg)
        case Form.EXPAND:
            if len(arg) != len(shape) or any(old not in (1, new) for old, new in zip(shape, arg, strict=True)):
                raise CaptureError(f"{shape} cannot be expanded to {arg}", fix="Only axes of extent 1 are repeated.")
            return tuple(arg)
        case Form.SHRINK:
            return tuple(stop - start for start, stop in arg)
        case Form.PAD:
            return tuple(before + extent + after for extent, (before, after) in zip(shape, arg, strict=True))
        case Form.GATHER:
            return (*src[1].shape, *shape[1:])
    return shape


def is_bounded(n: Node) -> bool:
    """Whether a reduction says how many elements of its axes count."""
    return n.op in REDUCTIONS and len(n.src) > 1


def is_single(n: Node) -> bool:
    """Whether a reduction has one step only, so that it is its term."""
    return n.op in REDUCTIONS and n.elements == n.src[0].elements and not is_bounded(n)


def remade(of: Node, src: tuple[Node, ...]) -> Node:
    """The node with other operands."""
    return of if src == of.src else node(of.op, *src, arg=of.arg)


def walk(*roots: Node) -> Iterator[Node]:
    """Every node below the roots once, operands before users."""
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        current, finished = stack.pop()
        if finished:
            yield current
        elif id(current) not in seen:
            seen.add(id(current))
            stack.append((current, True))
            stack.extend((s, False) for s in reversed(current.src) if id(s) not in seen)


def rewrite(roots: tuple[Node, ...], change: Callable[[Node], Node]) -> tuple[Node, ...]:
    """The roots rebuilt bottom-up: `change` sees each node once, with operands that are changed already."""
    done: dict[int, Node] = {}
    for current in walk(*roots):
        done[id(current)] = change(remade(current, tuple(done[id(s)] for s in current.src)))
    return tuple(done[id(root)] for root in roots)
