"""Reductions in order. tinygrad adds the terms of unrolled steps first; here each is accumulated in its turn."""

from itertools import product
from typing import Any

from tinygrad.dtype import AddrSpace, dtypes
from tinygrad.uop.ops import Ops, PatternMatcher, UOp, UPat, _broadcast_shape

from support.oracles.guarded.floats import rounded
from support.oracles.guarded.uops import float32, integer, larger, uop

#: A REDUCE of the kind MULACC reduces a MULACC of its two factors and zero; its tag is the half type that it rounds to.
FACTORS = 2


def _parts(r: Any) -> tuple[Any, ...]:
    return tuple(r.src[0].src[:FACTORS] if r.arg[0] is Ops.MULACC else r.src[:1])


def _of(parts: list[Any]) -> Any:
    return uop(Ops.MULACC, *parts, float32(0)) if len(parts) == FACTORS else parts[0]


def _unroll(r: Any) -> Any:
    """Loops that became axes of the terms are moved to the front of these; the REDUCE takes them from there."""
    loops = [u for u in r.src[1:] if u.op is Ops.RANGE]
    unrolled = [u.shape for u in r.src[1:] if u.op is not Ops.RANGE and u.shape != ()]
    axes = [axis for shape in unrolled for axis, size in enumerate(shape) if size > 1]
    if not axes:
        return None
    shape = _broadcast_shape(*(part.shape for part in _parts(r)), *unrolled)
    order = (*axes, *(axis for axis in range(len(shape)) if axis not in axes))
    term = _of([part.expand(shape).permute(order) for part in _parts(r)])
    short = UOp(Ops.REDUCE, src=(term, *loops), arg=(r.arg[0], len(axes)), tag=r.tag)
    return short.reshape(tuple(1 if axis in axes else size for axis, size in enumerate(shape)))


def _accumulate(numbers: list[int], r: Any) -> Any:
    """A REDUCE as a register that takes one term after the other, in the order of the loops."""
    loops, start = r.src[1:], _identity(r.arg[0], r.dtype)
    if not loops:
        return _steps(r, start)
    total = UOp.placeholder_like(r, numbers[0], AddrSpace.REG)
    numbers[0] += 1
    inside = r.src[0].toposort()
    ended = {loop for u in inside if u.op is Ops.END for loop in u.ended_ranges}
    around = tuple(u for u in inside if u.op is Ops.RANGE and u not in loops and u not in ended)
    before = total.after(total.after(*around).store(start), *loops)
    result = total.after(before.store(_steps(r, before)).end(*loops))
    return result if r.shape else result.reshape(())  # a register has an axis, which terms around would take over


def _steps(r: Any, total: Any) -> Any:
    """The accumulator after the unrolled steps, or after the one that there is."""
    kind, axes = r.arg
    for place in product(*(range(size) for size in r.src[0].max_shape[:axes])):
        total = _step(kind, r.tag, total, [part.index(*place) if axes else part for part in _parts(r)])
    return total


def _step(kind: Any, rounded_to: Any, total: Any, parts: list[Any]) -> Any:
    if kind is Ops.MULACC:
        return uop(Ops.MULACC, *parts, total)
    if kind is Ops.MAX:
        return larger(total, *parts)
    result = uop(kind, total, *parts)
    return result if rounded_to is None else rounded(rounded_to, result)


def _identity(kind: Any, dtype: Any) -> Any:
    number = {Ops.ADD: 0, Ops.MULACC: 0, Ops.MUL: 1, Ops.MAX: dtype.min}[kind]
    return float32(127 << 23 if number else 0) if dtype is dtypes.float32 else integer(number, dtype)


unrolling = PatternMatcher([(UPat(Ops.REDUCE, name="r"), _unroll)])
accumulators = PatternMatcher([(UPat(Ops.REDUCE, name="r"), lambda ctx, r: _accumulate(ctx, r))])
