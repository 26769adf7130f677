"""Which elements of what a body reads a box of its result is computed from: `dependence`, turned round.

The counters of the output ranges are restricted to the box, all integers are bounded again from there, and where a load
has an influence its facts hold: that leaves an interval of its place along each axis. What data say is anywhere.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from eigentensor.program.bounds import Prover
from eigentensor.program.forms import atom, under
from eigentensor.program.intervals import Interval, common, transfer, whole
from eigentensor.program.intervals import within as lies_within
from eigentensor.program.model import Body, Instruction
from eigentensor.program.ops import COMPARISONS, REDUCTIONS, DType, Op
from eigentensor.regions.boxes import Box, Shape, hull, whole_box
from eigentensor.regions.dependence import Axes, Dependence
from eigentensor.regions.narrowing import narrow

#: Operations of whose operands' intervals nothing follows for the result's.
_OPAQUE = REDUCTIONS | COMPARISONS | {Op.LOAD, Op.BITCAST, Op.CONST, Op.VAR, Op.RANGE}


@lru_cache(maxsize=1 << 16)
def needed(body: Body, shapes: tuple[Shape, ...], box: Box) -> tuple[Box | None, ...]:
    """For each parameter of a valid body but the first, whose tensors have these shapes: a box outside of which no
    element has an influence on those of the result in a box of it. None where none has.

    A worker that has such a box alone can find its elements there: `is_found` holds.
    """
    dependence = Dependence.of(body, shapes)
    known = _bounded(dependence, box)
    needs: list[Box | None] = [None] * len(shapes)
    for load, axes in dependence.axes.items():
        parameter = body.instructions[load].a
        if (read := _read(dependence, load, axes, known, shapes[parameter - 1])) is not None:
            before = needs[parameter - 1]
            needs[parameter - 1] = read if before is None else hull(before, read)
    return tuple(
        None if need is None else _widened(dependence, number, need, shape)
        for number, (need, shape) in enumerate(zip(needs, shapes, strict=True), 1)
    )


def is_found(body: Body, shapes: tuple[Shape, ...], parameter: int, box: Box) -> bool:
    """Whether the place of what a body loads from a parameter can be told within a box of it: an index that carries
    over several axes at once can where these are one run of memory in the box, too."""
    dependence = Dependence.of(body, shapes)
    return _widened(dependence, parameter, box, shapes[parameter - 1]) == box


def _bounded(dependence: Dependence, box: Box) -> list[Interval]:
    """What each integer of a body can be for the elements of a box."""
    prover = dependence.prover
    known = list(prover.box)
    for n, i in enumerate(prover.instructions):
        if i.op is Op.RANGE and i.a < len(dependence.body.output_ranges):
            known[n] = box[i.a]
        elif prover.forms[n] == atom(n) and i.op not in _OPAQUE and not _is_of_floats(prover, i):
            exact = _transfer(i, [common(known[v], prover.forms[v].interval(known)) for v in i.values])
            if i.dtype is DType.INDEX or lies_within(exact, whole(i.dtype)):
                known[n] = common(known[n], exact)
    return known


def _is_of_floats(prover: Prover, i: Instruction) -> bool:
    return i.dtype.is_float or any(prover.instructions[v].dtype.is_float for v in i.values)


def _transfer(i: Instruction, operands: Sequence[Interval]) -> Interval:
    """As `transfer`; a remainder by one divisor is a difference where there is but one quotient."""
    if i.op is Op.FLOORMOD and operands[1][0] == operands[1][1] > 0:
        (low, high), divisor = operands[0], operands[1][0]
        if low // divisor == high // divisor:
            return low % divisor, high % divisor
    return transfer(i.op, i.dtype, *operands)


def _read(
    dependence: Dependence, load: int, axes: Sequence[Axes], known: Sequence[Interval], shape: Shape
) -> Box | None:
    """The box of a tensor that a load is from, where it has an influence; None if it has none."""
    facts, bounds = [*dependence.read[load], *dependence.facts], list(known)
    if not axes or any(low > high for low, high in bounds) or not narrow(bounds, facts):
        return None
    box = list(whole_box(shape))
    for form, first, end in axes:
        place = common(under(form, facts, bounds), (0, prod(shape[first:end]) - 1))
        if place[0] > place[1]:
            return None
        box[first:end] = _around(place, shape[first:end])
    return tuple(box)


def _around(place: Interval, extents: Shape) -> Box:
    """The smallest box around a run of elements of a tensor, which is a run of memory itself."""
    (low, high), box = place, list[Interval]()
    for axis in range(len(extents)):
        stride = prod(extents[axis + 1 :])
        box.append((low // stride, high // stride))
        if low // stride != high // stride:
            return (*box, *whole_box(extents[axis + 1 :]))
        low, high = low % stride, high % stride
    return tuple(box)


def _widened(dependence: Dependence, parameter: int, box: Box, shape: Shape) -> Box:
    """The smallest box around this in which every index that carries over several axes keeps to one run of memory."""
    groups = {
        (first, end)
        for load, axes in dependence.axes.items()
        if dependence.body.instructions[load].a == parameter
        for _, first, end in axes
    }
    wide = list(box)
    for first, end in sorted(groups):
        several = False
        for axis in range(first, end):
            if several:
                wide[axis] = (0, shape[axis] - 1)
            several = several or wide[axis][0] != wide[axis][1]
    return tuple(wide)
