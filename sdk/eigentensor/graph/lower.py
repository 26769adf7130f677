"""A graph → a program, exactly as written: nothing is recognised, re-associated or approximated on the way.

A float32 sum of products accumulates with one rounding per step; where a product is a sum's own term, or a move of it,
that does not depend on what else it is used for. CONTIGUOUS separates the two by storing, ROUNDED by an addition that
changes nothing.
"""

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

from numpy.typing import NDArray

from eigentensor.errors import CaptureError
from eigentensor.graph.accesses import Access, both, element, inside, operands, padding, stand_in
from eigentensor.graph.node import Form, Graph
from eigentensor.graph.node import Node as Tensor
from eigentensor.graph.schedule import Schedule, is_loaded, schedule
from eigentensor.lowering import functions
from eigentensor.lowering.build import Draft, build
from eigentensor.lowering.build import traced as build_traced
from eigentensor.lowering.constants import float_pattern, identity
from eigentensor.lowering.graph_program import GraphProgram
from eigentensor.lowering.indices import interval, simplify
from eigentensor.lowering.kernel import INT32_MAX, Kernel, cast, fresh_array, where
from eigentensor.lowering.passes import substitute
from eigentensor.lowering.shards import Shards
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.expression import Array, Named, Node, binary, const, load, node, reduction, rewrite
from eigentensor.program.model import Bounds, Buffer, Kind, Program, Role
from eigentensor.program.ops import COMPARISONS, REDUCTIONS, DType, Op

_ROLES = {Form.INPUT: Role.INPUT, Form.WEIGHT: Role.WEIGHT, Form.STATE: Role.STATE, Form.DATA: Role.CONSTANT}
_ON_BOOL = {Op.ADD: Op.OR, Op.MUL: Op.AND, Op.MAX: Op.OR, Op.MIN: Op.AND}
#: Operations that are exact on indices, as long as int32 does not wrap.
_LIFTED = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.MAX, Op.MIN, Op.FLOORDIV, Op.FLOORMOD})

#: What a sum does not accumulate with one rounding per step.
_APART = frozenset({Op.LOAD, Op.CONST, *REDUCTIONS})


def lower(graph: Graph, *, fingerprint: bool = True, shards: Shards = 1) -> GraphProgram:
    """The program of a graph with those of its data that it needs.

    Small results get an output `fingerprint` beside them, as captured ones do, unless it is False. Reductions over axes
    that `shards` name are cut by shards, as in captured ones. Raises CaptureError.
    """
    program = build(_draft(graph, {}, fingerprint, shards))
    weights, states = (_data(graph.data, program.named(role)) for role in (Role.WEIGHT, Role.STATE))
    return GraphProgram(program, weights, states)


def traced(graph: Graph, origins: Mapping[Tensor, str]) -> tuple[Program, tuple[str, ...]]:
    """The program of a graph, without a fingerprint, and for each of its calls the origin of the node that it computes,
    empty where that has none. Raises CaptureError."""
    return build_traced(_draft(graph, origins, fingerprint=False, shards=1))


def _draft(graph: Graph, origins: Mapping[Tensor, str], fingerprint: bool, shards: Shards) -> Draft:
    plan = schedule(graph.roots)
    lowering = _Lowering(plan, origins)
    kernels = lowering.kernels()
    named = {(Kind.OUTPUT, name): n for name, n in graph.outputs.items()}
    named |= {(Kind.STATE, name): n for name, n in graph.states.items()}
    results = {key: (lowering.arrays[n], n.shape) for key, n in named.items()}
    externals = {array: _buffer(n) for n, array in lowering.leaves.items()}
    read = {buffer.name for buffer in externals.values() if buffer.role is Role.STATE}
    for name, n in graph.states.items():
        if name not in read:  # a state that nothing looks at goes in all the same
            externals[fresh_array(n.dtype, n.elements)] = Buffer(Role.STATE, n.dtype, n.shape, name)
    variables = {n.arg.name: n.arg for n in plan.order if n.op is Form.VARIABLE}
    return Draft(kernels, externals, results, tuple(variables.values()), fingerprint, shards)


def _buffer(n: Tensor) -> Buffer:
    role = _ROLES[n.op]  # type: ignore[index]
    return Buffer(role, n.dtype, n.shape, *(("", n.arg) if role is Role.CONSTANT else (n.arg,)))


def _data(data: Mapping[str, NDArray[Any]], buffers: Mapping[str, Buffer]) -> dict[str, NDArray[Any]]:
    for name, buffer in buffers.items():
        if name in data and (data[name].shape, data[name].dtype) != (buffer.shape, STORAGE[buffer.dtype]):
            raise CaptureError(
                f"{name!r} is {buffer.dtype.name.lower()} of shape {buffer.shape}, its data are "
                f"{data[name].dtype} of shape {data[name].shape}",
                fix="Give data of the shape and type that the graph says.",
            )
    return {name: data[name] for name in buffers if name in data}


