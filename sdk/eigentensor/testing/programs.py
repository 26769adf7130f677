"""Random valid programs with everything in them, and tensors to run them on: `generate(seed)`, the same for ever."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from math import prod
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentensor.numerics.dtypes import STORAGE
from eigentensor.program.assemble import assemble
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
from eigentensor.program.model import Bounds, Buffer, Kind, Program, Role, Variable
from eigentensor.program.ops import COMPARISONS, REDUCTIONS, DType, Op
from eigentensor.program.signatures import STORED, UNIFORM

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

INDEX, BOOL = DType.INDEX, DType.BOOL
_TYPES = sorted(STORED)
_SHAPES = ((), (1,), (7,), (12,), (3, 5), (4, 4), (2, 3, 4), (1, 6), (33,))
#: Patterns worth meeting: signed zeros, infinities, NaNs of every kind, subnormals, the largest, one, a third.
_FLOATS = {
    DType.FLOAT32: (
        0, 1 << 31, 0x3F800000, 0xBF800000, 0x3F800001, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001,
        1, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x4F000000, 0xCF000000, 0x5F800000, 0x3EAAAAAB, 0x4B800000,
    ),
    DType.FLOAT16: (
        0, 1 << 15, 0x3C00, 0xBC00, 0x3C01, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01, 1, 0x8001, 0x3FF, 0x400, 0x7BFF,
        0x3555, 0x5BF8, 0xD800,
    ),
    DType.BFLOAT16: (
        0, 1 << 15, 0x3F80, 0xBF80, 0x3F81, 0x7F80, 0xFF80, 0x7FC0, 0xFFC1, 0x7F81, 1, 0x8001, 0x7F, 0x80, 0x7F7F,
        0x4F00, 0x5F80, 0x3EAB,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Example:
    """A program and what it needs to run. Tensors are inputs, weights and states in storage dtypes."""

    program: Program
    tensors: dict[str, np.ndarray[Any, Any]]
    variables: dict[str, int]
    repeat: int


def examples() -> "SearchStrategy[Example]":
    """The generator as a hypothesis strategy; needs hypothesis."""
    from hypothesis import strategies

    return strategies.integers(0, (1 << 32) - 1).map(generate)


def generate(seed: int) -> Example:
    """One to five calls over all types and operations; the same example for the same seed."""
    return _Generator(Random(seed)).example()


def tensor(random: Random, dtype: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Elements of which a third are special values of the type."""
    patterns = [pattern(random, dtype) for _ in range(prod(shape))]
    raw = b"".join(value.to_bytes(dtype.size, "little") for value in patterns)
    return np.frombuffer(raw, STORAGE[dtype].newbyteorder("<")).reshape(shape)


def pattern(random: Random, dtype: DType) -> int:
    """The bits of one element."""
    if dtype is BOOL:
        return random.getrandbits(1)
    bits = 8 * dtype.size
    kind = random.randrange(3)
    if kind == 0:
        integers = (0, 1, (1 << bits) - 1, 1 << bits - 1, (1 << bits - 1) - 1, bits, 3)
        return random.choice(_FLOATS.get(dtype, integers))
    if kind == 1:
        return random.getrandbits(bits)
    if not dtype.is_float:
        return random.randrange(-9, 10) & (1 << bits) - 1
    single = int(np.float32(random.uniform(-4, 4)).view(np.uint32))
    half = int(np.float16(random.uniform(-4, 4)).view(np.uint16))
    return {DType.FLOAT32: single, DType.BFLOAT16: single >> 16, DType.FLOAT16: half}[dtype]


@dataclass(frozen=True)
class _Scope:
    """What an expression may use: loop counters, and the values of reductions that are finished."""

    axes: tuple[Axis, ...]
    values: tuple[Node, ...] = ()


