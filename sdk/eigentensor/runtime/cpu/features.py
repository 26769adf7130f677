"""What the time of a body under a schedule depends on, as numbers. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from math import log, prod

import numpy as np
from numpy.typing import NDArray

from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Body
from eigentensor.program.ops import REDUCTIONS, Op
from eigentensor.runtime.bodies.analysis import Analysis
from eigentensor.runtime.bodies.quads import FOUR, join_in_quads
from eigentensor.runtime.cpu.schedule import Schedule

#: Kinds of work that are counted, and roughly the nanoseconds of each. `chain` are steps that wait for the one before.
KINDS = {
    "scalar": 0.03, "vector": 0.2, "slow": 0.4, "broadcast": 0.02, "row": 0.2, "gather": 0.35, "chain": 0.03,
    "loop": 0.05, "store": 0.1, "written": 0.08, "call": 100,
}  # fmt: skip
#: Logarithms: of the time by these, of how often each kind of work is done, of bytes, elements, steps, and the tile.
FEATURES = (
    "reckoned", *KINDS, "read", "elements", "steps", "largest", "lanes", "rows", "columns", "packed", "panel", "waste",
)  # fmt: skip
SLOW = frozenset({Op.DIV, Op.SQRT, Op.RECIPROCAL, Op.CDIV, Op.CMOD, Op.FLOORDIV, Op.FLOORMOD, Op.REDUCE_MUL})
LATENCY = 8  #: accumulators that keep a processor busy while each waits for its last step


def features(body: Body, schedules: Sequence[Schedule]) -> NDArray[np.float64]:
    """A row of the numbers that FEATURES names for each schedule."""
    analyses: dict[tuple[int, ...], Analysis] = {}
    for schedule in schedules:
        if schedule.joined not in analyses:
            analyses[schedule.joined] = Analysis(join_in_quads(body, schedule.joined))
    return np.array([_row(analyses[schedule.joined], schedule) for schedule in schedules])


def _row(a: Analysis, schedule: Schedule) -> list[float]:
    elements = a.body.parameters[0].elements
    sizes = [p.elements * p.dtype.size for p in a.body.parameters]
    counts = _Work(a, schedule).counts() | {"written": sizes[0], "call": 1}
    padded = prod(_trips(a, schedule, axis) * _step(a, schedule, axis) for axis in range(a.outputs))
    numbers = (
        *(counts[kind] for kind in KINDS), sum(sizes[1:]), elements, max(a.steps, default=1), max(sizes),
        schedule.lanes, schedule.rows, schedule.columns, len(schedule.packed), schedule.panel,
        padded / max(1, elements),
    )  # fmt: skip
    reckoned = sum(nanoseconds * counts[kind] for kind, nanoseconds in KINDS.items())
    return [log(reckoned), *(log(1 + number) for number in numbers)]


def _step(a: Analysis, s: Schedule, axis: int) -> int:
    size = s.lanes * s.columns if axis == s.vector else s.rows if axis == s.row else 1
    return min(size, max(1, a.body.output_ranges[axis]))


def _trips(a: Analysis, s: Schedule, axis: int) -> int:
    return -(-a.body.output_ranges[axis] // _step(a, s, axis))


class _Work:
    """How often what is done, by the loops that `source` writes: other axes, then the vector's, then the rows'."""

    def __init__(self, analysis: Analysis, schedule: Schedule) -> None:
        self.a, self.s = analysis, schedule
        tiled = [axis for axis in (schedule.vector, schedule.row) if axis is not None]
        order = [axis for axis in range(analysis.outputs) if axis not in tiled] + tiled
        self.level = {axis: place + 1 for place, axis in enumerate(order)}
        trips = [_trips(analysis, schedule, axis) for axis in order]
        self.times = [prod(trips[:n]) for n in range(len(trips) + 1)]
        self.strides = analysis.strides(schedule.vector) if schedule.vector is not None else ()

    def counts(self) -> dict[str, float]:
        counts: dict[str, float] = defaultdict(float)
        counts["store"] = self.tiles * self.s.rows * self.s.columns
        counts["loop"] = sum(self.times)
        for number, instruction in enumerate(self.a.body.instructions):
            if instruction.op is Op.CONST:
                continue
            runs = self.runs(number)
            if instruction.op in REDUCTIONS:
                counts["loop"] += self.tiles * self.steps(number)
                counts["chain"] += self.tiles * self.steps(number) * max(1.0, LATENCY / self.copies(number))
                runs = self.tiles * self.steps(number) * self.copies(number)
                if self.s.panel:  # accumulators go to memory and come back
                    counts["row"] += 2 * runs / self.s.panel
            kind, each = self.kind(number)
            counts[kind] += runs * each
        return counts

    @property
    def tiles(self) -> int:
        return self.times[-1]

    def steps(self, reduction: int) -> int:
        return prod(self.a.extents[r] for r in self.a.ranges_of(self.a.body.instructions[reduction].c))

    def copies(self, number: int) -> int:
        depends = self.a.depends[number]
        return (self.s.rows if self.s.row in depends else 1) * (self.s.columns if self.s.vector in depends else 1)

    def runs(self, number: int) -> float:
        """How often a value is computed; packed ones once for all rows."""
        if self.a.scopes[number] is None:
            depends = self.a.depends[number]
            return self.times[max((self.level[r] for r in depends), default=0)] * self.copies(number)
        runs = self.tiles * self.a.steps[number] * self.copies(number)
        if number in self.s.packed and self.s.row is not None:
            return runs / _trips(self.a, self.s, self.s.row)
        return runs

    def kind(self, number: int) -> tuple[str, float]:
        """What kind of work one evaluation is, and how much of it."""
        instruction = self.a.body.instructions[number]
        if self.s.lanes == 1 or self.strides[number] == 0:
            return ("broadcast" if instruction.op is Op.LOAD else "slow" if instruction.op in SLOW else "scalar"), 1
        if instruction.op is Op.LOAD and self.strides[instruction.b] == 0:  # in the lanes that a guard chooses
            return "broadcast", 1
        if instruction.op is Op.LOAD:
            beside = FOUR if number in self.a.wide else 1
            return ("row", 1) if self.strides[instruction.b] == beside else ("gather", self.s.lanes)
        if instruction.dtype is DType.INDEX and self.strides[number] is not None:
            return "scalar", 1
        return ("slow" if instruction.op in SLOW else "vector"), 1
