"""A tinygrad function as a graph of whole tensors, before anything is scheduled: what the planner looks at."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import count
from typing import Any

import numpy as np
from tinygrad import Tensor, dtypes
from tinygrad.codegen.decomp.op import threefry2x32
from tinygrad.dtype import least_upper_dtype
from tinygrad.uop.ops import Ops, UOp

from eigentensor.capture import adapter
from eigentensor.capture.assignments import last_stored, stores, written, written_in
from eigentensor.capture.compositions import Compositions
from eigentensor.capture.context import named_outputs
from eigentensor.capture.convert import BINARY, DTYPES, ON_BOOL, REDUCE, UNARY, Conversion, dtype_of, refuse_unsupported
from eigentensor.capture.function import Attempt, bind, called, inputs_of, placeholder, settled
from eigentensor.capture.graph import static_shape
from eigentensor.capture.lines import defined_at
from eigentensor.capture.moves import MOVES, moved, varies
from eigentensor.capture.products import quotient
from eigentensor.capture.transcendental import Meant, meant
from eigentensor.capture.unseen import bound_twice
from eigentensor.errors import CaptureError
from eigentensor.graph.moves import broadcast, common_shape, concat, reshape
from eigentensor.graph.node import Form, Graph, Node, constant, data, leaf, node, rewrite, variable, walk
from eigentensor.graph.selection import selected
from eigentensor.graph.simplify import simplified
from eigentensor.lowering.build import require_known
from eigentensor.lowering.constants import argument
from eigentensor.lowering.graph_program import CONSTANT_BYTES, Values
from eigentensor.lowering.kernel import located
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.model import Variable
from eigentensor.program.ops import COMPARISONS, Op

_SAME = (Ops.COPY, Ops.DETACH, Ops.CONTIGUOUS_BACKWARD)


@adapter.refusing("it cannot be captured as a graph")
def capture_graph(
    function: Callable[..., Any],
    example_inputs: Sequence[Any] | Mapping[str, Any],
    model: Any = None,
    *,
    variables: Mapping[str, tuple[int, ...]] | None = None,
) -> Graph:
    """The graph of a function of Tensors, as `capture` takes it: names, weights, states and variables are the same.

    Nothing is run. What the function realizes on the way is stored, as CONTIGUOUS. Raises CaptureError for what a graph
    has not: values of tensors within the function, and extents that depend on variables and become a part of an axis.
    """
    function = adapter.without_jit(function)
    inputs = inputs_of(function, example_inputs)
    bounds = {name: Variable(name, *limits) for name, limits in (variables or {}).items()}
    return settled(function, model, lambda tensors: _raised(function, inputs, tensors, bounds))


def _raised(
    function: Callable[..., Any],
    inputs: Mapping[str, Tensor],
    tensors: Mapping[str, Tensor],
    bounds: Mapping[str, Variable],
) -> Attempt[Graph]:
    contents = {name: adapter.contents(tensor) for name, tensor in tensors.items() if tensor.dtype not in dtypes.weaks}
    with adapter.recording() as recording, adapter.deferred() as realized, located(defined_at(function)):
        placeholders = {name: placeholder(name, e) for name, e in inputs.items()}
        bound = bind(recording, bounds.values(), tensors)
        for name in contents:
            recording.stand_in(name, tensors[name], placeholder(name, tensors[name]))
        held = {name: tensor.uop for name, tensor in tensors.items()}
        buffers = {name: adapter.buffer_of(tensors[name]) for name in contents}
        results = named_outputs(called(function, {**bound, **placeholders}))
        assigned = {name for name, uop in held.items() if tensors[name].uop is not uop}
        stored = last_stored([t.uop for t in results.values()], list(realized.values()), buffers)
        stored = {name: uop for name, uop in stored.items() if name not in assigned}
        ends = UOp.sink(*(t.uop for t in (*results.values(), *tensors.values())), *realized.values())
        recording.require_states(written_in(ends), adapter.buffers_of(ends))
        if weak := sorted(assigned - contents.keys()):
            raise CaptureError(f"{weak[0]!r} is assigned but has no type", fix="give it one: Tensor(…, dtype=…)")
        leaves = {adapter.buffer_of(t): _leaf(Form.INPUT, name, t) for name, t in placeholders.items()}
        for name, buffer in buffers.items():
            form = Form.STATE if name in assigned or name in stored else Form.WEIGHT
            leaves[buffer] = _leaf(form, name, tensors[name])
        ends = {name: tensor.uop for name, tensor in results.items()}
        new = {name: tensors[name].uop for name in contents if name in assigned} | stored
    with located(defined_at(function)):
        raising = _Raising(leaves, realized, bounds, recording.relocation.origins)
        outputs = {name: raising.output(Tensor(uop), name) for name, uop in ends.items()}
        states = {name: raising.output(Tensor(uop), name) for name, uop in new.items()}
    known = {name: _values(contents[name], tensors[name]) for name in contents}
    graph = simplified(Graph(outputs, states, known | raising.data))
    roots = rewrite(graph.roots, selected)
    outputs = dict(zip(outputs, roots, strict=False))
    graph = simplified(Graph(outputs, dict(zip(states, roots[len(outputs) :], strict=True)), graph.data))
    names = {n.arg for n in walk(*graph.roots) if n.op in (Form.WEIGHT, Form.STATE)}
    return Attempt(graph, names, bool(recording.counters))


def _leaf(form: Form, name: str, tensor: Tensor) -> Node:
    array = leaf(form, name, dtype_of(tensor.dtype), static_shape(tensor, name))
    return node(Form.RESHAPE, array, arg=(array.elements,))


def _values(content: bytes, tensor: Tensor) -> Values:
    return np.frombuffer(content, STORAGE[dtype_of(tensor.dtype)]).reshape(tensor.shape)


class _Raising:
    """Converts tinygrad's nodes; weak types become what their user demands. `data` are weights that had no name."""

    def __init__(
        self,
        leaves: dict[Any, Node],
        realized: adapter.Contents,
        variables: Mapping[str, Variable],
        origins: Mapping[Any, Any],
    ) -> None:
        self.leaves, self.realized, self.variables, self.origins = leaves, realized, variables, origins
        self.data: dict[str, Values] = {}
        self.names = (name for i in count() if (name := f"data_{i}") not in {x.src[0].arg for x in leaves.values()})
        self.compositions = Compositions()
        self.is_function = cache(lambda u: (self.compositions.meant(u) or meant(u)) is not None)
        self.done: dict[tuple[Any, DType | None], Node] = {}

    def output(self, tensor: Tensor, name: str) -> Node:
        static_shape(tensor, name)
        refuse_unsupported(tensor.uop)
        result = self._bottom_up(tensor.uop)
        return result if tensor.dtype in DTYPES else self(tensor.uop, _default(tensor.uop))

    def _bottom_up(self, u: Any) -> Node:
        """The node of `u`, operands first: no recursion goes deep."""
        for below in u.toposort():
            if below.dtype in DTYPES and not below.is_invalid:
                self(below)
        return self(u)

    def __call__(self, u: Any, want: DType | None = None) -> Node:
        """The node of `u`; without a type of its own it takes `want`, or else int32 or float32."""
        weak = u.dtype in dtypes.weaks
        key = u, want if weak else None
        if key not in self.done:
            self.done[key] = self._of(u, _weak(u, want) if weak else dtype_of(u.dtype))
        value = self.done[key]
        return value if want is None or value.dtype is want else node(Op.CAST, value, arg=want)

    def _of(self, u: Any, dtype: DType) -> Node:
        if u.op is Ops.CONST:
            return constant(dtype, argument(dtype, 0 if u.is_invalid else u.val))
        if u.op is Ops.BUFFER:
            return self._buffer(u)
        if u.op in _SAME:
            return self(u.src[0], dtype)
        if u.op in MOVES:
            return moved(u, self(u.src[0], dtype), self.number)
        if u.op is Ops.AFTER:
            return self._assigned(u, dtype)
        if u.op is Ops.STACK:
            parts = [self(s, dtype) for s in u.src]
            return concat([reshape(part, (1, *part.shape)) for part in parts], 0)
        if u.op is Ops.REDUCE:
            return self._reduce(u, dtype)
        if u.op in (Ops.CAST, Ops.BITCAST):
            return self._cast(u, dtype)
        if u.op is Ops.CONTIGUOUS:
            return node(Form.CONTIGUOUS, self(u.src[0], dtype))
        if u.op is Ops.WHERE:
            branches = (constant(dtype, 0) if s.is_invalid else self(s, dtype) for s in u.src[1:])
            return _joined(Op.WHERE, self(u.src[0], DType.BOOL), *branches)
        if dtype.is_float and (call := self.compositions.meant(u) or meant(u)):
            return self._function(call, dtype)
        if dtype.is_float and (divided := quotient(u, self.is_function)) is not None:
            return self._of(divided, dtype)
        return self._arithmetic(u, dtype)

    def _arithmetic(self, u: Any, dtype: DType) -> Node:
        if u.op in UNARY:
            value = self(u.src[0], dtype)
            return node(UNARY[u.op], value) if dtype.is_float or u.op is not Ops.TRUNC else value
        if u.op in BINARY:
            return self._binary(u, BINARY[u.op], dtype)
        if u.op is Ops.NEG:
            return _joined(Op.MUL, self(u.src[0], dtype), constant(dtype, argument(dtype, -1)))
        if u.op is Ops.THREEFRY:
            return self(threefry2x32(*u.src))
        if u.op is Ops.POW and dtype.is_float:
            x, y = _together(*(self(s, dtype) for s in u.src))
            return node(Form.FUNCTION, x, y, arg="power")
        if u.op is Ops.PARAM:
            what = "a function with tinygrad's decorator, or a custom kernel, cannot be in a graph"
            raise CaptureError(what, fix="capture it instead")
        raise CaptureError(f"{u.op.name} cannot be in a graph of tinygrad", fix="capture it, or write it another way")

    def number(self, extent: Any) -> Node:
        """An extent or offset: a number, or an expression of variables."""
        return self(extent, DType.INT32) if varies(extent) else constant(DType.INT32, int(extent))

    def _assigned(self, u: Any, dtype: DType) -> Node:
        base, *effects = u.src
        if u.is_bound_var and base.expr in self.variables and u.unbind()[1] != self.variables[base.expr].minimum:
            raise bound_twice(base.expr)
        value = self(base, dtype)
        if not base.is_variable:  # a bound one is its variable
            for target, new in stores(effects):
                value = written(target, base, value, self(new, value.dtype), self.number)
        return value

    def _buffer(self, u: Any) -> Node:
        if u.is_variable:
            require_known([Conversion.variable(u)], self.variables.values())
            return variable(self.variables[u.expr])
        if u in self.realized:
            return reshape(self._bottom_up(self.realized[u]), (int(u.max_numel()),))
        if u not in self.leaves:
            content, dtype, shape = adapter.known(self.origins.get(u, u)), dtype_of(u.dtype), (int(u.max_numel()),)
            if content is None:
                self.leaves[u] = constant(dtype, argument(dtype, 0), shape)
            elif len(content) <= CONSTANT_BYTES:
                self.leaves[u] = data(dtype, shape, content)
            else:
                name = next(self.names)
                self.data[name] = np.frombuffer(content, STORAGE[dtype])
                self.leaves[u] = leaf(Form.WEIGHT, name, dtype, shape)
        return self.leaves[u]

    def _reduce(self, u: Any, dtype: DType) -> Node:
        x, extents = self(u.src[0], dtype), u.src[0].shape[: u.arg[1]]
        counts = [self.number(extent) for extent in extents] if any(map(varies, extents)) else []
        return node(REDUCE[u.arg[0]], x, *counts, arg=tuple(range(len(extents)))) if extents else x

    def _cast(self, u: Any, dtype: DType) -> Node:
        (source,) = u.src
        if u.op is Ops.BITCAST:
            x = self(source)
            if x.dtype.size != dtype.size:
                raise CaptureError("bits are read as a type of another width", fix="capture it instead")
            return node(Op.BITCAST, x, arg=dtype)
        x = self(source, dtype if source.dtype is dtypes.weakfloat and dtype.is_float else None)
        return x if x.dtype is dtype else node(Op.CAST, x, arg=dtype)

    def _binary(self, u: Any, op: Op, dtype: DType) -> Node:
        if op in COMPARISONS:
            common = least_upper_dtype(*(s.dtype for s in u.src))
            weak = {dtypes.weakint: DType.INT32, dtypes.weakfloat: DType.FLOAT32}
            dtype = weak.get(common) or dtype_of(common)
        operands = (self(s, dtype) for s in u.src)
        return _joined(ON_BOOL.get(op, op) if dtype is DType.BOOL else op, *operands)

    def _function(self, call: Meant, dtype: DType) -> Node:
        """In float32: at most one rounding to a half type at the end."""
        x = self(call.argument, dtype)
        x = x if x.dtype is DType.FLOAT32 else node(Op.CAST, x, arg=DType.FLOAT32)
        for op, value, neutral in ((Op.MUL, call.factor, 1), (Op.ADD, call.offset, 0)):
            x = x if value == neutral else _joined(op, x, constant(DType.FLOAT32, argument(DType.FLOAT32, value)))
        x = node(Form.FUNCTION, x, arg=call.function)
        if call.scale != 1:
            x = _joined(Op.MUL, x, constant(DType.FLOAT32, argument(DType.FLOAT32, call.scale)))
        return x if dtype is DType.FLOAT32 else node(Op.CAST, x, arg=dtype)


def _default(u: Any) -> DType:
    return DType.INT32 if u.dtype is dtypes.weakint else DType.FLOAT32


def _weak(u: Any, want: DType | None) -> DType:
    """What a node without a type of its own is computed in: of integers that become floats only numbers are floats."""
    if want is not None and want.is_float and u.dtype is dtypes.weakint and u.base.op is not Ops.CONST:
        return DType.INT32
    return want or _default(u)


def _together(*operands: Node) -> tuple[Node, ...]:
    shape = common_shape(*(x.shape for x in operands))
    return tuple(broadcast(x, shape) for x in operands)


def _joined(op: Op, *operands: Node) -> Node:
    return node(op, *_together(*operands))
