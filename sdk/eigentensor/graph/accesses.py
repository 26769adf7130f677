"""Where a node is evaluated: its index in terms of loops, pushed down from users to operands through movement forms."""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from eigentensor.graph.node import Form, Shape, is_single
from eigentensor.graph.node import Node as Tensor
from eigentensor.lowering.indices import interval, simplify
from eigentensor.lowering.kernel import add, index, less, scaled
from eigentensor.program.expression import Axis, Node, conjunction, counter, node
from eigentensor.program.ops import REDUCTIONS, DType, Op

Index = tuple[Node, ...]


class Access(NamedTuple):
    """A use of a node: the index of the element, and the guard under which it counts.

    `evaluations` is how often it is used there. `whole`: nothing lies between it and its kernel but arithmetic and
    moves. `term`: it is what a float32 sum adds up, so a product is accumulated with one rounding per step.
    """

    kernel: Tensor
    at: Index
    guard: Node | None
    evaluations: int
    whole: bool = True
    term: bool = False


def own(kernel: Tensor, axes: Sequence[Axis]) -> Access:
    """The access to a kernel's result itself; there is one axis for each of its extents."""
    return Access(kernel, tuple(map(counter, axes)), None, kernel.elements)


def element(at: Index, shape: Shape) -> Node:
    """The number in row-major order."""
    total, stride = index(0), prod(shape)
    for extent, position in zip(shape, at, strict=True):
        stride //= extent or 1
        total = add(total, scaled(position, stride))
    return simplify(total)


def inside(position: Node, extent: int) -> list[Node]:
    """The conditions for 0 ≤ position < extent that are not certain."""
    low, high = interval(position)
    return [less(index(-1), position)] * (low < 0) + [less(position, index(extent))] * (high >= extent)


def both(*conditions: Node | None) -> Node | None:
    """The conjunction of conditions, None where there is none: no condition is one that always holds."""
    known = [condition for condition in conditions if condition is not None]
    return conjunction(*known) if known else None


def operands(n: Tensor, access: Access, steps: Sequence[Axis]) -> list[Access]:
    """The accesses to a node's operands. `steps` are the axes of a reduction, or stands for the row of a GATHER."""
    if n.op in REDUCTIONS:
        number = Access(access.kernel, (), None, access.evaluations, False)
        return [_in_reduction(n, access, steps), *(number for _ in n.src[1:])]
    if n.op is Form.GATHER:
        return _in_gather(n, access, steps[0])
    if not isinstance(n.op, Form) or n.op is Form.FUNCTION:
        return [access._replace(term=False)] * len(n.src)
    return [moved(n, access)]


def moved(n: Tensor, access: Access) -> Access:
    """The access to what a movement form moves."""
    shape, at = n.src[0].shape, access.at
    match n.op:
        case Form.RESHAPE:
            return access._replace(at=_reshaped(at, n.shape, shape))
        case Form.PERMUTE:
            return access._replace(at=tuple(at[n.arg.index(axis)] for axis in range(len(shape))))
        case Form.EXPAND:
            return access._replace(at=tuple(i if old != 1 else index(0) for i, old in zip(at, shape, strict=True)))
        case Form.SHRINK:
            return access._replace(at=tuple(_plus(i, start) for i, (start, _) in zip(at, n.arg, strict=True)))
        case Form.FLIP:
            return access._replace(
                at=tuple(
                    _plus(scaled(i, -1), extent - 1) if axis in n.arg else i
                    for axis, (i, extent) in enumerate(zip(at, shape, strict=True))
                )
            )
        case Form.PAD:
            changed = tuple(_plus(i, -before) for i, (before, _) in zip(at, n.arg, strict=True))
            condition = both(*padding(n, access))
            term = access.term and condition is None
            return access._replace(at=changed, guard=both(access.guard, condition), whole=False, term=term)
    return access._replace(term=False)  # CONTIGUOUS, ROUNDED


def padding(n: Tensor, access: Access) -> list[Node]:
    """The conditions under which an element of a PAD is none of its zeros."""
    at = (_plus(i, -before) for i, (before, _) in zip(access.at, n.arg, strict=True))
    return [c for i, extent in zip(at, n.src[0].shape, strict=True) for c in inside(i, extent)]


def _plus(position: Node, offset: int) -> Node:
    return simplify(add(position, index(offset)))


def _in_reduction(n: Tensor, access: Access, steps: Sequence[Axis]) -> Access:
    kept, counters = iter(access.at), iter(steps)
    at = tuple(counter(next(counters)) if axis in n.arg else next(kept) for axis in range(len(n.src[0].shape)))
    if is_single(n):
        return access._replace(at=at)
    evaluations = access.evaluations * prod(axis.extent for axis in steps)
    return Access(
        access.kernel, at, access.guard, evaluations, False, n.op is Op.REDUCE_ADD and n.dtype is DType.FLOAT32
    )


def _in_gather(n: Tensor, access: Access, step: Axis) -> list[Access]:
    """The table at the row that `step` stands for, where a condition stands for being inside; and the indices."""
    row, rank = stand_in(step), len(n.src[1].shape)
    guard = both(access.guard, less(*row))
    in_table = access._replace(at=(row[0], *access.at[rank:]), guard=guard, whole=False, term=False)
    return [in_table, access._replace(at=access.at[:rank], whole=False, term=False)]


def stand_in(step: Axis) -> tuple[Node, Node]:
    """For the row that a GATHER takes from its table, and for the number of rows."""
    return node(Op.RANGE, DType.INDEX, arg=step), index(step.extent)


def _reshaped(at: Index, shape: Shape, source: Shape) -> Index:
    """The index into the source of an index into its reshaped form: extents are matched group by group."""
    indices: list[Node] = []
    new, rest = list(zip(at, shape, strict=True)), list(source)
    while rest:
        group, size = [], rest.pop(0)
        extents = [size]
        covered = 1
        # the shortest group of extents on both sides with one product: there, elements are the same
        while covered != size or (rest and rest[0] == 1):
            if covered < size:
                group.append(new.pop(0))
                covered *= group[-1][1]
            else:
                extents.append(rest.pop(0))
                size *= extents[-1]
        indices += _split(group, extents)
    return tuple(indices)


def _split(group: Sequence[tuple[Node, int]], extents: Sequence[int]) -> list[Node]:
    real = [(i, extent) for i, extent in group if extent != 1]
    if [extent for _, extent in real] == [extent for extent in extents if extent != 1]:
        kept = iter(i for i, _ in real)
        return [index(0) if extent == 1 else next(kept) for extent in extents]
    total = element(tuple(i for i, _ in real), tuple(extent for _, extent in real))
    indices, stride = [], prod(extents)
    for position, extent in enumerate(extents):
        stride //= extent
        value = node(Op.FLOORDIV, DType.INDEX, total, index(stride)) if stride > 1 else total
        value = node(Op.FLOORMOD, DType.INDEX, value, index(extent)) if position else value
        indices.append(index(0) if extent == 1 else simplify(value))
    return indices
