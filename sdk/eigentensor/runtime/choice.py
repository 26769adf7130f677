"""A good schedule of a body without measuring, and the candidates that are worth measuring."""

from dataclasses import dataclass
from functools import cached_property
from math import prod

from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Body
from eigentensor.program.ops import NO_GUARD, REDUCTIONS, Op
from eigentensor.runtime.analysis import Analysis
from eigentensor.runtime.schedule import Schedule, Target

PACK_BYTES = 1 << 18  #: values kept for all steps of a reduction: what a core's own cache holds
ROWS = 16  #: of a tile without reductions: a cache line of float32
AXES = 5  #: output axes, the longest, that are looked at
LINES = 2400  #: instructions in a tile: longer ones compile slowly and spill
#: Costs, in instructions that work on all lanes: what is done lane by lane, and reads of chosen lanes.
PER_LANE, GUARDED = 1.5, 2.0
FAR = 3  #: times as much, where each lane reads another cache line and only one element of it
SLOW = frozenset({Op.CDIV, Op.CMOD, Op.FLOORDIV, Op.FLOORMOD})


def choose(body: Body, target: Target) -> Schedule:
    """A good schedule without measuring: the pair of a vector axis and a row axis with the fewest instructions."""
    return min(_choices(body, target), key=lambda choice: choice.cost).schedule


def candidates(body: Body, target: Target) -> list[Schedule]:
    """What `choose` chooses from, each once, in the order of its reckoning."""
    return list(dict.fromkeys(c.schedule for c in sorted(_choices(body, target), key=lambda choice: choice.cost)))


def _choices(body: Body, target: Target) -> list["_Choice"]:
    analysis = Analysis(body)
    large = sorted(range(len(body.output_ranges)), key=lambda axis: (body.output_ranges[axis], axis))[-AXES:]
    axes = [axis for axis in sorted(large) if body.output_ranges[axis] > 1]
    vectors: list[int | None] = [*axes, None]
    # Rows pay where a reduction uses a value again for each of them, or where neighbours in memory are read for them;
    # elsewhere they only make code longer.
    rows: list[int | None] = [None, *(axes if body.reduce_ranges else (a for a in axes if _is_turned(analysis, a)))]
    wide = (4, 2, 1) if target.registers > 16 else (2, 1)
    return [
        _Choice(analysis, target, v, r, most)
        for v in vectors
        for r in rows
        if r is None or r != v
        for most in ((8,) if r is None else wide if v is not None else (1,))
    ]


def _is_turned(analysis: Analysis, axis: int) -> bool:
    """Whether something is read along an axis that is not the one along which the result is written."""
    strides = analysis.strides(axis)
    reads = [i.b for i in analysis.body.instructions if i.op is Op.LOAD]
    return prod(analysis.body.output_ranges[axis + 1 :]) > 1 and any(strides[b] == 1 for b in reads)


