"""What a graph means over the reals, as near as float64 comes; and how far a result is from it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import erfc, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.errors import BindingError
from eigentensor.graph.node import Form, Graph, Node, is_bounded, walk
from eigentensor.numerics.conversion import bitcast, cast
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.floats import narrow, widen
from eigentensor.numerics.operations import OPERATIONS, from_pattern
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.ops import COMPARISONS, REDUCTIONS, Op

Values = NDArray[Any]
Doubles = NDArray[np.float64]
_LEAVES = frozenset({Form.INPUT, Form.WEIGHT, Form.STATE})
#: How many products of a sum take as long as an element, and how many elements as long as one of a function.
_PRODUCTS, _FUNCTION = 8, 16
#: What NumPy has as views of another array.
_VIEWS = frozenset({Form.EXPAND, Form.PERMUTE, Form.SHRINK, Form.FLIP, Form.COUNTER, Form.CONTIGUOUS, Op.CONST})
_erfc = np.frompyfunc(erfc, 1, 1)


def _sigmoid(x: Doubles) -> Doubles:
    return np.asarray(1 / (1 + np.exp(-x)))


def _gated(x: Doubles, gate: Doubles) -> Doubles:
    """x · gate, where a gate of zero closes also before an infinity."""
    return np.where(gate == 0, 0.0, x * gate)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atanh": np.arctanh, "cos": np.cos, "cosh": np.cosh, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "log": np.log, "log1p": np.log1p, "log2": np.log2, "log10": np.log10, "sin": np.sin, "sinh": np.sinh,
    "tan": np.tan, "tanh": np.tanh, "sigmoid": _sigmoid,
    "erf": lambda x: 1 - _erfc(x), "gelu": lambda x: _gated(x, np.asarray(_erfc(x / -sqrt(2)), np.float64) / 2),
    "gelu_tanh": lambda x: _gated(x, _sigmoid(sqrt(8 / np.pi) * (x + 0.044715 * x**3))),
    "mish": lambda x: _gated(x, np.tanh(np.logaddexp(0, x))),
    "silu": lambda x: _gated(x, _sigmoid(x)),
    "softplus": lambda x: np.logaddexp(0, x), "power": np.power,
}  # fmt: skip

_ELEMENTWISE: dict[Op, Callable[..., Any]] = {
    Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.DIV: np.divide, Op.MAX: np.maximum,
    Op.MIN: np.minimum, Op.SQRT: np.sqrt, Op.RECIPROCAL: np.reciprocal, Op.TRUNC: np.trunc,
    Op.MULACC: lambda a, b, c: a * b + c, Op.CMPLT: np.less, Op.CMPNE: np.not_equal, Op.CMPEQ: np.equal,
}  # fmt: skip
_REDUCE: dict[Op, Callable[..., Any]] = {
    Op.REDUCE_ADD: np.sum, Op.REDUCE_MUL: np.prod, Op.REDUCE_MAX: np.max, Op.REDUCE_MIN: np.min
}  # fmt: skip


def oracle(graph: Graph, tensors: Mapping[str, Values], variables: Mapping[str, int] | None = None) -> list[Values]:
    """The values of the graph's roots, outputs and then new states; `tensors` as `program.binding.bind` takes them.

    Floats are float64, exact where they come in, and never rounded to their own type between operations. Integers and
    bools are what the format says. Raises BindingError if a tensor or a variable is missing.
    """
    return evaluated(graph.roots, {**graph.data, **tensors}, variables or {})


@np.errstate(all="ignore")
def evaluated(roots: Sequence[Node], tensors: Mapping[str, Values], variables: Mapping[str, int]) -> list[Values]:
    """The values of nodes; each is let go when nothing needs it any more."""
    order = list(walk(*roots))
    fused = _factors_of_sums(order, roots)
    left = Counter(id(s) for n in order for s in n.src) + Counter(map(id, roots))
    known: dict[int, Values] = {}
    for n in order:
        if id(n) in fused:
            continue
        if n.op is Op.REDUCE_ADD and id(n.src[0]) in fused:
            operands = n.src[0].src  # there are no bounds
            known[id(n)] = _sum_of_products(known[id(operands[0])], known[id(operands[1])], n.arg)
        else:
            operands = n.src
            known[id(n)] = _value(n, [known[id(s)] for s in operands], tensors, variables)
        for s in operands:
            left[id(s)] -= 1
            if not left[id(s)]:
                known.pop(id(s), None)
    return [known[id(root)] for root in roots]


def largest_and_all(roots: Sequence[Node]) -> tuple[int, int]:
    """How many elements the largest tensor has that evaluating nodes makes, and all of them, in those of a sum: time
    goes with these. What only repeats or moves another tensor has none; products that are never made count in part."""
    order = list(walk(*roots))
    fused, largest, work = _factors_of_sums(order, roots), 0, 0
    for n in order:
        if id(n) in fused:
            work += n.elements // _PRODUCTS
        elif n.op not in _VIEWS and (n.op is not Form.RESHAPE or n.src[0].op in _VIEWS):
            largest = max(largest, n.elements)
            work += n.elements * (_FUNCTION if n.op is Form.FUNCTION else 1)
    return largest, work


def _factors_of_sums(order: Sequence[Node], roots: Sequence[Node]) -> set[int]:
    """Products of floats that nothing but one sum uses: they are never made."""
    users = Counter(id(s) for n in order for s in n.src) + Counter(map(id, roots))
    sums = (n.src[0] for n in order if n.op is Op.REDUCE_ADD and n.dtype.is_float and not is_bounded(n))
    return {id(s) for s in sums if s.op is Op.MUL and users[id(s)] == 1}


def _sum_of_products(a: Values, b: Values, axes: tuple[int, ...]) -> Values:
    """Σ a·b over axes; where an operand only repeats itself along an axis, it has no such axis."""
    labels = range(a.ndim)
    repeated = {axis for axis in labels if a.strides[axis] == b.strides[axis] == 0 or a.shape[axis] == 1}
    of = [[axis for axis in labels if v.strides[axis] and v.shape[axis] > 1] for v in (a, b)]
    cores = [v[tuple(slice(None) if axis in has else 0 for axis in labels)] for v, has in zip((a, b), of, strict=True)]
    kept = [axis for axis in labels if axis not in axes and axis not in repeated]
    total = np.einsum(cores[0], of[0], cores[1], of[1], kept, optimize=True)
    total = total * np.prod([a.shape[axis] for axis in axes if axis in repeated], dtype=np.float64)
    shape = [axis for axis in labels if axis not in axes]
    total = total.reshape([1 if axis in repeated else a.shape[axis] for axis in shape])
    return np.broadcast_to(total, [a.shape[axis] for axis in shape])


def _value(n: Node, operands: list[Values], tensors: Mapping[str, Values], variables: Mapping[str, int]) -> Values:
    if n.op in _LEAVES:
        return _wide(n.dtype, _leaf(n, tensors))
    match n.op:
        case Form.VARIABLE:
            if n.arg.name not in variables:
                raise BindingError(f"the variable {n.arg.name!r} has no value", fix="Give it one.")
            return np.asarray(variables[n.arg.name], np.int32)
        case Form.COUNTER:
            along = [extent if axis == n.arg else 1 for axis, extent in enumerate(n.shape)]
            return np.broadcast_to(np.arange(n.shape[n.arg], dtype=np.int32).reshape(along), n.shape)
        case Form.FUNCTION:
            return np.asarray(_FUNCTIONS[n.arg](*operands), np.float64)
        case Form.DATA:
            return _wide(n.dtype, np.frombuffer(n.arg, STORAGE[n.dtype].newbyteorder("<")).reshape(n.shape))
        case Op.CONST:
            return np.broadcast_to(_wide(n.dtype, from_pattern(n.dtype, n.arg)), n.shape)
        case Op.CAST:
            return _cast(n.src[0].dtype, n.dtype, operands[0])
        case Op.BITCAST:
            source, target = n.src[0].dtype, n.dtype
            return _wide(target, bitcast(source, target, _narrow(source, operands[0])))
    if isinstance(n.op, Form):
        return _moved(n, operands)
    if n.op in REDUCTIONS:
        return _reduced(n, operands[0][_counted(n, operands[1:])])
    if n.op is Op.WHERE:
        return np.where(*operands)
    if n.dtype.is_float or (n.op in COMPARISONS and n.src[0].dtype.is_float):
        return np.asarray(_ELEMENTWISE[n.op](*operands))
    return OPERATIONS[n.op.name](n.src[0].dtype, *operands)


def _leaf(n: Node, tensors: Mapping[str, Values]) -> Values:
    tensor = tensors.get(n.arg)
    if tensor is None:
        raise BindingError(f"the tensor {n.arg!r} has no values", fix="Give it some.")
    if tensor.shape != n.shape or tensor.dtype != STORAGE[n.dtype]:
        expected = f"{STORAGE[n.dtype]} of shape {n.shape}"
        raise BindingError(f"tensor {n.arg!r}: expected {expected}, given {tensor.dtype} of shape {tensor.shape}")
    return tensor


def _moved(n: Node, operands: list[Values]) -> Values:
    x = operands[0]
    match n.op:
        case Form.RESHAPE:
            return x.reshape(n.shape)
        case Form.PERMUTE:
            return x.transpose(n.arg)
        case Form.EXPAND:
            return np.broadcast_to(x, n.shape)
        case Form.SHRINK:
            return x[tuple(slice(*bounds) for bounds in n.arg)]
        case Form.PAD:
            return np.pad(x, n.arg)
        case Form.FLIP:
            return np.flip(x, n.arg)
        case Form.GATHER:
            rows = operands[1].astype(np.int64)
            there = (rows >= 0) & (rows < len(x))
            taken = x[np.where(there, rows, 0)] if len(x) else np.zeros(n.shape, x.dtype)
            return np.where(there.reshape(there.shape + (1,) * (x.ndim - 1)), taken, np.zeros((), x.dtype))
    return x  # CONTIGUOUS


def _counted(n: Node, bounds: Sequence[Values]) -> tuple[slice, ...]:
    """The elements of what is reduced that count."""
    stops = dict(zip(n.arg, map(int, bounds), strict=False))
    return tuple(slice(stops.get(axis)) for axis in range(len(n.src[0].shape)))


def _reduced(n: Node, x: Values) -> Values:
    assert isinstance(n.op, Op)
    if n.dtype is DType.BOOL:
        anything = n.op in (Op.REDUCE_ADD, Op.REDUCE_MAX)
        return np.asarray((np.any if anything else np.all)(x, axis=n.arg))
    ordered = n.op in (Op.REDUCE_MAX, Op.REDUCE_MIN)
    if ordered and not x.size and n.elements:
        limits = np.iinfo(x.dtype) if not n.dtype.is_float else None
        least, most = (limits.min, limits.max) if limits else (-np.inf, np.inf)
        return np.full(n.shape, least if n.op is Op.REDUCE_MAX else most, x.dtype)
    return np.asarray(_REDUCE[n.op](x, axis=n.arg, **({} if ordered else {"dtype": x.dtype})))


def _cast(source: DType, target: DType, x: Values) -> Values:
    if not source.is_float:
        return x.astype(np.float64) if target.is_float else cast(source, target, x)
    if target.is_float:
        return x
    if target is DType.BOOL:
        return np.asarray(x != 0)
    limits = np.iinfo(STORAGE[target])
    below, above = x < float(limits.min), x >= float(limits.max) + 1
    inside = np.trunc(np.where(below | above | np.isnan(x), 0, x)).astype(STORAGE[target])
    return np.where(above, limits.max, np.where(below, limits.min, inside)).astype(STORAGE[target])


def _wide(dtype: DType, x: Values) -> Values:
    return widen(dtype, x).astype(np.float64) if dtype.is_float else x


def _narrow(dtype: DType, x: Values) -> Values:
    return narrow(dtype, x.astype(np.float32)) if dtype.is_float else x


@np.errstate(all="ignore")
def max_relative_error(dtype: DType, result: Values, exact: Values, usual: float | None = None) -> float:
    """The largest |result - exact| / max(|exact|, the root mean square of all that is exact) over a tensor's elements.

    That is relative where an element is large. Where cancellation leaves little of it the error counts in units of what
    the tensor usually holds, as in normwise bounds (Higham, Accuracy and Stability of Numerical Algorithms, 2002,
    section 3.1): a number that depends neither on the scale of a tensor nor on how many elements it has. Infinities and
    NaN must be where they are in `exact`, integers and bools equal, or the error is infinite. A tensor without elements
    has none. Of a part of a tensor `usual` is what `usually` says of all of it.
    """
    if not dtype.is_float:
        return 0.0 if np.array_equal(result, exact) else float("inf")
    values = widen(dtype, np.asarray(result)).astype(np.float64)
    finite = np.isfinite(exact)
    if not np.array_equal(values[~finite], exact[~finite], equal_nan=True) or not np.isfinite(values[finite]).all():
        return float("inf")
    values, true = values[finite], exact[finite]
    if not true.size or np.array_equal(values, true):
        return 0.0
    return float(np.max(np.abs(values - true) / np.maximum(np.abs(true), usually(true) if usual is None else usual)))


@np.errstate(all="ignore")
def usually(exact: Values) -> float:
    """The root mean square of all that is finite in a tensor of floats; 0 if nothing is."""
    finite = exact[np.isfinite(exact)]
    return sqrt(float(np.mean(finite**2))) if finite.size else 0.0
