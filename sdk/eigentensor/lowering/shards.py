"""Reductions over axes that an author names, cut into equal shards: whoever owns some of them computes theirs alone.

A shard is a run of rows, as long as the others, along the named axes of inputs. Which one an element of a tensor is of
is a digit of its number: `(element // stride) % count`. From the inputs it follows through the kernels to all that is
computed row by row. Where a reduction's axis runs through shards, the reduction is cut into one span for each shard,
whatever its operation and length, and a second one takes up their results in order. A shard's is then cut as any other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from eigentensor.errors import CaptureError
from eigentensor.lowering.indices import affine, interval, simplify
from eigentensor.lowering.kernel import Kernel, add, fresh_axis, scaled
from eigentensor.lowering.passes import free_axes, in_order, replace, substitute, take_out
from eigentensor.lowering.spans import cut, has_constant_extents, over_spans, partials, reductions_below
from eigentensor.program.expression import Array, Axis, Node, counter, factors, reduction, walk
from eigentensor.program.intervals import UNKNOWN
from eigentensor.program.model import Buffer, Role
from eigentensor.program.ops import REDUCTIONS, Op

#: What an author gives: how many shards of axis 0 of each input that has one, or by name (axis, how many).
Shards = int | Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Digit:
    """`(counter(axis) // stride) % count` is the shard that a loop over the axis is in."""

    axis: Axis
    stride: int


class Sharding:
    """Cuts kernels in the order in which they run, and remembers which of their results have shards.

    Raises CaptureError where the named axes cannot be cut into so many equal shards.
    """

    def __init__(self, shards: Shards, externals: Mapping[Array, Buffer]) -> None:
        axes, self._count = _axes(shards, list(externals.values()))
        self._strides: dict[Array, set[int]] = {}
        for array, buffer in externals.items():
            if buffer.name in axes:
                self._strides[array] = {_stride(buffer, axes[buffer.name], self._count)}

    @property
    def is_asked_for(self) -> bool:
        """Whether anything is cut into shards."""
        return bool(self._strides)

    def cut(self, kernel: Kernel) -> list[Kernel]:
        """The kernels that compute the same, with a partial result for each shard, and no long float reduction."""
        self._remember(kernel)
        made: list[Kernel] = []
        while (over := self._over_shards(kernel)) is not None:
            n, digit = over
            if below := reductions_below(n):
                first, kernel = take_out(below[-1], kernel)
                made += self.cut(first)
                continue
            outer = in_order(kernel, free_axes(n)[n])
            shard = fresh_axis(self._count)
            parts = partials((shard, *outer), _of_shard(n, digit, shard), kernel)
            made += cut(parts, apart=parts.axes[0])
            value = over_spans(n.op, parts, outer)
            kernel = replace(kernel, n, value)
            if set(kernel.axes) - set(outer):  # rows use it: shards meet in a kernel of its own, once
                whole, kernel = take_out(value, kernel)
                made += cut(whole)
        return [*made, *cut(kernel)]

    def _remember(self, kernel: Kernel) -> None:
        stride = prod(axis.extent for axis in kernel.axes)
        strides = {}
        for axis in kernel.axes:
            stride //= axis.extent or 1
            strides[axis] = stride
        own = {strides[d.axis] * d.stride for d in self._digits(kernel.value) if d.axis in strides}
        if own:
            self._strides[kernel.result] = own

    def _over_shards(self, kernel: Kernel) -> tuple[Node, Digit] | None:
        """The first reduction, operands first, with an axis through shards: the outermost one."""
        for n in walk(kernel.value):
            if n.op in REDUCTIONS and has_constant_extents(n):
                digits = {digit.axis: digit for digit in self._digits(*factors(n))}
                for axis in n.arg:
                    if axis in digits:
                        return n, digits[axis]
        return None

    def _digits(self, *values: Node) -> list[Digit]:
        """The loops that run through the shards of what is loaded below some expressions."""
        digits = [
            _digit(n.src[0], stride, self._count)
            for n in walk(*values)
            if n.op is Op.LOAD
            for stride in self._strides.get(n.arg, ())
        ]
        return [digit for digit in digits if digit is not None]


def _digit(element: Node, stride: int, count: int) -> Digit | None:
    """The one loop of which `(element // stride) % count` is a digit; None if it is of more, or follows from data.

    What an index adds in front of a tensor's zeros, where its guard holds, is nothing: such terms are passed over.
    """
    digits: list[Digit] = []
    for of, coefficient in affine(element).terms:
        low, high = interval(of)
        # Multiples of all shards say nothing, and what stays within a shard is a place in it.
        if coefficient % (stride * count) and abs(coefficient) * (high - low + 1) > stride:
            if (low, high) == UNKNOWN:
                return None
            if stride % coefficient == 0 and (digit := _digit_of(of, stride // coefficient, count)) is not None:
                digits.append(digit)
    return digits[0] if len(digits) == 1 else None


def _digit_of(of: Node, stride: int, count: int) -> Digit | None:
    """The same of one term: a counter whose loop goes through all shards, or a quotient or remainder."""
    if of.op is Op.RANGE and stride > 0 and of.arg.extent % (stride * count) == 0:
        return Digit(of.arg, stride)
    if of.op not in (Op.FLOORDIV, Op.FLOORMOD) or of.src[1].op is not Op.CONST or stride <= 0:
        return None
    value, by = of.src[0], int(of.src[1].arg)
    if of.op is Op.FLOORDIV:
        return _digit(value, stride * by, count)
    return _digit(value, stride, count) if by % (stride * count) == 0 else None


def _of_shard(n: Node, digit: Digit, shard: Axis) -> Node:
    """A reduction over the steps of one shard: the loop through shards is one before it and one within it."""
    before = fresh_axis(digit.axis.extent // (digit.stride * shard.extent), is_reduce=True)
    within = fresh_axis(digit.stride, is_reduce=True)
    place = add(scaled(counter(before), digit.stride * shard.extent), scaled(counter(shard), digit.stride))
    changes = {counter(digit.axis): add(place, counter(within))}
    inputs = [simplify(substitute(f, changes)) for f in factors(n)]
    taken = [(before, within) if axis == digit.axis else (axis,) for axis in n.arg]
    axes = tuple(axis for steps in taken for axis in steps if axis.extent != 1)
    return reduction(n.op, axes, *inputs)


def _axes(shards: Shards, buffers: Sequence[Buffer]) -> tuple[dict[str, int], int]:
    """The axis of each tensor that is cut, and into how many shards."""
    inputs = {b.name: b for b in buffers if b.role is Role.INPUT}
    if isinstance(shards, Mapping):
        tensors = inputs | {b.name: b for b in buffers if b.role is Role.STATE}
        return _named(shards, tensors)
    axes = {name: 0 for name, buffer in inputs.items() if buffer.shape}
    if _counted(shards) > 1 and not axes:
        raise CaptureError("no input has an axis to cut into shards", fix="leave `shards` out")
    return axes if shards > 1 else {}, shards


def _named(shards: Mapping[str, tuple[int, int]], tensors: Mapping[str, Buffer]) -> tuple[dict[str, int], int]:
    for name, by in shards.items():
        if not isinstance(by, tuple | list) or len(by) != 2:
            raise CaptureError(f"the shards of {name!r} are {by!r}", fix="give (axis, count)")
    counts = {_counted(count) for _, count in shards.values()}
    if len(counts) != 1:
        raise CaptureError(f"there are {sorted(counts) or 'no'} shards at once", fix="cut all axes into as many")
    for name, (axis, _) in shards.items():
        if name not in tensors:
            what = f"{name!r} is no input and no state: it has no shards"
            raise CaptureError(what, fix=f"name some of {sorted(tensors)}")
        if isinstance(axis, bool) or not isinstance(axis, int) or not 0 <= axis < len(tensors[name].shape):
            what = f"{name!r} of shape {tensors[name].shape} has no axis {axis!r}"
            raise CaptureError(what, fix="count its axes from 0")
    return {name: axis for name, (axis, _) in shards.items()}, counts.pop()


def _counted(count: int) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1 or count & (count - 1):
        raise CaptureError(f"{count!r} shards", fix="give a power of two: 1, 2, 4, …")
    return count


def _stride(buffer: Buffer, axis: int, count: int) -> int:
    """How many elements a shard's rows are apart from the next one's."""
    extent = buffer.shape[axis]
    if not extent or extent % count:
        what = f"the axis {axis} of {buffer.name!r} has {extent} rows, which are not {count} equal shards"
        fix = f"take a multiple of {count} rows, or name the inputs to cut: shards={{{buffer.name!r}: (axis, count)}}"
        raise CaptureError(what, fix=fix)
    return prod(buffer.shape[axis:]) // count
