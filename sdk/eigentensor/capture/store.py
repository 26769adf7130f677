"""A store of tinygrad as the writing of a whole buffer: what lies outside the written region keeps its old value."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from eigentensor.errors import CaptureError
from eigentensor.lowering.indices import Sum, affine, sum_interval, written
from eigentensor.lowering.kernel import Kernel, flat, fresh_axis, index, less, where
from eigentensor.lowering.passes import guarded, substitute
from eigentensor.program.expression import Array, Axis, Node, binary, conjunction, counter, load, node, walk
from eigentensor.program.ops import Op


@dataclass(frozen=True, slots=True)
class Store:
    """For all counters of the axes below their extents, where `gate` holds: array[element] = value."""

    array: Array
    element: Node
    value: Node
    gate: Node | None
    extents: Mapping[Axis, Node]


def stored(store: Store, old: Array | None, result: Array, origin: str) -> Kernel:
    """The kernel that makes `result`, the new value of the array; `old` is its former value, None for zeros."""
    element = affine(store.element)
    plain = _permutation(store, element)
    if plain is not None:
        return Kernel(result, plain, store.value, origin)
    steps = _steps(store, element)
    axes = tuple(fresh_axis(extent) for extent in _extents(store.array.elements, steps))
    changes, conditions = _region(store, element, steps, axes)
    value, gate = substitute(store.value, changes), store.gate and substitute(store.gate, changes)
    inside = (
        conditions if gate is None else [*conditions, guarded(gate, conjunction(*conditions)) if conditions else gate]
    )
    if not inside:
        return Kernel(result, axes, value, origin)
    before = node(Op.CONST, value.dtype, arg=0) if old is None else load(old, flat(axes))
    return Kernel(result, axes, where(conjunction(*inside), guarded(value, conjunction(*inside)), before), origin)


def _permutation(store: Store, element: Sum) -> tuple[Axis, ...] | None:
    """The axes by falling stride, if the store visits every element once without any gate."""
    strides = {axis: element.coefficient(counter(axis)) for axis in store.extents if axis.extent != 1}
    axes = tuple(sorted(strides, key=lambda axis: -strides[axis]))
    expected = 1
    for axis in reversed(axes):
        if strides[axis] != expected or store.extents[axis].op is not Op.CONST:
            return None
        expected *= axis.extent
    complete = expected == store.array.elements and len(element.terms) == len(axes) and not element.constant
    return axes if complete and store.gate is None else None


def _steps(store: Store, element: Sum) -> list[int]:
    """Strides of a shape in which the written region is a box: each a multiple of the next, the last one 1."""
    moving, terms = {counter(axis) for axis in store.extents}, dict(element.terms)
    for atoms in (set(terms), moving & set(terms)):
        steps = sorted({abs(terms[atom]) for atom in atoms} | {1}, reverse=True)
        if not any(a % b for a, b in pairwise([store.array.elements, *steps])):
            return steps
    raise no_box()


def _extents(elements: int, steps: list[int]) -> list[int]:
    return [a // b for a, b in pairwise([elements, *steps])]


def _region(
    store: Store, element: Sum, steps: list[int], axes: tuple[Axis, ...]
) -> tuple[dict[Node, Node], list[Node]]:
    """What the store's counters are in terms of the new axes, and the conditions under which an element is written."""
    terms = dict(element.terms)
    moving = {counter(axis): axis for axis in store.extents if counter(axis) in terms}
    rest = element.without(*moving)
    if any(atom.op is not Op.VAR for atom, _ in rest.terms):
        raise no_box()
    for atom, axis in moving.items():  # a falling counter is a rising one from the other end
        rest = rest.plus(Sum(min(terms[atom], 0) * (axis.extent - 1)))
    repeated = {counter(axis) for axis in store.extents if axis.extent != 1} - moving.keys()
    if repeated & set(walk(store.value, *([] if store.gate is None else [store.gate]))):
        raise no_box()  # it depends on which of several values is stored last
    changes: dict[Node, Node] = {}
    conditions: list[Node] = []
    for step, axis in zip(steps, axes, strict=True):
        offset, rest = divmod(rest, step)
        here = [atom for atom in moving if abs(terms[atom]) == step]
        count = moving[here[0]].extent if here else 1
        low, high = sum_interval(offset)
        if len(here) > 1 or low < 0 or high + count > axis.extent:
            raise no_box()
        start = written(offset)
        position = counter(axis) if start is index(0) else binary(Op.SUB, counter(axis), start)
        extent = store.extents[moving[here[0]]] if here else index(1)
        if extent.op is not Op.CONST or count != axis.extent:
            conditions += [less(index(-1), position)] if position.op is Op.SUB else []
            conditions.append(less(position, extent))
        if here:
            changes[here[0]] = binary(Op.SUB, index(count - 1), position) if terms[here[0]] < 0 else position
    return changes, conditions


def no_box() -> CaptureError:
    """Why an assignment is none that a program has."""
    return CaptureError(
        "an assignment writes a region that is not a box of its tensor",
        fix="build the new tensor with where, cat or pad and assign it whole",
    )
