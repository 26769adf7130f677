"""Which calls may write over what they read: those that read each element only to compute the same element."""

from functools import lru_cache

from eigentensor.program.model import Body
from eigentensor.program.ops import Op
from eigentensor.runtime.bodies.rewriting import join, simple_joins

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
