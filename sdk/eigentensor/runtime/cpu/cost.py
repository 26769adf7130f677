"""What a schedule costs, in instructions for each element: counted, not measured."""

from dataclasses import dataclass
from functools import cached_property
from math import prod

from eigentensor.numerics.dtypes import DType
from eigentensor.program.ops import NO_GUARD, REDUCTIONS, Op
from eigentensor.runtime.bodies.expressions import Text
from eigentensor.runtime.bodies.quads import FOUR
from eigentensor.runtime.cpu.reduction import Reductions
from eigentensor.runtime.cpu.tile import Tile
from eigentensor.runtime.cpu.tiling import FEW, PLACES, Tiling

#: Costs, in instructions that work on all lanes: what is done lane by lane, reads of chosen lanes, of turned squares.
PER_LANE, GUARDED, TURNED = 1.5, 2.0, 6.0
SCATTERED = 8.0  #: a result that is stored alone, in a cache line of its own
STREAMED = 1.5  #: a vector that is read again for each tile, from wherever it is
RESTARTED = 600.0  #: the beginning of one of many runs of memory, none of which the processor has fetched ahead
AGAIN = 3.0  #: a vector from a core's second cache, step after step
KEPT = 2.0  #: a packed vector from there, for each tile
NEAREST = 1 << 15  #: bytes that a core's nearest cache holds
LEAP = 80.0  #: the beginning of a short run of far memory
FAR = 3  #: times as much, where each lane reads another cache line and only one element of it
SLOW = frozenset({Op.CDIV, Op.CMOD, Op.FLOORDIV, Op.FLOORMOD})


