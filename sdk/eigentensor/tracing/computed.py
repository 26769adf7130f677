"""Long reductions of single elements, computed as small programs: the reference takes steps one by one.

What comes back is held to the account before it is believed: a player that claims what its device got wrong loses. It
is a shortcut: whatever fails on it, the reference goes the long way.
"""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from eigentensor.errors import EigenTensorError
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.floats import canonical, patterns
from eigentensor.program.binding import Results
from eigentensor.program.cost import body_cost
from eigentensor.program.model import Body
from eigentensor.program.ops import REDUCTIONS
from eigentensor.program.restriction import STEPS, Restricted, prefixes, reduced
from eigentensor.program.validity import check
from eigentensor.tracing.execution import Execution

#: Evaluations from which on starting a program is worth it: for an element, of which the reference takes steps one by
#: one for half a second, and for many, which it computes side by side.
WORTH, MANY = 1 << 18, 1 << 25


def is_worth(body: Body, elements: int = 1) -> bool:
    """Whether so many elements of a call of a body are computed by a program of their own."""
    each = body_cost(body).evaluations // max(1, body.parameters[0].elements)
    return each > WORTH or elements * each > MANY


#: Accumulators that are kept of a reduction, where an executor is asked for them first, and those of one program.
#: Between them the reference takes the steps.
KEPT, AT_ONCE = 64, 32


def computed_results(execution: Execution, number: int, elements: range) -> list[tuple[int, ...]] | None:
    """The patterns of the results of the reductions of some elements of an executed call, None where that fails."""
    body, columns = execution.body(number), list[list[int]]()
    try:
        for reduction in range(body.reductions):
            columns.append([])
            for box in _boxes(body.output_ranges, elements):
                small = reduced(body, reduction, tuple(map(len, box)))
                check(small.program)
                results = _run(execution, number, small, [along.start for along in box])
                columns[-1] += _patterns(_dtype(body, reduction), results.outputs["output"])
    except (EigenTensorError, OSError):
        return None
    return list(zip(*columns, strict=True))


def checkpoints(
    execution: Execution, number: int, element: int, reduction: int, trips: tuple[int, ...]
) -> dict[int, int]:
    """Patterns of an accumulator after every `stride_of` steps, and after all of them; none where that fails.

    `trips` are those of the reduction's loops.
    """
    body, length = execution.body(number), prod(trips)
    place = [int(i) for i in np.unravel_index(element, body.output_ranges)] if body.output_ranges else []
    steps, accumulators = [*range(stride_of(length), length, stride_of(length)), length] if length else [], list[int]()
    try:
        for chosen in (steps[first : first + AT_ONCE] for first in range(0, len(steps), AT_ONCE)):
            small = prefixes(body, reduction, trips, len(chosen))
            check(small.program)
            variables = {f"{STEPS}{n:02}": after for n, after in enumerate(chosen)}
            outputs = _run(execution, number, small, place, variables).outputs
            accumulators += (_patterns(_dtype(body, reduction), outputs[name])[0] for name in sorted(outputs))
    except (EigenTensorError, OSError):
        return {}
    return dict(zip(steps, accumulators, strict=True))


def stride_of(length: int) -> int:
    """How far those accumulators are apart that are kept of a reduction of so many steps."""
    return -(-length // KEPT)


def _boxes(shape: tuple[int, ...], run: range) -> list[tuple[range, ...]]:
    """The boxes, in order, that elements with successive numbers make: rows, and what is cut off at both ends."""
    if not shape:
        return [()]
    boxes, at = list[tuple[range, ...]](), run.start
    row, whole = prod(shape[1:]), tuple(map(range, shape[1:]))
    while at < run.stop:
        number, within = divmod(at, row)
        if within or run.stop - at < row:
            end = min(run.stop, (number + 1) * row)
            cut = _boxes(shape[1:], range(within, within + end - at))
            boxes += [(range(number, number + 1), *box) for box in cut]
        else:
            end = run.stop // row * row
            boxes.append((range(number, end // row), *whole))
        at = end
    return boxes


def _run(
    execution: Execution, number: int, small: Restricted, place: Sequence[int], more: Mapping[str, int] | None = None
) -> Results:
    assert execution.compute is not None
    arguments, bound = execution.arguments(number), execution.bound(number)
    tensors = {f"{n:02}": arguments[parameter - 1].array for n, parameter in enumerate(small.parameters)}
    variables = {f"{n:02}": bound[v] if v >= 0 else place[-1 - v] for n, v in enumerate(small.variables)}
    return execution.compute(small.program, tensors, {**variables, **(more or {})})


def _dtype(body: Body, reduction: int) -> DType:
    return next(i.dtype for i in body.instructions if i.op in REDUCTIONS and i.c == reduction)


def _patterns(dtype: DType, array: np.ndarray) -> list[int]:
    return [int(pattern) for pattern in patterns(dtype, canonical(dtype, np.ascontiguousarray(array).reshape(-1)))]
