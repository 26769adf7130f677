"""A tinygrad function as a graph of whole tensors, before anything is scheduled: what the planner looks at."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from tinygrad import Tensor, dtypes
from tinygrad.codegen.decomp.op import threefry2x32
from tinygrad.dtype import least_upper_dtype
from tinygrad.uop.ops import Ops

from eigentensor.capture import adapter
from eigentensor.capture.compositions import Compositions
from eigentensor.capture.context import named_outputs
from eigentensor.capture.convert import BINARY, DTYPES, ON_BOOL, REDUCE, UNARY, dtype_of, refuse_unsupported
from eigentensor.capture.function import called, inputs_of, tensors_of
from eigentensor.capture.graph import static_shape
from eigentensor.capture.transcendental import Meant, meant
from eigentensor.errors import CaptureError
from eigentensor.graph.moves import broadcast, common_shape
from eigentensor.graph.node import Form, Graph, Node, constant, data, leaf, node, rewrite
from eigentensor.graph.selection import selected
from eigentensor.graph.simplify import simplified
from eigentensor.lowering.constants import argument
from eigentensor.lowering.graph_program import CONSTANT_BYTES, Values
from eigentensor.lowering.kernel import located
from eigentensor.numerics.dtypes import STORAGE, DType
from eigentensor.program.ops import COMPARISONS, Op

_SAME = (Ops.COPY, Ops.DETACH, Ops.CONTIGUOUS_BACKWARD)


def capture_graph(
    function: Callable[..., Any], example_inputs: Sequence[Any] | Mapping[str, Any], model: Any = None
) -> Graph:
    """The graph of a function of Tensors, as `capture` takes it: names, weights and functions are the same.

    Nothing is run. Raises CaptureError for what a graph has not: variables, assignments, values that are computed
    within the function.
    """
    function = adapter.without_jit(function)
    inputs = inputs_of(function, example_inputs)
    tensors = tensors_of(function if model is None else model, has_model=model is not None)
    contents = {name: adapter.contents(tensor) for name, tensor in tensors.items() if tensor.dtype not in dtypes.weaks}
    with adapter.recording() as steps, located(adapter.defined_at(function)):
        given = {name: adapter.placeholder(static_shape(e, name), e.dtype) for name, e in inputs.items()}
        for name in contents:
            tensors[name].uop = adapter.placeholder(static_shape(tensors[name], name), tensors[name].dtype).uop
        held = {name: tensor.uop for name, tensor in tensors.items()}
        results = named_outputs(called(function, given))
        if steps or any(tensors[name].uop is not uop for name, uop in held.items()):
            raise CaptureError(
                "a graph of tinygrad has no assignments and computes nothing while it is made",
                fix="capture it, or write it with GraphBuilder",
            )
        leaves = {adapter.buffer_of(t): _leaf(Form.INPUT, name, t) for name, t in given.items()}
        leaves |= {adapter.buffer_of(tensors[name]): _leaf(Form.WEIGHT, name, tensors[name]) for name in contents}
        raising = _Raising(leaves)
        outputs = {name: raising.output(tensor, name) for name, tensor in results.items()}
    weights = {name: _values(contents[name], tensors[name]) for name in contents}
    graph = simplified(Graph(outputs, data=weights | raising.data))
    roots = rewrite(graph.roots, selected)
    return simplified(Graph(dict(zip(outputs, roots, strict=True)), data=graph.data))


def _leaf(form: Form, name: str, tensor: Tensor) -> Node:
    found = leaf(form, name, dtype_of(tensor.dtype), static_shape(tensor, name))
    return node(Form.RESHAPE, found, arg=(found.elements,))


def _values(content: bytes, tensor: Tensor) -> Values:
    return np.frombuffer(content, STORAGE[dtype_of(tensor.dtype)]).reshape(tensor.shape)


class _Raising:
    """Converts tinygrad's nodes; weak types become what their user demands. `data` are weights that had no name."""

    def __init__(self, leaves: dict[Any, Node]) -> None:
        self.leaves = leaves
        self.data: dict[str, Values] = {}
        self.names = (name for i in count() if (name := f"data_{i}") not in {x.src[0].arg for x in leaves.values()})
        self.compositions = Compositions()
        self.done: dict[tuple[Any, DType | None], Node] = {}

    def output(self, tensor: Tensor, name: str) -> Node:
        static_shape(tensor, name)
        refuse_unsupported(tensor.uop)
        for u in tensor.uop.toposort():  # operands first: no recursion goes deep
            if u.dtype in DTYPES and not u.is_invalid:
                self(u)
        found = self(tensor.uop)
        return found if tensor.dtype in DTYPES else self(tensor.uop, _default(tensor.uop))

    def __call__(self, u: Any, want: DType | None = None) -> Node:
        """The node of `u`; without a type of its own it takes `want`, or else int32 or float32."""
        weak = u.dtype in dtypes.weaks
        key = u, want if weak else None
        if key not in self.done:
            dtype = (want or _default(u)) if weak else dtype_of(u.dtype)
            self.done[key] = self._of(u, dtype)
        found = self.done[key]
        return found if want is None or found.dtype is want else node(Op.CAST, found, arg=want)

    def _of(self, u: Any, dtype: DType) -> Node:
        if u.op is Ops.CONST:
            return constant(dtype, argument(dtype, 0 if u.is_invalid else u.val))
        if u.op is Ops.BUFFER:
            return self._buffer(u)
        if u.op in _SAME:
            return self(u.src[0], dtype)
        if u.op in _MOVES:
            return _MOVES[u.op](self(u.src[0], dtype), u.marg)
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
        raise CaptureError(f"{u.op.name} cannot be in a graph of tinygrad", fix="capture it, or write it another way")

    def _buffer(self, u: Any) -> Node:
        if u not in self.leaves:
            if not (adapter.is_host(u) or adapter.is_realized(u)):
                raise CaptureError(
                    "a tensor is read that nobody ever wrote", fix="give it contents, or make it an input"
                )
            content, dtype, shape = adapter.host_bytes(u), dtype_of(u.dtype), (int(u.max_numel()),)
            if len(content) <= CONSTANT_BYTES:
                self.leaves[u] = data(dtype, shape, content)
            else:
                name = next(self.names)
                self.data[name] = np.frombuffer(content, STORAGE[dtype])
                self.leaves[u] = leaf(Form.WEIGHT, name, dtype, shape)
        return self.leaves[u]

    def _reduce(self, u: Any, dtype: DType) -> Node:
        x = self(u.src[0], dtype)
        axes = tuple(range(u.arg[1]))
        return node(REDUCE[u.arg[0]], x, arg=axes) if axes else x

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