@dataclass(frozen=True)
class CostedTiling(Tiling):
    """A tiling with its cost."""

    @cached_property
    def cost(self) -> tuple[float, int, int]:
        """Instructions for one element; ties go to the longer inner loop, then to the later axis."""
        rows, columns = self.rows, self.columns
        vector = 1 if self.vector is None else self.body.output_ranges[self.vector]
        width = self.lanes * columns
        useful = vector / (-(-vector // width) * width)
        if self.row is not None:
            useful *= self.body.output_ranges[self.row] / (self.tiles * rows)
        total = 0.0
        for i, instruction in enumerate(self.body.instructions):
            steps = self._evaluations(i)
            if self._is_step(i) and instruction.dtype is DType.INDEX:
                continue
            shared = 1.0  # how many elements one evaluation serves
            if self.vector is not None and self.strides[i] == 0:
                shared *= width / self._distance(i)
            elif self.lanes > 1:
                shared *= self.lanes / self._weight(i)
            by_row = self.row is not None and self.row not in self.analysis.depends[i]
            if i in self.packed:
                total += self._again * steps / (self.lanes * (rows if by_row else 1))  # read again for each tile
            if i in self.below_packed:
                shared *= self.block // rows or self.served
            if by_row:
                shared *= rows
            total += steps / shared
        if self.vector is not None and self.lanes > 1 and not self._contiguous:
            total += SCATTERED
        restarts = len(self.restarted) if self.rows > 1 and not self.stripes else 0
        total += RESTARTED * (restarts + len(self.in_pieces)) / width
        total += self._leaping / width
        chains = min(rows * columns, 8) if self.body.reduce_ranges else 8
        return total / useful * (8 / chains) ** 0.25, -self.lanes, -(self.vector if self.vector is not None else -1)

    @cached_property
    def _again(self) -> float:
        """Cost of a packed vector for each tile: whether the nearest cache has kept it."""
        size = sum(self.analysis.steps[number] * self._copies(number) * self.lanes * 4 for number in self.packed)
        if self.panel:
            size = self.panel * self._step_bytes
        return 1.0 if size < NEAREST else KEPT

    @cached_property
    def _leaping(self) -> float:
        """Cost of reading another row of far memory at each step; or of accumulators in memory, for all columns."""
        if self.swept:
            return 2 * self.columns * max(self.analysis.steps) / PLACES
        return LEAP * sum(self.analysis.steps[number] for number in self.leaps)

    def _evaluations(self, number: int) -> int:
        """How often an instruction is evaluated for an element: in the innermost loop that it depends on."""
        instruction = self.body.instructions[number]
        if instruction.op in REDUCTIONS:
            return prod(self.analysis.extents[r] for r in self.analysis.ranges_of(instruction.c))
        scope, loops = self.analysis.scopes[number], self.analysis.loops_of(number)
        if scope is None:
            return 1
        return prod(self.analysis.extents[r] for r in self.analysis.ranges_of(scope) if r <= loops[-1])

    def _is_step(self, number: int) -> bool:
        """Whether a value belongs to the steps of a reduction whose loops are written as one."""
        return self.analysis.scopes[number] in self._flat and number not in self.below_packed

    @cached_property
    def _flat(self) -> frozenset[int]:
        reductions = Reductions(Text(), Tile(self.body, self.schedule, self.analysis))
        scopes = set()
        for instruction in self.body.instructions:
            if instruction.op in REDUCTIONS and (ranges := self.analysis.ranges_of(instruction.c)):
                roots = [v for v in instruction.values if self.analysis.scopes[v] is not None]
                if reductions.is_flat(ranges, self.analysis.needed(roots, self.packed)):
                    scopes.add(instruction.c)
        return frozenset(scopes)

    @property
    def _contiguous(self) -> bool:
        return prod(self.body.output_ranges[(self.vector or 0) + 1 :]) == 1

    def _reads_neighbours(self, element: int) -> bool:
        """Whether what one lane reads lies beside what it read before: then the cache has it."""
        loops = list(self.analysis.loops_of(element)) + ([] if self.row is None else [self.row])
        return any(self.analysis.strides(r)[element] == 1 for r in loops)

    def _is_read_again(self, number: int) -> bool:
        """Whether the steps of a tile of one row read what others read again, and the nearest cache has not kept."""
        if self.row is not None or self.analysis.scopes[number] is None:
            return False
        parameter, depends = self.body.parameters[self.body.instructions[number].a], self.analysis.depends[number]
        others = prod(extent for axis, extent in enumerate(self.body.output_ranges) if axis not in depends)
        return others > FEW and parameter.elements * parameter.dtype.size > NEAREST

    def _distance(self, number: int) -> float:
        """Cost of reading one element for all lanes, step after step of a reduction."""
        instruction = self.body.instructions[number]
        loops = self.analysis.loops_of(instruction.b) if instruction.op is Op.LOAD else ()
        far = FAR if loops and self.analysis.strides(loops[-1])[instruction.b] not in (0, 1) else 1
        return far * (GUARDED if instruction.op is Op.LOAD and instruction.c != NO_GUARD else 1)

    def _weight(self, number: int) -> float:
        """Cost of one evaluation for all lanes."""
        instruction = self.body.instructions[number]
        if instruction.op is Op.LOAD:
            guarded = instruction.c != NO_GUARD and self.strides[instruction.c] != 0
            crowded: float = max(1.0, self.places.get(number, 0) / PLACES) ** 1.5
            stride = self.strides[instruction.b]
            if number in self.analysis.wide and stride == FOUR:
                stride = 1
            if stride == 0 and number not in self.analysis.wide:  # one value for all columns, most often in all lanes
                return GUARDED / self.columns
            if stride == 1 and self._is_read_again(number):
                return AGAIN
            if stride == 1:
                return GUARDED if guarded else STREAMED if self.innermost in self.analysis.depends[number] else 1.0
            loops = self.analysis.loops_of(instruction.b)
            loops = loops if number in self.below_packed or self._is_step(number) else loops[-1:]
            if (
                stride is not None
                and instruction.c == NO_GUARD
                and number not in self.analysis.wide
                and self.analysis.run(instruction.b, loops) >= self.lanes
            ):
                return TURNED * crowded * (1 if number in self.below_packed else max(1, self.columns / 2) ** 0.5)
            slow = guarded or number in self.analysis.wide
            near = self._reads_neighbours(instruction.b)
            return PER_LANE * self.lanes * crowded * (2 if slow else 1) * (1 if near else FAR)
        if instruction.op in SLOW and self.strides[number] is None:
            return PER_LANE * self.lanes if self.analysis.constant(instruction.b) is None else 4.0
        return 1.0 if self.strides[number] is None else 1 / self.lanes
