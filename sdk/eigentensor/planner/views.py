"""What an index sees of a flat tensor, as moves and gathers of a graph. Pure.

An index is a sum of multiples of a body's ranges, each of which is an axis of what is seen.
"""

from collections.abc import Mapping, Sequence
from math import prod

from eigentensor.graph.node import Form, Node, constant, counter, node
from eigentensor.numerics.dtypes import DType
from eigentensor.program.forms import Bound
from eigentensor.program.forms import Form as Affine
from eigentensor.program.ops import Op

INDEX = DType.INT32  #: what stands for an index in a graph
Shape = tuple[int, ...]


def view(tensor: Node, at: Affine[int], places: Mapping[int, int], shape: Shape) -> Node | None:
    """The elements of a flat tensor at an index, a sum of multiples of ranges which are axes of `shape`; None where no
    moves but a gather lead there."""
    terms = sorted(((f, places[number]) for number, f in at.terms if shape[places[number]] > 1), reverse=True)
    strides, axes = [f for f, _ in terms], [place for _, place in terms]
    if not tensor.elements or not prod(shape) or any(f <= 0 for f in strides):
        return None
    whole, start, boxes, sizes = tensor.elements, at.constant, [], []
    for stride, axis in terms:
        size = whole // stride
        first, start = divmod(start, stride)
        if whole % stride or first < 0 or first + shape[axis] > size:
            return None
        boxes.append((first, first + shape[axis]))
        sizes.append(size)
        whole = stride
    if not 0 <= start < whole:
        return None
    seen = shaped(tensor, (*sizes, whole))
    cut = (*boxes, (start, start + 1))
    if cut != tuple((0, size) for size in seen.shape):
        seen = node(Form.SHRINK, seen, arg=cut)
    return _spread(shaped(seen, seen.shape[:-1]), axes, shape)


def windows(
    tensor: Node, at: Affine[int], bounds: Sequence[Bound[int]], places: Mapping[int, int], shape: Shape
) -> Node | None:
    """The same where several ranges go along one axis of the tensor, as in a convolution, and `bounds` keep their sum
    inside: rows along each axis, zeros where there are none. None where that is not what is said."""
    extents = {number: shape[place] for number, place in places.items() if shape[place] > 1}
    along = _along({number: f for number, f in at.terms if number in extents}, bounds, extents)
    positions = None if along is None else _positions(tensor.elements, at.constant, along, bounds, extents)
    if positions is None or not prod(shape):
        return None
    seen, order = shaped(tensor, tuple(size for _, size in positions)), list[int]()
    for position, _ in positions:  # what is taken along an axis goes behind the axes that are left
        numbers = [number for number, _ in position.terms]
        rows = _sum(position, tuple(extents[number] for number in numbers))
        seen, order = node(Form.GATHER, seen, rows), order + numbers
        seen = node(Form.PERMUTE, seen, arg=(*range(len(numbers), len(seen.shape)), *range(len(numbers))))
    return _spread(seen, [places[number] for number in order], shape)


def _positions(
    elements: int,
    start: int,
    along: Mapping[int, Mapping[int, int]],
    bounds: Sequence[Bound[int]],
    extents: Mapping[int, int],
) -> list[tuple[Affine[int], int]] | None:
    """Where an index that begins at `start` stands along each axis, the widest first, and the axis' extent; None if the
    bounds say something else than that it stays inside."""
    ends = {stride: _ends(own, bounds) for stride, own in along.items()}
    start -= sum(stride * first for stride, (first, _) in ends.items() if first is not None)
    positions: list[tuple[Affine[int], int]] = []
    for stride in sorted(along, reverse=True):
        first, last = ends[stride]
        size, rest = divmod(elements, stride)
        if first is None:
            first, start = divmod(start, stride)
        most = first + sum(f * (extents[number] - 1) for number, f in along[stride].items())
        is_inside = most < size if last is None else first + last == size - 1
        if rest or not is_inside or (first < 0 and ends[stride][0] is None):
            return None
        positions.append((Affine(first, tuple(along[stride].items())), size))
        elements = stride
    return positions if elements == 1 and not start else None


def _along(
    steps: Mapping[int, int], bounds: Sequence[Bound[int]], extents: Mapping[int, int]
) -> dict[int, dict[int, int]] | None:
    """The ranges that go along each axis, by its stride, and their steps there; None if some go along two, or none."""
    along: dict[int, dict[int, int]] = {}
    for form, _ in bounds:
        own = {number: abs(c) for number, c in form.terms if number in extents}
        strides = {steps.get(number, 0) / c for number, c in own.items()}
        is_one_way = len({c > 0 for number, c in form.terms if number in own}) == 1
        if len(strides) != 1 or not is_one_way or not (stride := strides.pop()).is_integer():
            return None
        if along.setdefault(int(stride), own) != own:
            return None
    bounded = {number for own in along.values() for number in own}
    if len(bounded) != sum(map(len, along.values())):
        return None
    unbounded = {number: step for number, step in steps.items() if number not in bounded}
    if any(step in along for step in unbounded.values()):
        return None
    for number, step in unbounded.items():
        along.setdefault(step, {})[number] = 1
    return along if all(stride > 0 for stride in along) else None


def _ends(own: Mapping[int, int], bounds: Sequence[Bound[int]]) -> tuple[int | None, int | None]:
    """Where the position along an axis begins, below zero where a bound keeps it inside, and the most of its sum that
    counts; None where no bound says so."""
    low, high = [
        [most - form.constant for form, most in bounds if {n: sign * c for n, c in form.terms if n in own} == own]
        for sign in (-1, 1)
    ]
    return min(low, default=None), min(high, default=None)


def _sum(form: Affine[int], shape: Shape) -> Node:
    """A sum of multiples of ranges, each of which is an axis."""
    total = constant(INDEX, form.constant, shape)
    for place, (_, factor) in enumerate(form.terms):
        term = counter(shape, place)
        total = node(Op.ADD, total, term if factor == 1 else node(Op.MUL, term, constant(INDEX, factor, shape)))
    return total


def _spread(seen: Node, axes: Sequence[int], shape: Shape) -> Node:
    """A tensor with some of the axes of a shape, in any order, over all of them."""
    ordered = sorted(range(len(axes)), key=axes.__getitem__)
    if ordered != list(range(len(axes))):
        seen = node(Form.PERMUTE, seen, arg=tuple(ordered))
    small = tuple(extent if axis in axes else 1 for axis, extent in enumerate(shape))
    seen = shaped(seen, small)
    return seen if small == shape else node(Form.EXPAND, seen, arg=shape)


def shaped(n: Node, shape: Shape) -> Node:
    """The tensor in another shape; (-1,) is that of all its elements in a row."""
    shape = (n.elements,) if shape == (-1,) else shape
    while n.op is Form.RESHAPE:
        n = n.src[0]
    return n if n.shape == shape else node(Form.RESHAPE, n, arg=shape)