@dataclass
class _Generator:
    random: Random
    arrays: list[Array] = field(default_factory=list)
    externals: dict[Hashable, Buffer] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    calls: list[tuple[Hashable, Lowered]] = field(default_factory=list)
    shapes: dict[Hashable, tuple[int, ...]] = field(default_factory=dict)
    loads: int = 0
    axis: int = 0

    def example(self) -> Example:
        random = self.random
        repeat = random.choice((1, 1, 1, 2, 3))
        self.variables = [self._variable(name, repeat) for name in ("n", "pos")[: random.randrange(3)]]
        tensors: dict[str, np.ndarray[Any, Any]] = {}
        for role, most in ((Role.INPUT, 3), (Role.WEIGHT, 2), (Role.STATE, 1), (Role.CONSTANT, 1)):
            for number in range(random.randrange(role is Role.INPUT, most + 1)):
                self._external(role, f"{role.name.lower()}{number}", tensors)
        for _ in range(random.randrange(1, 5)):
            if self.calls and random.random() < 0.2:
                self._again()
            else:
                self._call(random.choice(_SHAPES), random.choice(_TYPES))
        results: dict[tuple[Kind, str], tuple[Hashable, tuple[int, ...]]] = {}
        for b in [*self.externals.values()]:
            if b.role is Role.STATE:
                results[Kind.STATE, b.name] = (self._call(b.shape, b.dtype), b.shape)
        outputs = [key for key, _ in self.calls[:-1] if random.random() < 0.3] + [self.calls[-1][0]]
        for number, key in enumerate(outputs):
            results[Kind.OUTPUT, f"output_{number}"] = (key, self.shapes[key])
        bound = {v.name: random.randint(v.minimum, v.maximum - (repeat - 1) * v.stride) for v in self.variables}
        program = assemble(self.calls, self.externals, results, self.variables, repeat)
        kept = {b.name for b in program.buffers}
        return Example(program, {name: t for name, t in tensors.items() if name in kept}, bound, repeat)

    def _variable(self, name: str, repeat: int) -> Variable:
        low, stride = self.random.choice((0, 1, -3)), self.random.randrange(2)
        return Variable(name, low, low + repeat * stride + self.random.randrange(6), stride)

    def _external(self, role: Role, name: str, tensors: dict[str, np.ndarray[Any, Any]]) -> None:
        shape = (0,) if self.random.random() < 0.03 else self.random.choice(_SHAPES)
        dtype = self.random.choice((*_TYPES, DType.FLOAT32, DType.INT32))
        data = tensor(self.random, dtype, shape)
        if role is Role.CONSTANT:
            self.externals[name] = Buffer(role, dtype, shape, data=data.tobytes())
        else:
            self.externals[name] = Buffer(role, dtype, shape, name)
            tensors[name] = data
        self.arrays.append(Array(name, dtype, prod(shape)))

    def _again(self) -> None:
        """A call of an earlier body on other buffers."""
        _, lowered = self.random.choice(self.calls)
        fitting = [[a for a in self.arrays if a[1:] == wanted[1:]] for wanted in lowered.arrays]
        chosen = tuple(self.random.choice(arrays) for arrays in fitting)
        elements = lowered.body.parameters[0].elements
        self._add(lowered._replace(arrays=chosen), (elements,), lowered.body.parameters[0].dtype)

    def _call(self, shape: tuple[int, ...], dtype: DType) -> str:
        axes = tuple(self._axis(extent) for extent in shape)
        self.loads = 0
        scope = _Scope(axes)
        for _ in range(self.random.choice((0, 0, 1, 1, 2, 3))):
            scope = replace(scope, values=(*scope.values, self._reduction(scope)))
        value = self._value(dtype, 4, scope)
        for finished in scope.values:
            if self.random.random() < 0.7:
                op = self.random.choice((Op.ADD, Op.MAX, Op.MIN, Op.MUL))
                value = binary(op, value, node(Op.CAST, dtype, finished))
        return self._add(to_body(value, axes), shape, dtype)

    def _add(self, lowered: Lowered, shape: tuple[int, ...], dtype: DType) -> str:
        key = f"call{len(self.calls)}"
        self.calls.append((key, lowered))
        self.shapes[key] = shape
        self.arrays.append(Array(key, dtype, prod(shape)))
        return key

    def _axis(self, extent: int, is_reduce: bool = False) -> Axis:
        self.axis += 1
        return Axis(self.axis, extent, is_reduce)

    def _reduction(self, scope: _Scope) -> Node:
        counts = [self._extent() for _ in range(self.random.choice((1, 1, 2)))]
        axes = tuple(self._axis(most, True) for _, most in counts)
        inner = _Scope((*scope.axes, *axes), scope.values)
        op = self.random.choice(sorted(REDUCTIONS))
        dtype = self.random.choice(sorted(UNIFORM[op]))
        terms = [self._value(dtype, 2, inner) for _ in range(2 if op is Op.REDUCE_MULACC else 1)]
        return reduction(op, axes, *terms, extents=tuple(count for count, _ in counts))

    def _extent(self) -> tuple[Node, int]:
        """A trip count and its largest value."""
        if self.variables and self.random.random() < 0.3:
            v = self.random.choice(self.variables)
            low = binary(Op.SUB, _variable(v), const(INDEX, v.minimum))
            extra = self.random.randrange(3)
            return binary(Op.ADD, low, const(INDEX, extra)), v.maximum - v.minimum + extra
        extent = self.random.choice((0, 1, 2, 3, 4, 5, 8, 11))
        return const(INDEX, extent), extent

    def _value(self, dtype: DType, depth: int, scope: _Scope) -> Node:
        if depth == 0 or self.random.random() < 0.1:
            return self._leaf(dtype, scope)
        makers: list[Callable[[], Node]] = [
            lambda: self._uniform(dtype, depth, scope),
            lambda: self._uniform(dtype, depth, scope),
            lambda: self._choice(dtype, depth, scope),
            lambda: self._cast(dtype, depth, scope),
        ]
        return self.random.choice(makers)()

    def _uniform(self, dtype: DType, depth: int, scope: _Scope) -> Node:
        if dtype is BOOL and self.random.random() < 0.6:
            of = self.random.choice(_TYPES)
            return binary(
                self.random.choice(sorted(COMPARISONS)), *(self._value(of, depth - 1, scope) for _ in range(2))
            )
        ops = [op for op, types in UNIFORM.items() if dtype in types and op not in REDUCTIONS | COMPARISONS]
        op = self.random.choice(ops)
        arity = {Op.MULACC: 3, Op.SQRT: 1, Op.RECIPROCAL: 1, Op.TRUNC: 1}.get(op, 2)
        operands = [self._value(dtype, depth - 1, scope) for _ in range(arity)]
        if op in (Op.SHL, Op.SHR) and self.random.random() < 0.7:
            operands[1] = const(dtype, self.random.randrange(8 * dtype.size + 2))
        return node(op, dtype, *operands)

    def _choice(self, dtype: DType, depth: int, scope: _Scope) -> Node:
        condition = self._condition(scope) if self.random.random() < 0.5 else self._value(BOOL, depth - 1, scope)
        return node(Op.WHERE, dtype, condition, *(self._value(dtype, depth - 1, scope) for _ in range(2)))

    def _condition(self, scope: _Scope) -> Node:
        op = self.random.choice(sorted(COMPARISONS))
        return binary(op, self._index(scope, 20)[0], self._index(scope, 20)[0])

    def _cast(self, dtype: DType, depth: int, scope: _Scope) -> Node:
        same = [t for t in _TYPES if t.size == dtype.size and BOOL not in (t, dtype)]
        if same and self.random.random() < 0.4:
            return node(Op.BITCAST, dtype, self._value(self.random.choice(same), depth - 1, scope))
        return node(Op.CAST, dtype, self._value(self.random.choice(_TYPES), depth - 1, scope))

    def _leaf(self, dtype: DType, scope: _Scope) -> Node:
        values = [v for v in scope.values if v.dtype is dtype]
        if values and self.random.random() < 0.5:
            return self.random.choice(values)
        if scope.values and self.random.random() < 0.2:
            return node(Op.CAST, dtype, self.random.choice(scope.values))
        kind = self.random.random()
        if kind < 0.1 or self.loads > 10:
            return const(dtype, self._immediate(dtype))
        if kind < 0.2:
            return node(Op.CAST, dtype, self._index(scope, 50)[0])
        arrays = [a for a in self.arrays if a.dtype is dtype] or self.arrays
        found = self._load(self.random.choice(arrays), scope)
        return found if found.dtype is dtype else node(Op.CAST, dtype, found)

    def _immediate(self, dtype: DType) -> int:
        value = pattern(self.random, dtype)
        nan = {DType.FLOAT32: 0x7FC00000, DType.FLOAT16: 0x7E00, DType.BFLOAT16: 0x7FC0}
        infinity = {DType.FLOAT32: 0x7F800000, DType.FLOAT16: 0x7C00, DType.BFLOAT16: 0x7F80}
        if dtype.is_float and value & (1 << 8 * dtype.size - 1) - 1 > infinity[dtype]:
            return nan[dtype]
        return value

    def _load(self, array: Array, scope: _Scope) -> Node:
        self.loads += 1
        last = array.elements - 1
        element, _ = self._index(scope, max(0, last))
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
        narrow = [t for t in _TYPES if t.is_integer and t.size < 8]
        wide = self._leaf(self.random.choice(narrow), scope)
        if self.random.random() < 0.3:
            wide = node(Op.AND, wide.dtype, wide, const(wide.dtype, 15))
        return node(Op.CAST, INDEX, wide)

    def _guard(self, element: Node, elements: int) -> Node:
        low, high = const(INDEX, 0), const(INDEX, elements)
        true = const(BOOL, 1)
        lower = self.random.choice(
            (
                binary(Op.CMPLT, const(INDEX, -1), element),
                binary(Op.CMPNE, binary(Op.CMPLT, element, low), true),
                binary(Op.CMPEQ, binary(Op.CMPLT, element, low), const(BOOL, 0)),
            )
        )
        upper = binary(Op.CMPLT, element, high)
        return conjunction(*self.random.choice(((lower, upper), (upper, lower))))

    def _index(self, scope: _Scope, most: int) -> tuple[Node, int]:
        """An index value from 0 to at most `most`, and its largest value."""
        value, high = const(INDEX, 0), 0
        parts: Iterable[tuple[Node, int]] = ((counter(axis), max(0, axis.extent - 1)) for axis in scope.axes)
        variables = (
            (binary(Op.SUB, _variable(v), const(INDEX, v.minimum)), v.maximum - v.minimum) for v in self.variables
        )
        for part, reach in self.random.sample([*parts, *variables], k=len(scope.axes) + len(self.variables)):
            room = (most - high) // reach if reach else 1
            if room < 1 or self.random.random() < 0.2:
                continue
            stride = self.random.choice((1, room, self.random.randint(1, room)))
            scaled = part if stride == 1 else binary(Op.MUL, part, const(INDEX, stride))
            value, high = (scaled if value is const(INDEX, 0) else binary(Op.ADD, value, scaled)), high + stride * reach
        if self.random.random() < 0.2:
            divisor = self.random.randint(1, 5)
            value, high = binary(Op.FLOORDIV, value, const(INDEX, divisor)), high // divisor
        elif self.random.random() < 0.1:
            value, high = binary(Op.AND, value, const(INDEX, 3)), min(high, 3)
        return value, high


def _variable(v: Variable) -> Node:
    return node(Op.VAR, INDEX, arg=Named(v.name, Bounds(v.minimum, v.maximum)))
