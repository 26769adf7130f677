"""tinygrad's scheduled kernels → expressions. Weak types become what their user demands."""

from collections.abc import Mapping
from functools import cache
from math import prod
from typing import Any, NamedTuple

from tinygrad.codegen.decomp.op import threefry2x32
from tinygrad.dtype import dtypes, least_upper_dtype
from tinygrad.uop.ops import Ops

from eigentensor.capture.compositions import Compositions
from eigentensor.capture.lines import origin
from eigentensor.capture.products import quotient
from eigentensor.capture.transcendental import Meant, meant
from eigentensor.errors import CaptureError
from eigentensor.lowering import functions
from eigentensor.lowering.constants import constant
from eigentensor.lowering.indices import divided, interval
from eigentensor.lowering.kernel import INT32_MAX, add, bitcast, cast, index, located, where
from eigentensor.program.expression import Array, Axis, Named, Node, binary, counter, load, node, reduction
from eigentensor.program.model import Bounds
from eigentensor.program.ops import COMPARISONS, DType, Op

DTYPES = {
    dtypes.bool: DType.BOOL,
    dtypes.int8: DType.INT8, dtypes.int16: DType.INT16, dtypes.int32: DType.INT32, dtypes.int64: DType.INT64,
    dtypes.uint8: DType.UINT8, dtypes.uint16: DType.UINT16, dtypes.uint32: DType.UINT32, dtypes.uint64: DType.UINT64,
    dtypes.float16: DType.FLOAT16, dtypes.bfloat16: DType.BFLOAT16, dtypes.float32: DType.FLOAT32,
}  # fmt: skip
BINARY = {
    Ops.ADD: Op.ADD, Ops.SUB: Op.SUB, Ops.MUL: Op.MUL, Ops.FDIV: Op.DIV, Ops.MAX: Op.MAX,
    Ops.CDIV: Op.CDIV, Ops.CMOD: Op.CMOD, Ops.FLOORDIV: Op.FLOORDIV, Ops.FLOORMOD: Op.FLOORMOD,
    Ops.AND: Op.AND, Ops.OR: Op.OR, Ops.XOR: Op.XOR, Ops.SHL: Op.SHL, Ops.SHR: Op.SHR,
    Ops.CMPLT: Op.CMPLT, Ops.CMPNE: Op.CMPNE, Ops.CMPEQ: Op.CMPEQ,
}  # fmt: skip
ON_BOOL = {Op.ADD: Op.OR, Op.MUL: Op.AND, Op.MAX: Op.OR}
UNARY = {Ops.SQRT: Op.SQRT, Ops.RECIPROCAL: Op.RECIPROCAL, Ops.TRUNC: Op.TRUNC}
#: Of shifts of indices by so many places nothing is left that a tensor has elements for.
WIDTH = 32
REDUCE = {Ops.ADD: Op.REDUCE_ADD, Ops.MUL: Op.REDUCE_MUL, Ops.MAX: Op.REDUCE_MAX}


CAST = 'compute it in float32: cast="float32"'


def dtype_of(dtype: Any) -> DType:
    """The format's type of a concrete tinygrad type."""
    if dtype not in DTYPES:
        if dtype is dtypes.float64:
            raise CaptureError("float64 cannot be in a program", fix=CAST, topic="cast")
        fix = "cast to float32 or float16" if dtypes.is_float(dtype) else "cast to a type of sdk/README.md"
        raise CaptureError(f"{str(dtype).removeprefix('dtypes.')} cannot be in a program", fix=fix)
    return DTYPES[dtype]


def refuse_unsupported(root: Any) -> None:
    """Raises CaptureError, with the user's line, where it is known, for types that no program has."""
    unsupported = [u for u in root.toposort() if u.dtype not in (*DTYPES, *dtypes.weaks, dtypes.void)]
    with located(next((line for u in unsupported if (line := origin(u))), "")):
        for u in unsupported:
            dtype_of(u.dtype)


def split_gate(index: Any) -> tuple[Any, Any]:
    """(element, condition) of a possibly gated index or value; the condition is None where it always holds."""
    if index.op is Ops.WHERE and index.src[2].is_invalid:
        element, inner = split_gate(index.src[1])
        return element, index.src[0] if inner is None else index.src[0] & inner
    return index, None


