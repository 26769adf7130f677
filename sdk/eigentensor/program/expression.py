"""Expressions: the graph that becomes a body. Front ends build and rewrite it; `to_body` gives its canonical form."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce as fold
from itertools import count
from math import prod
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from eigentensor.numerics.operations import identity
from eigentensor.program.bounds import prove
from eigentensor.program.model import Body, Bounds, Instruction, Parameter, ReduceRange
from eigentensor.program.ops import COMPARISONS, NO_GUARD, REDUCTIONS, DType, Op
from eigentensor.program.structure import operands


class Axis(NamedTuple):
    """A loop before it has a number: `to_body` is told the order of output axes, a REDUCE names its own.

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

    `arg`: CONST the value (floats: the pattern), RANGE an Axis, VAR a Named, LOAD an Array, REDUCE_* a tuple of Axis.
    `src` are the operands; REDUCE_* has the extents of its axes (index expressions) first, then its factors.
    """

    op: Op
    dtype: DType
    src: tuple["Node", ...] = ()
    arg: Any = None

    def __repr__(self) -> str:
        return f"{self.op.name}({', '.join(map(repr, self.src))}{'' if self.arg is None else f' {self.arg}'})"


_interned: "WeakValueDictionary[tuple[object, ...], Node]" = WeakValueDictionary()
_interning = Lock()


def node(op: Op, dtype: DType, *src: Node, arg: Hashable = None) -> Node:
    """The one Node with these parts."""
    key = (op, dtype, tuple(map(id, src)), arg)
    result = _interned.get(key)
    if result is None:
        with _interning:  # of two threads, both get what one of them made
            result = _interned.get(key)
            if result is None:
                result = _interned[key] = Node(op, dtype, src, arg)
    return result


#: Types whose 32 immediate bits are read without a sign.
UNSIGNED = frozenset({DType.UINT32, DType.UINT64, DType.FLOAT32})


def const(dtype: DType, value: int) -> Node:
    """A constant: an integer (wrapped to the type), 0 or 1 for bool, the bit pattern for floats.

    An integer that does not fit the 32 bits of an instruction is composed of smaller constants.
    """
    if dtype is DType.BOOL:
        value = int(value != 0)
    elif dtype is not DType.INDEX:
        bits = 8 * dtype.size
        value &= (1 << bits) - 1
        if dtype.is_signed and value >> bits - 1:
            value -= 1 << bits
    fits = 0 <= value < 1 << 32 if dtype in UNSIGNED else -(1 << 31) <= value < 1 << 31
    return node(Op.CONST, dtype, arg=value) if fits else _wide(dtype, value)


def _wide(dtype: DType, value: int) -> Node:
    if dtype is DType.INDEX:
        high = node(Op.MUL, dtype, const(dtype, value >> 24), const(dtype, 1 << 24))
        return node(Op.ADD, dtype, high, const(dtype, value & 0xFFFFFF))
    pattern = value & (1 << 64) - 1
    halves = [const(DType.UINT64, half) for half in (pattern >> 32, pattern & 0xFFFFFFFF)]
    whole = node(Op.OR, DType.UINT64, node(Op.SHL, DType.UINT64, halves[0], const(DType.UINT64, 32)), halves[1])
    return whole if dtype is DType.UINT64 else node(Op.CAST, dtype, whole)


def counter(axis: Axis) -> Node:
    """The loop counter of an axis; the constant 0 if it makes at most one step."""
    return node(Op.RANGE, DType.INDEX, arg=axis) if axis.extent != 1 else const(DType.INDEX, 0)


def reduction(op: Op, axes: tuple[Axis, ...], *factors: Node, extents: tuple[Node, ...] | None = None) -> Node:
    """A reduction over the axes, outermost first; they run to their largest extent unless index nodes are given.

    Over exactly one step it is that step: the operation on the identity and the term.
    """
    dtype = factors[0].dtype
    counts = extents or tuple(const(DType.INDEX, axis.extent) for axis in axes)
    if all(extent is const(DType.INDEX, 1) for extent in counts):
        start = const(dtype, int.from_bytes(identity(op.name.removeprefix("REDUCE_"), dtype).tobytes(), "little"))
        last = (factors[0], factors[1], start) if op is Op.REDUCE_MULACC else (start, factors[0])
        return node(Op[op.name.removeprefix("REDUCE_")], dtype, *last)
    return node(op, dtype, *counts, *factors, arg=axes)


def factors(reduce: Node) -> tuple[Node, ...]:
    """The operands of a REDUCE that are evaluated in every step."""
    return reduce.src[len(reduce.arg) :]


def load(array: Array, element: Node, guard: Node | None = None) -> Node:
    """An element of an array; +0 where a guard is false."""
    return node(Op.LOAD, array.dtype, *((element,) if guard is None else (element, guard)), arg=array)


def binary(op: Op, a: Node, b: Node) -> Node:
    """An operation on two expressions of one type, which it results in; comparisons in bool."""
    return node(op, DType.BOOL if op in COMPARISONS else a.dtype, a, b)


def conjunction(*conditions: Node) -> Node:
    """All conditions at once, joined from the first on; at least one."""
    return fold(lambda a, b: binary(Op.AND, a, b), conditions)


def walk(*roots: Node, enter: Callable[[Node], bool] = lambda _: True) -> Iterator[Node]:
    """Every node below the roots once, operands before users, in the canonical order of a body.

    Operands of a node that `enter` refuses are left out.
    """
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        current, finished = stack.pop()
        if finished:
            yield current
        elif id(current) not in seen:
            seen.add(id(current))
            stack.append((current, True))
            if enter(current):
                stack.extend((s, False) for s in reversed(current.src) if id(s) not in seen)


def rewrite(root: Node, change: Callable[[Node], Node], enter: Callable[[Node], bool] = lambda _: True) -> Node:
    """Rebuild bottom-up: `change` sees each node once, with operands that are already changed."""
    done: dict[int, Node] = {}
    for current in walk(root, enter=enter):
        src = tuple(done[id(s)] for s in current.src) if enter(current) else current.src
        same = src == current.src
        done[id(current)] = change(current if same else node(current.op, current.dtype, *src, arg=current.arg))
    return done[id(root)]


class Lowered(NamedTuple):
    """A canonical body, and what its parameters (from 1) and variables stand for, in order."""

    body: Body
    arrays: tuple[Array, ...]
    variables: tuple[Named, ...]


def to_body(value: Node, axes: tuple[Axis, ...]) -> Lowered:
    """The canonical body that stores `value` over the output axes, outermost first.

    Names of axes and keys of arrays leave no mark on it. An axis that several reductions share becomes one for each.
    """
    order = list(walk(_separate(value)))
    number = {id(n): i for i, n in enumerate(order)}
    arrays = {array: i for i, array in enumerate(dict.fromkeys(n.arg for n in order if n.op is Op.LOAD))}
    variables = {named: i for i, named in enumerate(dict.fromkeys(n.arg for n in order if n.op is Op.VAR))}
    reductions = [n for n in order if n.op in REDUCTIONS]
    ordinal = {id(n): k for k, n in enumerate(reductions)}
    owned = [(axis, number[id(c)], k) for k, n in enumerate(reductions) for axis, c in zip(n.arg, n.src, strict=False)]
    ranges = {axis: i for i, axis in enumerate((*axes, *(axis for axis, _, _ in owned)))}

    def instruction(n: Node) -> Instruction:
        s = [number[id(x)] for x in (factors(n) if n.op in REDUCTIONS else n.src)] + [0, 0, 0]
        if n.op is Op.CONST:
            pattern = n.arg & (1 << min(32, 8 * n.dtype.size)) - 1
            return Instruction(n.op, n.dtype, 0, pattern & 0xFFFF, pattern >> 16)
        if n.op is Op.RANGE:
            return Instruction(n.op, n.dtype, ranges[n.arg])
        if n.op is Op.VAR:
            return Instruction(n.op, n.dtype, variables[n.arg])
        if n.op is Op.LOAD:
            return Instruction(n.op, n.dtype, 1 + arrays[n.arg], s[0], s[1] if len(n.src) == 2 else NO_GUARD)
        if n.op in REDUCTIONS:
            return Instruction(n.op, n.dtype, s[0], s[1], ordinal[id(n)])
        return Instruction(n.op, n.dtype, *s[:3])

    elements = prod(axis.extent for axis in axes)
    body = Body(
        parameters=(Parameter(value.dtype, elements), *(Parameter(a.dtype, a.elements) for a in arrays)),
        instructions=tuple(map(instruction, order)),
        output_ranges=tuple(axis.extent for axis in axes),
        reduce_ranges=tuple(ReduceRange(count, k) for _, count, k in owned),
        variables=tuple(v.bounds for v in variables),
    )
    return Lowered(body, tuple(arrays), tuple(variables))


def _separate(value: Node) -> Node:
    """The same value with axes that belong to one reduction each: a range of the format has one owner."""
    taken: set[Axis] = set()
    named = [axis for n in walk(value) if n.op in REDUCTIONS for axis in n.arg]
    if len(set(named)) == len(named):
        return value
    fresh = count(1 + max(axis.name for axis in named))

    def own(n: Node) -> Node:
        if n.op not in REDUCTIONS:
            return n
        renamed = {axis: axis._replace(name=next(fresh)) for axis in n.arg if axis in taken}
        axes = tuple(renamed.get(axis, axis) for axis in n.arg)
        taken.update(axes)
        if not renamed:
            return n
        # Not below other reductions: their ranges are theirs, whatever they are called.
        terms = (
            rewrite(
                term,
                lambda x: counter(renamed[x.arg]) if x.op is Op.RANGE and x.arg in renamed else x,
                enter=lambda x: x.op not in REDUCTIONS,
            )
            for term in factors(n)
        )
        return node(n.op, n.dtype, *n.src[: len(axes)], *terms, arg=axes)

    return rewrite(value, own)


def nodes_of(
    lowered: Lowered,
    counters: Mapping[int, Node] | None = None,
    loads: Mapping[int, Callable[[Sequence[Node]], Node]] | None = None,
) -> list[Node]:
    """A node for each instruction of a valid body: the inverse of `to_body`.

    `counters` stand for ranges, by number; `loads` make what stands for a LOAD, by number of its instruction, of the
    nodes of those before it.
    """
    body, outputs = lowered.body, len(lowered.body.output_ranges)
    most = (*body.output_ranges, *(largest for _, largest in prove(body).extents))
    axes = [Axis(n, extent, n >= outputs) for n, extent in enumerate(most)]
    nodes: list[Node] = []
    for i in body.instructions:
        arg: Hashable = None
        if loads and len(nodes) in loads:
            nodes.append(loads[len(nodes)](nodes))
            continue
        if i.op is Op.CONST:
            nodes.append(const(i.dtype, i.immediate if i.dtype.is_float else i.integer))
            continue
        if i.op is Op.RANGE and counters and i.a in counters:
            nodes.append(counters[i.a])
            continue
        if i.op is Op.RANGE:
            arg = axes[i.a]
        elif i.op is Op.VAR:
            arg = lowered.variables[i.a]
        elif i.op is Op.LOAD:
            arg = lowered.arrays[i.a - 1]
        elif i.op in REDUCTIONS:
            arg = tuple(axes[outputs + n] for n, r in enumerate(body.reduce_ranges) if r.reduction == i.c)
        nodes.append(node(i.op, i.dtype, *(nodes[v] for v in operands(body, i)), arg=arg))
    return nodes
