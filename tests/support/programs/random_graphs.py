"""Random graphs of few elements with much to simplify, and inputs that hold every special value."""

from math import prod
from random import Random
from typing import Any

import numpy as np

from eigentensor.graph.arithmetic import cast
from eigentensor.graph.moves import broadcast, common_shape
from eigentensor.graph.node import Form, Graph, Node, constant, counter, data, leaf, node
from eigentensor.lowering.constants import float_pattern
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.ops import COMPARISONS, DType, Op
from eigentensor.program.signatures import UNIFORM

DTYPES = (
    DType.FLOAT32,
    DType.FLOAT32,
    DType.FLOAT32,
    DType.FLOAT16,
    DType.BFLOAT16,
    DType.INT32,
    DType.UINT8,
    DType.BOOL,
)
SPECIAL = (0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e-45, -6e-39, 65519.0, 3.4e38, 0.1, -2.5)
BINARY = (Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MAX, Op.MIN, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.FLOORDIV, Op.FLOORMOD)
MOVES = (Form.RESHAPE, Form.PERMUTE, Form.EXPAND, Form.SHRINK, Form.PAD, Form.FLIP)
FUNCTIONS = ("exp", "tanh", "log", "sigmoid")


def values(random: Random, dtype: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Elements of the type, half of them special."""
    if dtype.is_float:
        drawn = [random.choice(SPECIAL) if random.random() < 0.5 else random.gauss(0, 2) for _ in range(prod(shape))]
        elements = np.array([float_pattern(dtype, v) for v in drawn], f"u{dtype.size}").view(STORAGE[dtype])
    else:
        elements = np.array([random.choice((0, 1, 2, 255, random.randrange(256))) for _ in range(prod(shape))])
        elements = elements.astype(STORAGE[dtype]) - (STORAGE[dtype].type(3) if dtype is DType.INT32 else 0)
    return np.asarray(elements, STORAGE[dtype]).reshape(shape)


def graph(random: Random, size: int = 14) -> tuple[Graph, dict[str, np.ndarray[Any, Any]]]:
    """A graph of some operations, and its inputs."""
    inputs: dict[str, np.ndarray[Any, Any]] = {}
    nodes: list[Node] = []
    for name in "abc":
        dtype = random.choice(DTYPES)
        inputs[name] = values(random, dtype, tuple(random.choice((1, 2, 3)) for _ in range(random.randrange(3))))
        nodes.append(leaf(Form.INPUT, name, dtype, inputs[name].shape))
    for _ in range(random.randrange(1, size)):
        nodes.append(_next(random, nodes))
    nodes[-1] = _sum(random, nodes[-1]) if random.random() < 0.5 else nodes[-1]
    wanted = [nodes[-1], *random.sample(nodes, random.randrange(2))]
    return Graph({f"y{i}": n for i, n in enumerate(wanted)}), inputs


def _sum(random: Random, x: Node) -> Node:
    axes = tuple(axis for axis in range(len(x.shape)) if random.random() < 0.6)
    return node(Op.REDUCE_ADD, x, arg=axes) if axes else x


def _next(random: Random, nodes: list[Node]) -> Node:
    x = random.choice(nodes[-4:])
    return random.choice((_moved, _moved, _constant, _binary, _binary, _unary, _choice, _reduced, _gathered))(
        random, x, nodes
    )


def _product_sum(random: Random, x: Node, nodes: list[Node]) -> Node:
    """A sum of products, which rounds once a step, with something in between that changes no value."""
    if x.dtype is not DType.FLOAT32:
        return x
    term = node(Op.MUL, x, random.choice([x, _constant(random, x, nodes)]))
    same = [
        node(Op.MUL, term, constant(DType.FLOAT32, 0x3F800000, x.shape)),
        node(Op.ADD, constant(DType.FLOAT32, 0x80000000, x.shape), term),
        node(Op.MAX, term, term),
        node(Op.WHERE, constant(DType.BOOL, 1, x.shape), term, x),
        node(Op.CAST, term, arg=DType.FLOAT32),
        node(Form.CONTIGUOUS, term),
        node(Form.ROUNDED, term),
        term,
    ]
    return _sum(random, random.choice(same))


def _moved(random: Random, x: Node, _: list[Node]) -> Node:
    rank, form = (
        len(x.shape),
        random.choice((Form.RESHAPE, Form.PERMUTE, Form.EXPAND, Form.SHRINK, Form.PAD, Form.FLIP)),
    )
    if form is Form.RESHAPE:
        ones = [e for e in x.shape if e != 1]
        shapes = (x.shape, (1, *x.shape), tuple(ones), (x.elements,), (*x.shape, 1))
        return node(form, x, arg=random.choice(shapes))
    if form is Form.PERMUTE:
        return node(form, x, arg=tuple(random.sample(range(rank), rank)))
    if form is Form.EXPAND:
        return node(form, x, arg=tuple(random.choice((e, 2)) if e == 1 else e for e in x.shape))
    if form is Form.SHRINK:
        starts = [random.randrange(e) if e else 0 for e in x.shape]
        return node(
            form,
            x,
            arg=tuple((s, random.randint(s + 1, e)) if e else (0, 0) for s, e in zip(starts, x.shape, strict=True)),
        )
    if form is Form.PAD:
        return node(form, x, arg=tuple((random.randrange(2), random.randrange(2)) for _ in x.shape))
    return node(form, x, arg=tuple(axis for axis in range(rank) if random.random() < 0.5))


def _constant(random: Random, x: Node, _: list[Node]) -> Node:
    if random.random() < 0.2 and x.shape:
        return counter(x.shape, random.randrange(len(x.shape)))
    if random.random() < 0.2:
        drawn = values(random, x.dtype, x.shape)
        return data(x.dtype, x.shape, drawn.tobytes())
    value = random.choice(SPECIAL)
    return constant(x.dtype, float_pattern(x.dtype, value) if x.dtype.is_float else random.choice((0, 1)), x.shape)


def _binary(random: Random, x: Node, nodes: list[Node]) -> Node:
    y = random.choice([*nodes, _constant(random, x, nodes)])
    if random.random() < 0.3:
        y = x
    if y.dtype is not x.dtype or _differ(x, y):
        y = _constant(random, x, nodes)
    y = cast(y, x.dtype)
    shape = common_shape(x.shape, y.shape)
    if prod(shape) > 60:
        shape, y = x.shape, _constant(random, x, nodes)
    op = random.choice([op for op in (*BINARY, *COMPARISONS, Op.MUL) if x.dtype in UNIFORM[op]])
    pair = [broadcast(x, shape), broadcast(cast(y, x.dtype), shape)]
    random.shuffle(pair)
    return node(op, *pair)


def _differ(x: Node, y: Node) -> bool:
    return any(a != b and 1 not in (a, b) for a, b in zip(x.shape[::-1], y.shape[::-1], strict=False))


def _unary(random: Random, x: Node, _: list[Node]) -> Node:
    if random.random() < 0.2:
        return node(random.choice((Form.CONTIGUOUS, Form.ROUNDED)), x)
    if x.dtype.is_float and random.random() < 0.6:
        op = random.choice((Form.FUNCTION, Op.SQRT, Op.RECIPROCAL, Op.TRUNC, Op.BITCAST))
        if op is Op.BITCAST:
            bits = node(op, x, arg=DType.INT32 if x.dtype.size == 4 else DType.INT16)
            return node(op, bits, arg=x.dtype)
        return node(op, x, arg=random.choice(FUNCTIONS) if op is Form.FUNCTION else None)
    there = node(Op.CAST, x, arg=random.choice(DTYPES))
    return node(Op.CAST, there, arg=x.dtype) if random.random() < 0.6 else there


def _choice(random: Random, x: Node, nodes: list[Node]) -> Node:
    condition = constant(DType.BOOL, random.randrange(2), x.shape) if random.random() < 0.5 else node(Op.CMPLT, x, x)
    other = x if random.random() < 0.3 else _constant(random, x, nodes)
    other = other if other.dtype is x.dtype else x
    return node(Op.WHERE, condition, x, other)


def _reduced(random: Random, x: Node, _: list[Node]) -> Node:
    axes = tuple(axis for axis in range(len(x.shape)) if random.random() < 0.6)
    op = random.choice((Op.REDUCE_ADD, Op.REDUCE_ADD, Op.REDUCE_MAX, Op.REDUCE_MIN, Op.REDUCE_MUL))
    return node(op, x, arg=axes) if axes else x


def _gathered(random: Random, x: Node, _: list[Node]) -> Node:
    if not x.shape or x.elements > 20:
        return x
    rows = (
        counter((random.randint(1, 3),), 0)
        if random.random() < 0.5
        else constant(DType.INT32, random.randint(-1, 3), (2,))
    )
    return node(Form.GATHER, x, rows)


KINDS = (_moved, _moved, _constant, _binary, _binary, _unary, _choice, _reduced, _gathered, _product_sum)