class Source(NamedTuple):
    """What a parameter of a kernel stands for: elements of an array from `offset` on, their bits read as `dtype`."""

    array: Array
    offset: int
    dtype: DType


class Conversion:
    """Converts the nodes of one kernel; `sources` says what its parameters stand for."""

    def __init__(self, sources: Mapping[int, Source]) -> None:
        self.sources = sources
        self.compositions = Compositions()
        self.is_function = cache(lambda u: (self.compositions.meant(u) or meant(u)) is not None)
        self.done: dict[tuple[Any, DType | None], Node] = {}
        self.extents: dict[Node, Node] = {}  # of counters; they may depend on variables

    def __call__(self, u: Any, want: DType | None = None) -> Node:
        """The expression of `u`; without a type of its own it takes `want`, or else index or float32."""
        weak = u.dtype in dtypes.weaks
        key = (u, want if weak else None)
        if key not in self.done:
            self.done[key] = self._weak(u, want) if weak else self._strong(u)
        expression = self.done[key]
        return expression if want is None else cast(want, expression)

    def _weak(self, u: Any, want: DType | None) -> Node:
        if u.dtype is dtypes.weakint:
            if u.op is Ops.CONST and want is not None:
                return constant(want, u.val)
            return self._operation(u, DType.INDEX)
        if u.op is Ops.CONST:
            return constant(want or DType.FLOAT32, u.val)
        return self._operation(u, DType.FLOAT32)

    def _strong(self, u: Any) -> Node:
        return self._operation(u, dtype_of(u.dtype))

    def _operation(self, u: Any, dtype: DType) -> Node:
        if u.op is Ops.CONST:
            return constant(dtype, 0 if u.is_invalid else u.val)
        if u.op is Ops.RANGE:
            loop = counter(self.axis(u))
            self.extents[loop] = self(u.src[0], DType.INDEX)
            return loop
        if u.op is Ops.PARAM:
            return node(Op.VAR, DType.INDEX, arg=self.variable(u))
        if u.op is Ops.INDEX:
            return self._load(u)
        if u.op is Ops.REDUCE:
            return self._reduce(u, dtype)
        if u.op is Ops.CAST:
            return self._cast(u, dtype)
        if u.op is Ops.BITCAST:
            return bitcast(dtype, self(u.src[0]))
        if u.op is Ops.WHERE:
            return where(self(u.src[0], DType.BOOL), self._branch(u.src[1], dtype), self._branch(u.src[2], dtype))
        if dtype.is_float and (call := self.compositions.meant(u) or meant(u)):
            return self._function(call, dtype)
        if dtype.is_float and (over := quotient(u, self.is_function)) is not None:
            return self._operation(over, dtype)
        if u.op in UNARY:
            value = self(u.src[0], dtype)
            return node(UNARY[u.op], dtype, value) if dtype.is_float or u.op is not Ops.TRUNC else value
        if u.op in BINARY:
            return self._binary(u, BINARY[u.op], dtype)
        if u.op is Ops.NEG:
            minus = constant(dtype, -1)
            return binary(Op.MUL, self(u.src[0], dtype), minus)
        if u.op is Ops.THREEFRY:
            return self(threefry2x32(*u.src))
        if u.op is Ops.POW and dtype.is_float:
            return functions.power(*(self(s, dtype) for s in u.src))
        if u.op is Ops.MULACC:
            return node(Op.MULACC, dtype, *(self(s, dtype) for s in u.src))
        raise CaptureError(f"{u.op.name} cannot be in a program", fix="express it with Tensor methods")

    def _branch(self, u: Any, dtype: DType) -> Node:
        return constant(dtype, 0) if u.is_invalid else self(u, dtype)

    def axis(self, u: Any) -> Axis:
        """The loop of a tinygrad RANGE, with its largest extent if that depends on variables."""
        extent = u.src[0]
        largest = extent.val if extent.op is Ops.CONST else extent.vmax
        return Axis(u.arg[0], int(largest), u.arg[-1].name == "REDUCE")

    @staticmethod
    def variable(u: Any) -> Named:
        """A variable of tinygrad's, with its bounds."""
        return Named(u.expr, Bounds(int(u.vmin), int(u.vmax)))

    def _load(self, u: Any) -> Node:
        element, gate = split_gate(u.src[1])
        source = self.sources.get(u.src[0].arg.slot)
        if source is None:
            return constant(dtype_of(u.dtype), 0)  # nobody ever wrote it
        guard = None if gate is None else self(gate, DType.BOOL)
        element = add(self(element, DType.INDEX), index(source.offset))
        return bitcast(source.dtype, load(source.array, element, guard))

    def _reduce(self, u: Any, dtype: DType) -> Node:
        ranges = [r for r in sorted(dict.fromkeys(u.src[1:]), key=lambda r: r.arg) if self.axis(r).extent != 1]
        extents = tuple(self(r.src[0], DType.INDEX) for r in ranges)
        axes = tuple(map(self.axis, ranges))
        if dtype is not DType.INDEX:
            term = self(u.src[0], dtype)
            return reduction(REDUCE[u.arg[0]], axes, term, extents=extents) if ranges else term
        term = self(u.src[0], DType.INDEX)
        low, high = interval(term)
        if max(-low, high) * (prod(axis.extent for axis in axes) if u.arg[0] is Ops.ADD else 1) > INT32_MAX:
            raise CaptureError("a sum of indices may exceed int32", fix="compute it in a tensor of integers")
        return cast(DType.INDEX, reduction(REDUCE[u.arg[0]], axes, cast(DType.INT64, term), extents=extents))

    def _cast(self, u: Any, dtype: DType) -> Node:
        source = u.src[0]
        if u.dtype is dtypes.weakfloat and source.dtype not in dtypes.weaks and dtypes.is_float(source.dtype):
            return self(source)
        if source.dtype is dtypes.weakfloat:
            return cast(dtype, self(source, dtype if dtype.is_float else None))
        return cast(dtype, self(source))

    def _binary(self, u: Any, op: Op, dtype: DType) -> Node:
        if op in COMPARISONS:
            common = least_upper_dtype(*(s.dtype for s in u.src))
            weak = {dtypes.weakint: DType.INDEX, dtypes.weakfloat: DType.FLOAT32}
            operand = weak.get(common) or dtype_of(common)
            return binary(op, self(u.src[0], operand), self(u.src[1], operand))
        a, b = (self(s, dtype) for s in u.src)
        if dtype is DType.BOOL:
            return binary(ON_BOOL.get(op, op), a, b)
        return self._of_indices(op, a, b) if dtype is DType.INDEX else binary(op, a, b)

    def _of_indices(self, op: Op, a: Node, b: Node) -> Node:
        """By operations that the format has on indices, which are integers without a width."""
        if op is Op.XOR:
            for x, minus_one in ((a, b), (b, a)):
                if minus_one is index(-1):
                    return binary(Op.SUB, minus_one, x)
            return binary(Op.SUB, binary(Op.OR, a, b), binary(Op.AND, a, b))
        if op in (Op.SHL, Op.SHR):
            if b.op is not Op.CONST or not 0 <= b.arg < WIDTH:
                raise CaptureError("an index is shifted by another", fix="shift a tensor of integers")
            return binary(Op.MUL if op is Op.SHL else Op.FLOORDIV, a, index(1 << b.arg))
        if op in (Op.FLOORDIV, Op.FLOORMOD) and b.op is not Op.CONST:
            division = divided(a, b, self.extents)
            if division is not None:
                return division[op is Op.FLOORMOD]
        return binary(op, a, b)

    def _function(self, call: Meant, dtype: DType) -> Node:
        """Our own expansion, in float32: at most one rounding to a half type at the end."""
        argument = cast(DType.FLOAT32, self(call.argument, dtype))
        if call.factor != 1:
            argument = binary(Op.MUL, argument, constant(DType.FLOAT32, call.factor))
        if call.offset:
            argument = binary(Op.ADD, argument, constant(DType.FLOAT32, call.offset))
        value = getattr(functions, call.function)(argument)
        if call.scale != 1:
            value = binary(Op.MUL, value, constant(DType.FLOAT32, call.scale))
        return cast(dtype, value)
