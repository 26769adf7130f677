"""Which calls may write over what they read: those that read each element only to compute the same element."""

from dataclasses import replace
from functools import lru_cache

from eigentensor.program.model import Body
from eigentensor.program.ops import Op
from eigentensor.runtime.rewriting import join, simple_joins
from eigentensor.runtime.schedule import Schedule

WIDTH, FEW = 16, 256  #: what tiles without overlap must divide if there are more elements than a few


@lru_cache(maxsize=4096)
def in_place(body: Body) -> frozenset[int]:
    """The parameters whose memory a call of a body may write its result into, if nobody reads them later.

    All loads of such a parameter are at exactly the element that is stored, which shows with all axes joined: then the
    index is the counter of the one loop. Bodies with reductions are left out, and shapes that `apart` would slow down.
    """
    result = body.parameters[0]
    size = result.elements, result.dtype.size
    like = {n for n, p in enumerate(body.parameters) if n and (p.elements, p.dtype.size) == size}
    if body.reduce_ranges or not body.output_ranges or not like:
        return frozenset()
    try:
        last = join(body, simple_joins(body)).output_ranges[-1]
        whole = join(body, tuple(range(1, len(body.output_ranges))))
    except ValueError:
        return frozenset()
    if last % WIDTH and result.elements > FEW:
        return frozenset()
    loads = [i for i in whole.instructions if i.op is Op.LOAD]
    return frozenset(like - {load.a for load in loads if whole.instructions[load.b].op is not Op.RANGE})


def apart(body: Body, schedule: Schedule) -> Schedule:
    """A schedule like this one under which no element is computed twice: the second time its operand may be gone.

    The body is that whose axes are joined already.
    """
    rows = 1
    if schedule.row is not None:
        extent = body.output_ranges[schedule.row]
        rows = max(size for size in range(1, schedule.rows + 1) if extent % size == 0)
    schedule = replace(schedule, rows=rows)
    if schedule.vector is None or body.output_ranges[schedule.vector] % (schedule.lanes * schedule.columns) == 0:
        return schedule
    if body.output_ranges[schedule.vector] % schedule.lanes == 0:
        return replace(schedule, columns=1)
    return Schedule(schedule.joined, row=schedule.row, rows=rows)