def _together(*operands: Node) -> tuple[Node, ...]:
    shape = common_shape(*(x.shape for x in operands))
    return tuple(broadcast(x, shape) for x in operands)


def _joined(op: Op, *operands: Node) -> Node:
    return node(op, *_together(*operands))


def _repeat(x: Node, extents: Sequence[int]) -> Node:
    """tinygrad's EXPAND puts new axes in front."""
    return broadcast(x, (*map(int, extents), *x.shape))


def _pad(x: Node, places: Sequence[tuple[int, int]]) -> Node:
    """tinygrad says where a tensor begins in a larger one, and how large that is."""
    widths = ((int(a), int(size) - int(a) - extent) for (a, size), extent in zip(places, x.shape, strict=True))
    return node(Form.PAD, x, arg=tuple(widths))


_MOVES: dict[Ops, Callable[[Node, Any], Node]] = {
    Ops.RESHAPE: lambda x, to: node(Form.RESHAPE, x, arg=tuple(map(int, to))),
    Ops.PERMUTE: lambda x, order: node(Form.PERMUTE, x, arg=tuple(order)),
    Ops.EXPAND: _repeat,
    Ops.PAD: _pad,
    Ops.SHRINK: lambda x, parts: node(Form.SHRINK, x, arg=tuple((int(a), int(a) + int(size)) for a, size in parts)),
    Ops.FLIP: lambda x, flags: node(Form.FLIP, x, arg=tuple(axis for axis, flag in enumerate(flags) if flag)),
}