@dataclass(frozen=True)
class _Choice:
    analysis: Analysis
    target: Target
    vector: int | None
    row: int | None
    most_columns: int

    @cached_property
    def lanes(self) -> int:
        extent = 1 if self.vector is None else self.analysis.body.output_ranges[self.vector]
        lanes = min(self.target.lanes, 1 << extent.bit_length() - 1)
        return lanes if lanes >= 4 else 1

    @cached_property
    def strides(self) -> tuple[int | None, ...]:
        return self.analysis.strides(self.vector) if self.vector is not None else (0,) * len(self.analysis.depends)

    @cached_property
    def tile(self) -> tuple[int, int]:
        """Rows and columns: as many accumulators as registers can hold beside the values of a step."""
        body = self.analysis.body
        most = max(1, LINES // len(body.instructions))
        if not body.reduce_ranges:
            return (_even(body.output_ranges[self.row], min(ROWS, most)) if self.row is not None else 1), 1
        accumulators = min(self.target.registers * 3 // 4, most)
        wide = -(-body.output_ranges[self.vector] // self.lanes) if self.vector is not None and self.lanes > 1 else 1
        columns = _even(wide, min(self.most_columns, accumulators))
        if self.row is None:
            return 1, columns
        return _even(body.output_ranges[self.row], max(1, min(12, accumulators // columns))), columns

    @cached_property
    def blocks(self) -> int:
        return -(-self.analysis.body.output_ranges[self.row] // self.tile[0]) if self.row is not None else 1

    @cached_property
    def packed(self) -> frozenset[int]:
        """The largest values inside reductions that vary along the vector but not along the rows."""
        if self.row is None or self.vector is None or self.lanes == 1 or self.blocks < 4:
            return frozenset()
        fits = {i for i in range(len(self.analysis.depends)) if self._packable(i)}
        used: set[int] = set()
        for i, instruction in enumerate(self.analysis.body.instructions):
            if i not in fits and (self.analysis.scopes[i] is not None or instruction.op in REDUCTIONS):
                used.update(v for v in instruction.values if v in fits)
        chosen = {i for i in used if self.analysis.body.instructions[i].dtype is not DType.INDEX}
        size = sum(self.analysis.steps[i] * self.lanes * self.tile[1] * 4 for i in chosen)
        return frozenset(chosen) if size <= PACK_BYTES else frozenset()

    def _packable(self, number: int) -> bool:
        analysis = self.analysis
        scope, depends = analysis.scopes[number], analysis.depends[number]
        if scope is None or self.vector not in depends or self.row in depends or scope not in self._row_reductions:
            return False
        extents = (analysis.body.reduce_ranges[r - analysis.outputs].extent for r in depends if r >= analysis.outputs)
        return all(analysis.constant(extent) is not None for extent in extents)

    @cached_property
    def _row_reductions(self) -> frozenset[int]:
        """The reductions whose result depends on the row: those that the loop over rows runs again."""
        pairs = zip(self.analysis.body.instructions, self.analysis.depends, strict=True)
        return frozenset(i.c for i, depends in pairs if i.op in REDUCTIONS and self.row in depends)

    @cached_property
    def below_packed(self) -> frozenset[int]:
        """Values inside reductions that only packed values need, and the packed ones."""
        needed: set[int] = set()
        for i in reversed(range(len(self.analysis.depends))):
            instruction = self.analysis.body.instructions[i]
            last = i == len(self.analysis.depends) - 1
            if last or i in needed:
                needed.update(v for v in instruction.values if v not in self.packed)
        return frozenset(i for i, s in enumerate(self.analysis.scopes) if s is not None and i not in needed)

    @cached_property
    def cost(self) -> tuple[float, int, int]:
        """Instructions for one element; ties go to the longer inner loop, then to the later axis."""
        body = self.analysis.body
        rows, columns = self.tile
        vector = 1 if self.vector is None else body.output_ranges[self.vector]
        width = self.lanes * columns
        useful = vector / (-(-vector // width) * width)
        if self.row is not None:
            useful *= body.output_ranges[self.row] / (self.blocks * rows)
        total = 0.0
        for i, instruction in enumerate(body.instructions):
            steps = self.analysis.steps[i]
            if instruction.op in REDUCTIONS:
                steps = prod(self.analysis.extents[r] for r in self.analysis.ranges_of(instruction.c))
            shared = 1.0  # how many elements one evaluation serves
            if self.vector is not None and self.strides[i] == 0:
                shared *= width
            elif self.lanes > 1:
                shared *= self.lanes / self._weight(i)
            if i in self.below_packed:
                shared *= self.blocks * rows
            elif self.row is not None and self.row not in self.analysis.depends[i]:
                shared *= rows
            total += steps / shared
        if self.vector is not None and self.lanes > 1 and not self._contiguous:
            total += PER_LANE
        chains = min(rows * columns, 8) if body.reduce_ranges else 8
        return total / useful * (8 / chains) ** 0.25, -self.lanes, -(self.vector if self.vector is not None else -1)

    @property
    def _contiguous(self) -> bool:
        return prod(self.analysis.body.output_ranges[(self.vector or 0) + 1 :]) == 1

    def _reads_neighbours(self, element: int) -> bool:
        """Whether what one lane reads lies beside what it read before: then the cache has it."""
        loops = [r for r in self.analysis.depends[element] if r >= self.analysis.outputs]
        return any(self.analysis.strides(r)[element] == 1 for r in ([] if self.row is None else [self.row]) + loops)

    def _weight(self, number: int) -> float:
        """Cost of one evaluation for all lanes."""
        instruction = self.analysis.body.instructions[number]
        if instruction.op is Op.LOAD:
            guarded = instruction.c != NO_GUARD and self.strides[instruction.c] != 0
            row = self.strides[instruction.b] == 1
            if row:
                return GUARDED if guarded else 1.0
            return PER_LANE * self.lanes * (2 if guarded else 1) * (1 if self._reads_neighbours(instruction.b) else FAR)
        if instruction.op in SLOW and self.strides[number] is None:
            return PER_LANE * self.lanes if self.analysis.constant(instruction.b) is None else 4.0
        return 1.0 if self.strides[number] is None else 1 / self.lanes

    @property
    def schedule(self) -> Schedule:
        rows, columns = self.tile
        if self.lanes == 1:
            return Schedule(row=self.row, rows=rows)
        return Schedule((), self.vector, self.lanes, columns, self.row, rows, self.packed)


def _even(extent: int, most: int) -> int:
    """The tile of at most `most` that covers the extent with the least waste; of equals the largest."""
    return min(range(1, min(extent, most) + 1), key=lambda size: (-(-extent // size) * size, -size), default=1)
