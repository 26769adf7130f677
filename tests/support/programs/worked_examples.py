"""Small programs that documentation, vectors and tests share, and what they are run on."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.program import Bounds, Buffer, DType, Kind, Op, Program, Role, Variable
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import (
    Array,
    Axis,
    Named,
    Node,
    binary,
    conjunction,
    const,
    counter,
    load,
    node,
    reduction,
    to_body,
)
from support.generated.programs import Example

F32, I32, INDEX = DType.FLOAT32, DType.INT32, DType.INDEX


def index(value: int) -> Node:
    return const(INDEX, value)


def add(a: Node, b: Node) -> Node:
    return binary(Op.ADD, a, b)


def mul(a: Node, b: Node) -> Node:
    return binary(Op.MUL, a, b)


def less(a: Node, b: Node) -> Node:
    return binary(Op.CMPLT, a, b)


def layer() -> Example:
    """hidden = x @ w; output = max(hidden + b, 0)"""
    x, w, b = Array("x", F32, 6), Array("w", F32, 12), Array("b", F32, 4)
    i, j, k = Axis(0, 2), Axis(1, 4), Axis(2, 3, True)
    row = add(mul(counter(i), index(3)), counter(k))
    column = add(mul(counter(k), index(4)), counter(j))
    hidden = to_body(reduction(Op.REDUCE_MULACC, (k,), load(x, row), load(w, column)), (i, j))
    element = add(mul(counter(i), index(4)), counter(j))
    total = add(load(Array("hidden", F32, 8), element), load(b, counter(j)))
    output = to_body(binary(Op.MAX, total, const(F32, 0)), (i, j))
    program = assemble(
        [("hidden", hidden), ("output", output)],
        {
            "x": Buffer(Role.INPUT, F32, (2, 3), "x"),
            "b": Buffer(Role.WEIGHT, F32, (4,), "b"),
            "w": Buffer(Role.WEIGHT, F32, (3, 4), "w"),
        },
        {(Kind.OUTPUT, "output"): ("output", (2, 4))},
    )
    tensors: dict[str, NDArray[Any]] = {
        "x": np.array([[1, 2, 3], [-1, 0.5, 0.25]], np.float32),
        "b": np.array([0.5, -1, 0, 2], np.float32),
        "w": np.arange(12, dtype=np.float32).reshape(3, 4) / 8,
    }
    return Example(program, tensors, {}, 1)


def session() -> Example:
    """cache[pos] = token + offsets[token] (0 where there is none); output = sum of cache[: pos + 1]; twice"""
    cache, token, offsets = Array("cache", I32, 4), Array("token", I32, 1), Array("offsets", I32, 3)
    i, k = Axis(0, 4), Axis(1, 4, True)
    pos = node(Op.VAR, INDEX, arg=Named("pos", Bounds(0, 3)))
    value = load(token, index(0))
    at = node(Op.CAST, INDEX, value)
    offset = load(offsets, at, conjunction(less(index(-1), at), less(at, index(3))))
    here = binary(Op.CMPEQ, counter(i), pos)
    new = to_body(node(Op.WHERE, I32, here, add(value, offset), load(cache, counter(i))), (i,))
    filled = load(Array("new", I32, 4), counter(k))
    total = to_body(reduction(Op.REDUCE_ADD, (k,), filled, extents=(add(pos, index(1)),)), ())
    program = assemble(
        [("new", new), ("total", total)],
        {
            "token": Buffer(Role.INPUT, I32, (), "token"),
            "cache": Buffer(Role.STATE, I32, (4,), "cache"),
            "offsets": Buffer(Role.CONSTANT, I32, (3,), data=np.array([10, 20, 30], "<i4").tobytes()),
        },
        {(Kind.OUTPUT, "output"): ("total", ()), (Kind.STATE, "cache"): ("new", (4,))},
        [Variable("pos", 0, 3, 1)],
        max_repeat=4,
    )
    tensors = {"token": np.array(2, np.int32), "cache": np.array([7, 0, 0, 0], np.int32)}
    return Example(program, tensors, {"pos": 1}, 2)


def sums(elements: int, steps: int) -> Program:
    """`elements` sums of so many steps."""
    i, k = Axis(0, elements), Axis(1, steps, True)
    body = to_body(reduction(Op.REDUCE_ADD, (k,), load(Array("x", DType.INT8, elements), counter(i))), (i,))
    return assemble(
        [("total", body)],
        {"x": Buffer(Role.INPUT, DType.INT8, (elements,), "x")},
        {(Kind.OUTPUT, "total"): ("total", (elements,))},
    )
