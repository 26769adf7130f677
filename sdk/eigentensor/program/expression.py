"""Expressions: the graph that becomes a body. What front ends build and rewrite; `to_body` puts it into canonical form."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import reduce as fold
from typing import NamedTuple
from weakref import WeakValueDictionary

from eigentensor.program.model import Body, Bounds, Instruction, Parameter, ReduceRange
from eigentensor.program.ops import COMPARISONS, NO_GUARD, REDUCTIONS, DType, Op


class Axis(NamedTuple):
    """A loop before it has a number: output axes are ordered by the tuple given to `to_body`, reduce axes by their REDUCE.

    `extent` is the largest trip count; the actual one of a reduce axis is an operand of its REDUCE.
    """

    name: int
    extent: int
    is_reduce: bool = False


class Array(NamedTuple):
    """A buffer as an expression sees it; `key` is the front end's own name for it."""

    key: Hashable
    dtype: DType
    elements: int


class Named(NamedTuple):
    """A variable as an expression sees it."""

    name: str
    bounds: Bounds


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Node:
    """A hash-consed expression: equal nodes are the same object, so identity is equality.

    `arg` is: CONST the value (floats: the pattern), RANGE an Axis, VAR a Named, LOAD an Array, REDUCE_* a tuple of Axis.
    `src` are the operands; REDUCE_* has the extents of its axes (index expressions) first, then its factors.
    """

    op: Op
    dtype: DType
    src: tuple["Node", ...] = ()
    arg: Hashable = None

    def __repr__(self) -> str:
        return f"{self.op.name}({', '.join(map(repr, self.src))}{'' if self.arg is None else f' {self.arg}'})"


_interned: "WeakValueDictionary[tuple[object, ...], Node]" = WeakValueDictionary()


def node(op: Op, dtype: DType, *src: Node, arg: Hashable = None) -> Node:
    """The one Node with these parts."""
    key = (op, dtype, tuple(map(id, src)), arg)
    found = _interned.get(key)
    if found is None:
        found = _interned[key] = Node(op, dtype, src, arg)
    return found


def const(dtype: DType, value: int) -> Node:
    """A constant: an integer, 0 or 1 for bool, the bit pattern for floats. Wide integers are composed of two halves."""
    if dtype is DType.UINT64 and value >> 32:
        return _wide(dtype, value)
    if dtype in (DType.INT64, DType.INDEX) and not -(1 << 31) <= value < 1 << 31:
        return _wide(dtype, value)
    return node(Op.CONST, dtype, arg=value)


def _wide(dtype: DType, value: int) -> Node:
    if dtype is DType.INDEX:
        high = node(Op.MUL, dtype, const(dtype, value >> 24), const(dtype, 1 << 24))
        return node(Op.ADD, dtype, high, const(dtype, value & 0xFFFFFF))
    pattern = value & (1 << 64) - 1
    halves = [node(Op.CAST, DType.UINT64, const(DType.UINT32, half)) for half in (pattern >> 32, pattern & 0xFFFFFFFF)]
    whole = node(Op.OR, DType.UINT64, node(Op.SHL, DType.UINT64, halves[0], const(DType.UINT64, 32)), halves[1])
    return whole if dtype is DType.UINT64 else node(Op.CAST, dtype, whole)


def counter(axis: Axis) -> Node:
    """The loop counter of an axis."""
    return node(Op.RANGE, DType.INDEX, arg=axis)


def reduction(op: Op, axes: tuple[Axis, ...], *factors: Node, extents: tuple[Node, ...] | None = None) -> Node:
    """A reduction over the axes, outermost first; they run to their largest extent unless index expressions are given."""
    counts = extents or tuple(const(DType.INDEX, axis.extent) for axis in axes)
    return node(op, factors[0].dtype, *counts, *factors, arg=axes)


def factors(reduce: Node) -> tuple[Node, ...]:
    """The operands of a REDUCE that are evaluated in every step."""
    return reduce.src[len(reduce.arg) :]  # type: ignore[arg-type]


def load(array: Array, element: Node, guard: Node | None = None) -> Node:
    return node(Op.LOAD, array.dtype, *((element,) if guard is None else (element, guard)), arg=array)


def binary(op: Op, a: Node, b: Node) -> Node:
    return node(op, DType.BOOL if op in COMPARISONS else a.dtype, a, b)


def conjunction(*conditions: Node) -> Node:
    return fold(lambda a, b: binary(Op.AND, a, b), conditions)


def walk(*roots: Node) -> Iterator[Node]:
    """Every node below the roots once, operands before users, in the canonical order of a body."""
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


def rewrite(root: Node, change: Callable[[Node], Node]) -> Node:
    """Rebuild bottom-up: `change` sees each node once, with operands that are already changed."""
    done: dict[int, Node] = {}
    for current in walk(root):
        src = tuple(done[id(s)] for s in current.src)
        same = src == current.src
        done[id(current)] = change(current if same else node(current.op, current.dtype, *src, arg=current.arg))
    return done[id(root)]


class Lowered(NamedTuple):
    """A canonical body, and what its parameters (from 1) and variables stand for, in order."""

    body: Body
    arrays: tuple[Array, ...]
    variables: tuple[Named, ...]


def to_body(value: Node, axes: tuple[Axis, ...]) -> Lowered:
    """The canonical body that stores `value` over the output axes, outermost first."""
    order = list(walk(value))
    number = {id(n): i for i, n in enumerate(order)}
    arrays = list(dict.fromkeys(n.arg for n in order if n.op is Op.LOAD))
    variables = list(dict.fromkeys(n.arg for n in order if n.op is Op.VAR))
    reductions = [n for n in order if n.op in REDUCTIONS]
    owned = [(axis, number[id(count)], k) for k, n in enumerate(reductions) for axis, count in zip(n.arg, n.src)]  # type: ignore[call-overload]
    ranges = {axis: i for i, axis in enumerate((*axes, *(axis for axis, _, _ in owned)))}
    elements = fold(lambda a, b: a * b, (axis.extent for axis in axes), 1)

    def instruction(n: Node) -> Instruction:
        src = factors(n) if n.op in REDUCTIONS else n.src
        s = [number[id(x)] for x in src] + [0, 0, 0]
        if n.op is Op.CONST:
            pattern = int(n.arg) & 0xFFFFFFFF  # type: ignore[call-overload]
            if n.dtype.size < 4:
                pattern &= (1 << 8 * n.dtype.size) - 1
            return Instruction(n.op, n.dtype, 0, pattern & 0xFFFF, pattern >> 16)
        if n.op is Op.RANGE:
            return Instruction(n.op, n.dtype, ranges[n.arg])  # type: ignore[index]
        if n.op is Op.VAR:
            return Instruction(n.op, n.dtype, variables.index(n.arg))
        if n.op is Op.LOAD:
            return Instruction(n.op, n.dtype, 1 + arrays.index(n.arg), s[0], s[1] if len(n.src) == 2 else NO_GUARD)
        if n.op in REDUCTIONS:
            return Instruction(n.op, n.dtype, s[0], s[1], reductions.index(n))
        return Instruction(n.op, n.dtype, *s[:3])

    body = Body(
        parameters=(Parameter(value.dtype, elements), *(Parameter(a.dtype, a.elements) for a in arrays)),
        instructions=tuple(map(instruction, order)),
        output_ranges=tuple(axis.extent for axis in axes),
        reduce_ranges=tuple(ReduceRange(count, k) for _, count, k in owned),
        variables=tuple(v.bounds for v in variables),
    )
    return Lowered(body, tuple(arrays), tuple(variables))
