"""A body over boxes alone: the elements of a box of its result, from boxes of what it reads, each in memory of its own.

Each element is the expression that it was. The place of a load along the axes of its tensor, which `dependence` knows
wherever the load has an influence, is counted from where the box begins, with the box's strides. Where the load has
none, the place may be anywhere: a load that cannot be proven to stay in its box is guarded, so every body is valid.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache, partial
from math import prod

from eigentensor.lowering.indices import expression
from eigentensor.lowering.kernel import add
from eigentensor.program.bounds import prove
from eigentensor.program.expression import (
    Array,
    Axis,
    Lowered,
    Named,
    Node,
    binary,
    conjunction,
    const,
    counter,
    load,
    node,
    to_body,
)
from eigentensor.program.forms import Form
from eigentensor.program.model import Body, Bounds, Instruction
from eigentensor.program.ops import DType, Op
from eigentensor.program.restriction import Restricted, alone, body_nodes
from eigentensor.regions.boxes import Box, Shape, extents_of_box, volume
from eigentensor.regions.dependence import Axes, Dependence


@lru_cache(maxsize=1 << 14)
def rebased(body: Body, shapes: tuple[Shape, ...], box: Box, held: tuple[Box | None, ...]) -> Restricted:
    """The elements of a box of a valid body's result, where of each parameter a box alone is there, or nothing.

    `shapes` are those of the whole tensors, `held` the boxes: each has what `needs.needed` says, and `is_found` holds
    for it. Where loops begin is a variable, so that one body serves many places, if all loads stay in their boxes then,
    too; else it is a constant.
    """
    making = _Rebasing(body, shapes, box, held)
    for moving in (True, False):
        lowered = making.lowered(moving)
        if (proof := prove(lowered.body)).overflow is None and proof.outside is None:
            return alone(lowered)
    guarded = set[int]()
    while (outside := prove(lowered.body).outside) is not None:
        guarded.add(int(str(lowered.arrays[lowered.body.instructions[outside[0]].a - 1].key)))
        lowered = making.lowered(False, guarded)
    return alone(lowered)


class _Rebasing:
    """What the bodies for one box have in common."""

    def __init__(self, body: Body, shapes: tuple[Shape, ...], box: Box, held: tuple[Box | None, ...]) -> None:
        self.body, self.held = body, held
        self.box = box if body.output_ranges else ()
        self.axes = tuple(Axis(n, extent) for n, extent in enumerate(extents_of_box(self.box)))
        self.dependence = Dependence.of(body, shapes)
        self.shapes = shapes

    def lowered(self, moving: bool, guarded: Collection[int] = ()) -> Lowered:
        """The body; its loops begin at variables if they are `moving`, and loads of some parameters are guarded."""
        loads = {n: self._load(n, moving, guarded) for n, i in enumerate(self.body.instructions) if i.op is Op.LOAD}
        counters = {n: self._counter(n, moving) for n in range(len(self.axes))}
        return to_body(body_nodes(self.body, counters, loads)[-1], self.axes)

    def _counter(self, number: int, moving: bool) -> Node:
        """What a loop of the whole body counts."""
        (start, _), extent, whole = self.box[number], self.axes[number].extent, self.body.output_ranges[number]
        own = counter(self.axes[number])
        if extent == whole:
            return own
        begin = const(DType.INDEX, start)
        if moving:
            begin = node(Op.VAR, DType.INDEX, arg=Named(f"{-1 - number}", Bounds(0, whole - extent)))
        return binary(Op.ADD, own, begin) if moving or start else own

    def _load(self, number: int, moving: bool, guarded: Collection[int]) -> Callable[[Sequence[Node]], Node]:
        i = self.body.instructions[number]
        held, axes = self.held[i.a - 1], self.dependence.axes.get(number)
        if held is None or not axes:
            return lambda _: const(i.dtype, 0)  # without influence
        array = Array(i.a, i.dtype, volume(held))
        whole, own = self._element(axes, held, self.shapes[i.a - 1], moving)

        def made(nodes: Sequence[Node]) -> Node:
            place = add(expression(whole, partial(self._atom, nodes)), expression(own, partial(self._own, nodes)))
            conditions = [nodes[v] for v in i.values[1:]]
            if i.a in guarded:
                conditions.append(binary(Op.CMPLT, const(DType.INDEX, -1), place))
                conditions.append(binary(Op.CMPLT, place, const(DType.INDEX, array.elements)))
            return load(array, place, conjunction(*conditions) if conditions else None)

        return made

    def _element(self, axes: Iterable[Axes], held: Box, shape: Shape, moving: bool) -> tuple[Form[int], Form[int]]:
        """Which element of a box a load is of, as a sum of two forms: that along axes of which all is held, if loops
        move, and that along the others, in which counters of output ranges begin with the box of the result."""
        extents, parts = extents_of_box(held), [Form[int](0), Form[int](0)]
        for form, first, end in axes:
            begin = sum(held[axis][0] * prod(shape[axis + 1 : end]) for axis in range(first, end))
            own = not moving or extents[first:end] != shape[first:end]
            parts[own] = parts[own].plus(form.plus(Form(-begin)), prod(extents[end:]))
        counted = ((self.body.instructions[of], c) for of, c in parts[1].terms)
        starts = sum(c * self.box[i.a][0] for i, c in counted if self._is_output(i))
        return parts[0], parts[1].plus(Form(starts))

    def _own(self, nodes: Sequence[Node], of: int) -> Node:
        """What an atom of a form is that counts from where the box begins."""
        i = self.body.instructions[of]
        return counter(self.axes[i.a]) if self._is_output(i) else self._atom(nodes, of)

    def _atom(self, nodes: Sequence[Node], of: int) -> Node:
        return nodes[of] if nodes[of].dtype is DType.INDEX else node(Op.CAST, DType.INDEX, nodes[of])

    def _is_output(self, i: Instruction) -> bool:
        return i.op is Op.RANGE and i.a < len(self.axes)
