"""What the time of a body under a grid depends on, as numbers. Pure."""

from collections.abc import Sequence
from math import log, prod

import numpy as np
from numpy.typing import NDArray

from eigentensor.program.model import Body
from eigentensor.program.ops import REDUCTIONS, Op
from eigentensor.runtime.analysis import Analysis
from eigentensor.runtime.grid import Grid, groups

WAIT = 100  #: evaluations for which a chain of steps waits, by and large


def grid_features(body: Body, grids: Sequence[Grid]) -> NDArray[np.float64]:
    """A row for each grid: logarithms of a reckoned time, of groups, their size and tile, of reads, work and bytes."""
    analysis = Analysis(body)
    return np.array([_row(analysis, grid) for grid in grids])


def _row(a: Analysis, grid: Grid) -> list[float]:
    count = prod(groups(a.body, grid))
    items = count * grid.items
    reads, staged, work, chain = 0, 0, 0, 0
    for number, instruction in enumerate(a.body.instructions):
        depends, steps = a.depends[number], a.steps[number]
        if instruction.op in REDUCTIONS:
            steps = prod(a.extents[r] for r in a.ranges_of(instruction.c))
            chain += steps
        tall, broad = depends.intersection(grid.rows), depends.intersection(grid.columns)
        copies = (grid.high if tall else 1) * (grid.broad if broad else 1)
        if instruction.op is Op.LOAD and grid.chunk and a.scopes[number] is not None and not (tall and broad):
            staged += items * copies * steps // (grid.wide if tall else grid.tall)
        elif instruction.op is Op.LOAD:
            reads += items * copies * steps
        elif instruction.op is not Op.CONST:
            work += items * copies * steps
    sizes = [p.elements * p.dtype.size for p in a.body.parameters]
    numbers = (
        count, grid.tall, grid.wide, grid.high, grid.broad, grid.chunk, reads, staged, work, chain, count * chain,
        sum(sizes), sizes[0], max(sizes), a.body.parameters[0].elements,
    )  # fmt: skip
    reckoned = work + 4 * reads + staged + WAIT * chain
    return [log(1 + reckoned), *(log(1 + number) for number in numbers)]
