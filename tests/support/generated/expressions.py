"""Random expressions over arrays: every operation and type, loads of every kind, reductions one after the other."""

from collections.abc import Sequence
from math import prod
from random import Random
from typing import Any, NamedTuple

import numpy as np

from eigentensor.numerics.dtypes import CANONICAL_NAN, INFINITY
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.expression import (
    Array,
    Axis,
    Lowered,
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
from eigentensor.program.model import Bounds, Variable
from eigentensor.program.ops import COMPARISONS, REDUCTIONS, DType, Op
from eigentensor.program.signatures import STORED, UNIFORM
from support.generated.edges import edges

INDEX, BOOL = DType.INDEX, DType.BOOL
TYPES = sorted(STORED)
EDGES = {dtype: edges(dtype) for dtype in TYPES}
#: More loads than this in one body could be too many to be judged.
LOADS = 10


def tensor(random: Random, dtype: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Elements of which a third are values at which operations go wrong."""
    patterns = [pattern(random, dtype) for _ in range(prod(shape))]
    return np.array(patterns, f"<u{dtype.size}").view(STORAGE[dtype].newbyteorder("<")).reshape(shape)


def pattern(random: Random, dtype: DType) -> int:
    """The bits of one element: an edge, anything, or a small number."""
    kind = random.randrange(3)
    if kind == 0 or dtype is BOOL:
        return random.choice(EDGES[dtype])
    if kind == 1:
        return random.getrandbits(8 * dtype.size)
    if not dtype.is_float:
        return random.randrange(-9, 10) & (1 << 8 * dtype.size) - 1
    small = random.uniform(-4, 4)
    if dtype is DType.FLOAT16:
        return int(np.float16(small).view(np.uint16))
    return int(np.float32(small).view(np.uint32)) >> (16 if dtype is DType.BFLOAT16 else 0)


class _Scope(NamedTuple):
    """What an expression may use: loop counters, and the values of reductions that are finished."""

    axes: tuple[Axis, ...]
    values: tuple[Node, ...] = ()


class Expressions:
    """Bodies over these arrays and variables."""

    def __init__(self, random: Random, arrays: Sequence[Array], variables: Sequence[Variable]) -> None:
        self.random, self.arrays, self.variables = random, arrays, variables
        self.loads = self.axes = 0

    def body(self, shape: tuple[int, ...], dtype: DType) -> Lowered:
        """An expression of a type for each element of a shape, with up to three reductions."""
        self.loads = 0
        scope = _Scope(tuple(self._axis(extent) for extent in shape))
        for _ in range(self.random.choice((0, 0, 1, 1, 2, 3))):
            scope = scope._replace(values=(*scope.values, self._reduction(scope)))
        value = self._value(dtype, 4, scope)
        for finished in scope.values:
            if self.random.random() < 0.7:
                op = self.random.choice((Op.ADD, Op.MAX, Op.MIN, Op.MUL))
                value = binary(op, value, node(Op.CAST, dtype, finished))
        return to_body(value, scope.axes)

    def _axis(self, extent: int, is_reduce: bool = False) -> Axis:
        self.axes += 1
        return Axis(self.axes, extent, is_reduce)

    def _reduction(self, scope: _Scope) -> Node:
        counts = [self._extent() for _ in range(self.random.choice((1, 1, 2)))]
        axes = tuple(self._axis(most, True) for _, most in counts)
        op = self.random.choice(sorted(REDUCTIONS))
        dtype = self.random.choice(sorted(UNIFORM[op]))
        inner = scope._replace(axes=scope.axes + axes)
        terms = [self._value(dtype, 2, inner) for _ in range(2 if op is Op.REDUCE_MULACC else 1)]
        return reduction(op, axes, *terms, extents=tuple(count for count, _ in counts))

    def _extent(self) -> tuple[Node, int]:
        """A trip count and its largest value."""
        if self.variables and self.random.random() < 0.3:
            value, most = _from_zero(self.random.choice(self.variables))
            more = self.random.randrange(3)
            return binary(Op.ADD, value, const(INDEX, more)), most + more
        extent = self.random.choice((0, 1, 2, 3, 4, 5, 8, 11))
        return const(INDEX, extent), extent

    def _value(self, dtype: DType, depth: int, scope: _Scope) -> Node:
        if depth == 0 or self.random.random() < 0.1:
            return self._leaf(dtype, scope)
        make = self.random.choice((self._uniform, self._uniform, self._choice, self._cast))
        return make(dtype, depth - 1, scope)

    def _uniform(self, dtype: DType, depth: int, scope: _Scope) -> Node:
        if dtype is BOOL and self.random.random() < 0.6:
            of, op = self.random.choice(TYPES), self.random.choice(sorted(COMPARISONS))
            return binary(op, *(self._value(of, depth, scope) for _ in range(2)))
        op = self.random.choice(
            [o for o, types in UNIFORM.items() if dtype in types and o not in REDUCTIONS | COMPARISONS]
        )
        arity = {Op.MULACC: 3, Op.SQRT: 1, Op.RECIPROCAL: 1, Op.TRUNC: 1}.get(op, 2)
        operands = [self._value(dtype, depth, scope) for _ in range(arity)]
        if op in (Op.SHL, Op.SHR) and self.random.random() < 0.7:
            operands[1] = const(dtype, self.random.randrange(8 * dtype.size + 2))
        return node(op, dtype, *operands)

    def _choice(self, dtype: DType, depth: int, scope: _Scope) -> Node:
        op = self.random.choice(sorted(COMPARISONS))
        condition = self._value(BOOL, depth, scope)
        if self.random.random() < 0.5:
            condition = binary(op, self._index(scope, 20), self._index(scope, 20))
        return node(Op.WHERE, dtype, condition, *(self._value(dtype, depth, scope) for _ in range(2)))

    def _cast(self, dtype: DType, depth: int, scope: _Scope) -> Node:
        same = [t for t in TYPES if t.size == dtype.size and BOOL not in (t, dtype)]
        if same and self.random.random() < 0.4:
            return node(Op.BITCAST, dtype, self._value(self.random.choice(same), depth, scope))
        return node(Op.CAST, dtype, self._value(self.random.choice(TYPES), depth, scope))

    def _leaf(self, dtype: DType, scope: _Scope) -> Node:
        values = [v for v in scope.values if v.dtype is dtype]
        if values and self.random.random() < 0.5:
            return self.random.choice(values)
        if scope.values and self.random.random() < 0.2:
            return node(Op.CAST, dtype, self.random.choice(scope.values))
        kind = self.random.random()
        if kind < 0.1 or self.loads > LOADS:
            return const(dtype, self._immediate(dtype))
        if kind < 0.2:
            return node(Op.CAST, dtype, self._index(scope, 50))
        arrays = [a for a in self.arrays if a.dtype is dtype] or self.arrays
        loaded = self._load(self.random.choice(arrays), scope)
        return loaded if loaded.dtype is dtype else node(Op.CAST, dtype, loaded)

    def _immediate(self, dtype: DType) -> int:
        value = pattern(self.random, dtype)
        if dtype.is_float and value & (1 << 8 * dtype.size - 1) - 1 > INFINITY[dtype]:
            return CANONICAL_NAN[dtype]
        return value

    def _load(self, array: Array, scope: _Scope) -> Node:
        self.loads += 1
        last = array.elements - 1
        element = self._index(scope, max(0, last))
        kind = self.random.randrange(7) if array.elements else 4
        if kind == 0:  # flipped
            return load(array, binary(Op.SUB, const(INDEX, last), element))
        if kind == 1:  # wrapped around
            far = binary(Op.ADD, binary(Op.MUL, element, const(INDEX, 3)), const(INDEX, 2))
            return load(array, binary(Op.FLOORMOD, far, const(INDEX, array.elements)))
        if kind == 2:  # clamped
            far = binary(Op.SUB, binary(Op.MUL, element, const(INDEX, 2)), const(INDEX, 3))
            return load(array, binary(Op.MIN, binary(Op.MAX, far, const(INDEX, 0)), const(INDEX, last)))
        if kind == 3:  # gathered
            element = self._gathered(scope)
        elif kind == 4:  # shifted
            shift = self.random.randrange(-array.elements - 1, array.elements + 2)
            element = binary(Op.ADD, element, const(INDEX, shift))
        else:
            return load(array, element)
        return load(array, element, self._guard(element, array.elements))

    def _gathered(self, scope: _Scope) -> Node:
        narrow = [t for t in TYPES if t.is_integer and t.size < 8]
        number = self._leaf(self.random.choice(narrow), scope)
        if self.random.random() < 0.3:
            number = node(Op.AND, number.dtype, number, const(number.dtype, 15))
        return node(Op.CAST, INDEX, number)

    def _guard(self, element: Node, elements: int) -> Node:
        negative = binary(Op.CMPLT, element, const(INDEX, 0))
        lower = self.random.choice(
            (
                binary(Op.CMPLT, const(INDEX, -1), element),
                binary(Op.CMPNE, negative, const(BOOL, 1)),
                binary(Op.CMPEQ, negative, const(BOOL, 0)),
            )
        )
        upper = binary(Op.CMPLT, element, const(INDEX, elements))
        return conjunction(*self.random.choice(((lower, upper), (upper, lower))))

    def _index(self, scope: _Scope, most: int) -> Node:
        """An index value from 0 to at most `most`."""
        value, high = const(INDEX, 0), 0
        parts = [(counter(axis), max(0, axis.extent - 1)) for axis in scope.axes] + list(
            map(_from_zero, self.variables)
        )
        for part, reach in self.random.sample(parts, k=len(parts)):
            room = (most - high) // reach if reach else 1
            if room < 1 or self.random.random() < 0.2:
                continue
            stride = self.random.choice((1, room, self.random.randint(1, room)))
            scaled = part if stride == 1 else binary(Op.MUL, part, const(INDEX, stride))
            value, high = (scaled if value is const(INDEX, 0) else binary(Op.ADD, value, scaled)), high + stride * reach
        kind = self.random.randrange(10)
        if kind < 2:
            return binary(Op.FLOORDIV, value, const(INDEX, self.random.randint(1, 5)))
        return binary(Op.AND, value, const(INDEX, 3)) if kind == 2 else value


def _from_zero(v: Variable) -> tuple[Node, int]:
    """How far a variable is above its minimum, and the most that it can be."""
    bound = node(Op.VAR, INDEX, arg=Named(v.name, Bounds(v.minimum, v.maximum)))
    return binary(Op.SUB, bound, const(INDEX, v.minimum)), v.maximum - v.minimum
