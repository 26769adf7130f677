"""The proof of bounds against all iterations: it never admits a load that leaves its parameter."""

from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor.program import Bounds, DType, Op
from eigentensor.program.bounds import prove
from eigentensor.program.expression import (
    Array,
    Axis,
    Named,
    Node,
    binary,
    const,
    counter,
    load,
    node,
    to_body,
    walk,
)
from eigentensor.program.intervals import RANGES

Values = np.ndarray[Any, np.dtype[np.int64]]
INDEX, BOOL, I8, U8, I16 = DType.INDEX, DType.BOOL, DType.INT8, DType.UINT8, DType.INT16
AXES = (Axis(0, 3), Axis(1, 5))
POS = Named("pos", Bounds(-2, 3))
DATA = {I8: Array("signed", I8, 1), U8: Array("unsigned", U8, 1)}
OF_INDEX = (Op.ADD, Op.SUB, Op.MUL, Op.FLOORDIV, Op.FLOORMOD, Op.CDIV, Op.CMOD, Op.MAX, Op.MIN, Op.AND, Op.OR)
OF_INTEGERS = (*OF_INDEX, Op.XOR, Op.SHL, Op.SHR)


class Expressions:
    """Random integer expressions over two loops, a variable and one byte of data."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.made: list[Node] = []
        self.data = random.choice((I8, U8))

    def value(self, dtype: DType, depth: int) -> Node:
        again = [n for n in self.made if n.dtype is dtype]
        if again and self.random.random() < 0.25:
            return self.random.choice(again)
        made = self._leaf(dtype) if depth == 0 else self._operation(dtype, depth)
        self.made.append(made)
        return made

    def condition(self, depth: int) -> Node:
        kind = self.random.randrange(6)
        if depth == 0 or kind < 3:
            dtype = self.random.choice((INDEX, INDEX, self.data))
            op = self.random.choice((Op.CMPLT, Op.CMPLT, Op.CMPNE, Op.CMPEQ))
            return binary(op, self.value(dtype, 1), self.value(dtype, 0))
        first = self.condition(depth - 1)
        if kind == 3:
            op, truth = (
                self.random.choice((Op.CMPNE, Op.CMPEQ, Op.XOR, Op.CMPLT)),
                const(BOOL, self.random.randrange(2)),
            )
            return binary(op, *self.random.choice(((first, truth), (truth, first))))
        op = self.random.choice((Op.AND, Op.AND, Op.OR, Op.MUL, Op.MIN, Op.MAX, Op.ADD))
        return binary(op, first, self.condition(depth - 1))

    def _leaf(self, dtype: DType) -> Node:
        if dtype is not INDEX:
            data = load(DATA[self.data], const(INDEX, 0))
            small = const(dtype, self.random.choice((0, 1, 2, 3, 7, -1, 100)))
            return self.random.choice((small, data if dtype is self.data else node(Op.CAST, dtype, data)))
        kind = self.random.randrange(4)
        if kind == 0:
            return const(INDEX, self.random.choice((0, 1, 2, 3, 5, -1, -4, 15)))
        return node(Op.VAR, INDEX, arg=POS) if kind == 1 else counter(self.random.choice(AXES))

    def _operation(self, dtype: DType, depth: int) -> Node:
        kind = self.random.randrange(10)
        if kind == 0:
            return node(Op.WHERE, dtype, self.condition(1), self.value(dtype, depth - 1), self.value(dtype, depth - 1))
        if kind < 3:
            narrow = [t for t in (self.data, I16, INDEX, BOOL) if t is not dtype]
            of = self.random.choice(narrow)
            return node(Op.CAST, dtype, self.condition(1) if of is BOOL else self.value(of, depth - 1))
        op = self.random.choice(OF_INDEX if dtype is INDEX else OF_INTEGERS)
        return node(op, dtype, self.value(dtype, depth - 1), self.value(dtype, self.random.randrange(depth)))


def wrap(dtype: DType, values: Values) -> Values:
    if dtype is INDEX:
        return values
    low, high = RANGES[dtype]
    return (values - low) % (high - low + 1) + low


def quotient(a: Values, b: Values, floor: bool) -> Values:
    down = a // np.where(b == 0, 1, b)
    exact = down * b == a
    return np.where(b == 0, 0, down if floor else np.where(((a < 0) != (b < 0)) & ~exact, down + 1, down))


def apply(n: Node, x: list[Values]) -> Values:
    """One operation on integers that are wide enough, before it wraps."""
    width = 8 * n.dtype.size
    if n.op in (Op.FLOORDIV, Op.CDIV):
        return quotient(x[0], x[1], n.op is Op.FLOORDIV)
    if n.op in (Op.FLOORMOD, Op.CMOD):
        return x[0] - x[1] * quotient(x[0], x[1], n.op is Op.FLOORMOD)
    if n.op in (Op.SHL, Op.SHR):
        far = (x[1] < 0) | (x[1] >= width)
        near = np.where(far, 0, x[1])
        if n.op is Op.SHL:
            return np.where(far, 0, x[0] << near)
        return np.where(far, np.where(x[0] < 0, -1, 0), x[0] >> near)
    if n.op is Op.WHERE:
        return np.where(x[0], x[1], x[2])
    if n.op is Op.CAST:
        return np.asarray(x[0] != 0, np.int64) if n.dtype is BOOL else x[0]
    if n.dtype is BOOL and n.op in (Op.ADD, Op.MUL):
        return np.maximum(*x) if n.op is Op.ADD else np.minimum(*x)
    return np.asarray(UFUNCS[n.op](*x), np.int64)


UFUNCS = {
    Op.ADD: np.add,
    Op.SUB: np.subtract,
    Op.MUL: np.multiply,
    Op.MAX: np.maximum,
    Op.MIN: np.minimum,
    Op.AND: np.bitwise_and,
    Op.OR: np.bitwise_or,
    Op.XOR: np.bitwise_xor,
    Op.CMPLT: np.less,
    Op.CMPNE: np.not_equal,
    Op.CMPEQ: np.equal,
}


def reached(element: Node, guard: Node | None, data: DType) -> Values:
    """All elements that are loaded, over all iterations, values of the variable and of the byte."""
    low, high = RANGES[data]
    points = np.meshgrid(np.arange(3), np.arange(5), np.arange(-2, 4), np.arange(low, high + 1))
    leaves = dict(zip((*AXES, POS, DATA[data]), (p.reshape(-1).astype(np.int64) for p in points), strict=True))
    values: dict[int, Values] = {}
    for n in walk(element) if guard is None else walk(element, guard):
        if n.op is Op.CONST:
            values[id(n)] = np.asarray(n.arg, np.int64)
        elif n.op in (Op.RANGE, Op.VAR, Op.LOAD):
            values[id(n)] = leaves[n.arg]
        else:
            values[id(n)] = wrap(n.dtype, apply(n, [values[id(s)] for s in n.src]))
    holds = True if guard is None else values[id(guard)] != 0
    return np.unique(np.broadcast_to(values[id(element)], leaves[POS].shape)[np.broadcast_to(holds, leaves[POS].shape)])


def proven(element: Node, guard: Node | None, elements: int) -> bool:
    proof = prove(to_body(load(Array("x", DType.FLOAT32, elements), element, guard), AXES).body)
    return proof.overflow is None and proof.outside is None


@settings(max_examples=200)
@given(st.integers(0, 1 << 32))
def test_a_load_that_leaves_its_parameter_is_never_admitted(seed: int) -> None:
    random = Random(seed)
    make = Expressions(random)
    element = make.value(INDEX, random.choice((1, 2, 3)))
    guard = make.condition(2) if random.random() < 0.7 else None
    if random.random() < 0.3:
        inside = binary(Op.CMPLT, const(INDEX, -1), element)
        guard = inside if guard is None else binary(Op.AND, guard, inside)
    indices = reached(element, guard, make.data)
    if not indices.size:
        return
    if indices[0] < 0:
        assert not proven(element, guard, 1 << 31)
    for short in {max(0, int(indices[-1])), max(0, int(indices[-1]) // 2)}:
        assert not proven(element, guard, short)


@settings(max_examples=60)
@given(st.integers(0, 1 << 32), st.integers(0, 40))
def test_a_guard_on_the_very_element_always_suffices(seed: int, elements: int) -> None:
    random = Random(seed)
    make = Expressions(random)
    element = make.value(INDEX, 3)
    conditions = [
        binary(Op.CMPLT, const(INDEX, -1), element),
        binary(Op.CMPLT, element, const(INDEX, elements)),
        *(make.condition(1) for _ in range(random.randrange(3))),
    ]
    random.shuffle(conditions)
    guard = conditions[0]
    for condition in conditions[1:]:
        guard = binary(Op.AND, guard, condition)
    assert proven(element, guard, elements)