class _Lowering:
    """Expressions of every node for each access that computes it; `arrays` hold leaves and kernels' results."""

    def __init__(self, plan: Schedule, origins: Mapping[Tensor, str]) -> None:
        self.plan, self.origins = plan, origins
        stored = [n for n in plan.order if n.op in _ROLES or n in plan.kernels]
        self.leaves = {n: fresh_array(n.dtype, n.elements) for n in stored if n.op in _ROLES}
        self.arrays: dict[Tensor, Array] = self.leaves | {n: fresh_array(n.dtype, n.elements) for n in plan.kernels}
        self.values: dict[tuple[Tensor, Access], Node] = {}

    def kernels(self) -> list[Kernel]:
        """A kernel for each node that has one, in order of need."""
        made = []
        for n in self.plan.order:
            for access in self.plan.accesses[n]:
                self.values[n, access] = self._computed(n, access)
            if n in self.plan.kernels:
                axes = self.plan.kernels[n]
                own = self.values[n, self.plan.accesses[n][0]]
                ranges = tuple(axis for axis in axes if axis.extent != 1)
                made.append(Kernel(self.arrays[n], ranges, own, self.origins.get(n, "")))
        return made

    def _value(self, n: Tensor, access: Access) -> Node:
        if n in self.plan.kernels and is_loaded(n, access):
            return load(self.arrays[n], element(access.at, n.shape), access.guard)
        return self.values[n, access]

    def _computed(self, n: Tensor, access: Access) -> Node:
        if not n.elements:
            return const(n.dtype, 0)
        if n.op in _ROLES:
            return load(self.leaves[n], element(access.at, n.shape), access.guard)
        if n.op is Op.CONST:
            return const(n.dtype, n.arg)
        if n.op is Form.VARIABLE:
            named = Named(n.arg.name, Bounds(n.arg.minimum, n.arg.maximum))
            return cast(DType.INT32, node(Op.VAR, DType.INDEX, arg=named))
        if n.op is Form.COUNTER:
            return cast(DType.INT32, access.at[n.arg])
        values = [self._value(s, at) for s, at in zip(n.src, operands(n, access, self.plan.steps[n]), strict=True)]
        if n.op in REDUCTIONS:
            return self._reduced(n, *values)
        if n.op is Form.FUNCTION:
            function: Node = getattr(functions, n.arg)(*values)
            return function
        if n.op is Form.GATHER:
            return self._gathered(n, *values)
        if n.op is Form.PAD:
            condition = both(*padding(n, access))
            return values[0] if condition is None else where(condition, values[0], const(n.dtype, 0))
        if n.op is Form.ROUNDED and access.term and values[0].op not in _APART:
            return binary(Op.ADD, values[0], const(n.dtype, float_pattern(n.dtype, -0.0)))
        return values[0] if isinstance(n.op, Form) else elementwise(n.op, n.dtype, values)

    def _reduced(self, n: Tensor, term: Node, *bounds: Node) -> Node:
        if not n.src[0].elements:
            return identity(n.op, n.dtype)  # type: ignore[arg-type]
        steps = [axis.extent != 1 for axis in self.plan.steps[n]]
        axes = tuple(compress(self.plan.steps[n], steps))
        extents = tuple(map(as_index, compress(bounds, steps))) or None
        for axis, extent in zip(axes, extents or (), strict=False):
            low, high = interval(extent)
            if low < 0 or high > axis.extent:
                what = f"a reduction takes {low} to {high} elements of an axis of {axis.extent}"
                raise CaptureError(what, fix="Bound the variables so that it stays within the axis.")
        return reduction(n.op, axes, term, extents=extents) if axes else term  # type: ignore[arg-type]

    def _gathered(self, n: Tensor, value: Node, number: Node) -> Node:
        """The table's value at the row, or zero; conditions that are certain are left out."""
        stand, extent = stand_in(*self.plan.steps[n])
        row = as_index(number)
        condition = both(*inside(row, extent.arg))
        entry = substitute(_under(value, binary(Op.CMPLT, stand, extent), condition), {stand: row})
        return entry if condition is None else where(condition, entry, const(n.dtype, 0))


def _under(value: Node, marker: Node, condition: Node | None) -> Node:
    """The expression with the condition, None where it is certain, in place of the marker in guards of loads."""
    certain = const(DType.BOOL, 1)

    def change(n: Node) -> Node:
        if n is marker:
            return condition or certain
        if n.op is Op.AND and certain in n.src:
            return n.src[n.src[0] is certain]
        return load(n.arg, n.src[0]) if n.op is Op.LOAD and n.src[-1] is certain else n

    return rewrite(value, change)


def as_index(number: Node) -> Node:
    """An integer as an index: of one that was cast from an index, that index."""
    if number.op is Op.CONST:
        return const(DType.INDEX, number.arg)
    is_lifted = number.op is Op.CAST and number.src[0].dtype is DType.INDEX and _within_int32(number.src[0])
    return simplify(number.src[0]) if is_lifted else cast(DType.INDEX, number)


def elementwise(op: Op, dtype: DType, values: Sequence[Node]) -> Node:
    """One operation of the format; exact arithmetic on counters and variables is done on indices."""
    if all(_is_index(value) for value in values) and any(value.op is Op.CAST for value in values):
        if op in COMPARISONS:
            return binary(op, *map(as_index, values))
        if op in _LIFTED and (op not in (Op.FLOORDIV, Op.FLOORMOD) or (values[1].op is Op.CONST and values[1].arg > 0)):
            exact = simplify(binary(op, *map(as_index, values)))
            if _within_int32(exact):
                return cast(DType.INT32, exact)
    op = _ON_BOOL.get(op, op) if dtype is DType.BOOL else op
    return node(op, dtype, *values)


def _is_index(value: Node) -> bool:
    if value.dtype is not DType.INT32:
        return False
    return value.op is Op.CONST or (
        value.op is Op.CAST and value.src[0].dtype is DType.INDEX and _within_int32(value.src[0])
    )


def _within_int32(value: Node) -> bool:
    low, high = interval(value)
    return low >= ~INT32_MAX and high <= INT32_MAX
