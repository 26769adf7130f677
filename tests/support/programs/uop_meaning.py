"""What a graph of tinygrad's UOps means if every node of it is the operation of the format with its name.

Each loop has an axis of its own; sums are taken one step after the other, outer loops first.
"""

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tinygrad.dtype import dtypes
from tinygrad.uop.ops import GroupOp, Ops

from eigentensor.capture.convert import DTYPES
from eigentensor.numerics.conversion import bitcast, cast
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.floats import canonical
from eigentensor.numerics.operations import OPERATIONS, identity
from eigentensor.numerics.storage import STORAGE

Values = NDArray[Any]
AXES = 3
NAMES = {Ops.FDIV: "DIV"}


def meaning(root: Any, arrays: list[Values], fused: bool = False) -> Values:
    """The values of a node, an axis for each loop by number, for parameters that hold these flat arrays.

    `fused` takes a float32 sum of products as capture does, with one rounding per step.
    """
    done: dict[Any, Values] = {}
    for u in root.toposort():
        done[u] = _value(u, done, arrays, fused)
    return np.ascontiguousarray(canonical(dtype_of(root), done[root]))


def dtype_of(u: Any) -> DType:
    """Weak types as capture has them."""
    return {dtypes.weakint: DType.INDEX, dtypes.weakfloat: DType.FLOAT32}.get(u.dtype) or DTYPES[u.dtype]


def _value(u: Any, done: dict[Any, Values], arrays: list[Values], fused: bool) -> Values:
    if u.op is Ops.RANGE:
        axis = u.arg[0]
        return np.arange(int(u.vmax) + 1).reshape([-1 if a == axis else 1 for a in range(AXES)])
    if u.op is Ops.CONST:
        return np.full((1,) * AXES, 0 if u.is_invalid else u.val).astype(STORAGE[dtype_of(u)])
    a = [done[s] for s in u.src]
    if u.op is Ops.INDEX:
        return _gathered(u, done, arrays)
    if u.op is Ops.LOAD:
        return np.where(done[u.src[2]], a[0], a[1]) if len(a) > 1 else a[0]
    if u.op is Ops.CAST:
        return cast(dtype_of(u.src[0]), dtype_of(u), a[0])
    if u.op is Ops.BITCAST:
        return bitcast(dtype_of(u.src[0]), dtype_of(u), a[0])
    if u.op is Ops.REDUCE:
        return _reduced(u, done, fused)
    if u.op not in GroupOp.ALU:
        return np.zeros((1,) * AXES)
    head, sources = ([a[0]], u.src[1:]) if u.op is Ops.WHERE else ([], u.src)
    strongest = next((s for s in sources if s.dtype not in dtypes.weaks), sources[0])
    wanted = dtype_of(strongest) if u.op in GroupOp.Comparison else dtype_of(u)
    operands = [cast(dtype_of(s), wanted, done[s]) for s in sources]
    if u.op is Ops.NEG:
        return OPERATIONS["MUL"](wanted, *operands, cast(DType.INT8, wanted, np.asarray(-1, np.int8)))
    return OPERATIONS[NAMES.get(u.op, u.op.name)](wanted, *head, *operands)


def _gathered(u: Any, done: dict[Any, Values], arrays: list[Values]) -> Values:
    array, place = arrays[u.src[0].arg.slot], u.src[1]
    if place.op is Ops.WHERE and place.src[2].is_invalid:
        gate = done[place.src[0]]
        return np.where(gate, array[np.where(gate, done[place.src[1]], 0)], np.zeros((), array.dtype))
    gathered: Values = array[done[place]]
    return gathered


def _reduced(u: Any, done: dict[Any, Values], fused: bool) -> Values:
    term, loops, dtype = u.src[0], sorted(u.src[1:], key=lambda r: r.arg), dtype_of(u)
    is_fused = fused and u.arg[0] is Ops.ADD and term.op is Ops.MUL and dtype is DType.FLOAT32
    name = "MULACC" if is_fused else u.arg[0].name
    factors = [cast(dtype_of(s), dtype, done[s]) for s in (term.src if is_fused else (term,))]
    total = np.asarray(identity(name, dtype)).reshape((1,) * AXES)
    for counters in product(*(range(int(r.vmax) + 1) for r in loops)):
        step = factors
        for loop, counter in zip(loops, counters, strict=True):
            axis = loop.arg[0]
            step = [np.take(v, [counter if v.shape[axis] > 1 else 0], axis) for v in step]
        total = OPERATIONS[name](dtype, *((*step, total) if is_fused else (total, *step)))
    return total
