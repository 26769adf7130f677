"""What follows from the choice of a tile: how large it is, what is packed, which parts threads share."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Self

from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Body
from eigentensor.program.ops import REDUCTIONS, Op
from eigentensor.runtime.bodies.analysis import Analysis
from eigentensor.runtime.bodies.quads import FOUR
from eigentensor.runtime.cpu.schedule import Schedule, Target

PACK_BYTES = 1 << 19  #: values that are packed at once: what a core's own cache holds
KEEP_BYTES = 1 << 19  #: accumulators that wait between panels
ROWS = 16  #: of a tile without reductions: a cache line of float32
LINES = 2400  #: instructions in a tile: longer ones compile slowly and spill
SHARES = 8  #: parts of a call that threads can share evenly, if it is worth sharing
NEARLY = 1.02
STREAM = 1 << 18  #: bytes of a tensor that a core's own cache does not keep from one run to the next
FEW = 16  #: results that what is read once is for, at most
STRIPES = 4  #: places of memory that a processor fetches ahead from at once, whatever else it does
DISTANT = 1 << 21  #: bytes of a tensor that comes from memory that cores share
PLACES = 8  #: rows of such a tensor that are read side by side at the speed of one
SWEEP = 1 << 12  #: elements of such rows, side by side, whose accumulators a core's nearest cache holds


@dataclass(frozen=True)
class Tiling:
    """A way to compute a body whose axes are joined already."""

    analysis: Analysis
    target: Target
    joined: tuple[int, ...]
    vector: int | None
    row: int | None
    inner: int | None = None
    columns: int = 1
    rows: int = 1
    stripes: int = 0
    most: int = 1 << 16  #: lanes of a vector, if the target has more
    swept: bool = False  #: whether a few steps are taken along the whole vector's axis, then the next ones

    @property
    def body(self) -> Body:
        """The body that is tiled."""
        return self.analysis.body

    @cached_property
    def lanes(self) -> int:
        """Elements in a vector: a power of two that the target and the axis hold; less than four is not worth a
        vector."""
        extent = 1 if self.vector is None else self.body.output_ranges[self.vector]
        lanes = min(self.target.lanes, self.most, 1 << extent.bit_length() - 1)
        return lanes if lanes >= 4 else 1

    @cached_property
    def strides(self) -> tuple[int | None, ...]:
        """By how much each value moves from lane to lane; None where no index moves evenly."""
        return self.analysis.strides(self.vector) if self.vector is not None else (0,) * len(self.analysis.depends)

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Columns and rows: as many accumulators as registers can hold beside the values of a step."""
        most = max(1, LINES // len(self.body.instructions))
        height = self.body.output_ranges[self.row] if self.row is not None else 1
        if not self.body.reduce_ranges:
            return [(1, _even(height, min(ROWS, most)))]
        accumulators = min(self.target.registers * 3 // 4, most)
        wide = (
            -(-self.body.output_ranges[self.vector] // self.lanes) if self.vector is not None and self.lanes > 1 else 1
        )
        if self.row is None:
            return [(_even(wide, min(most, accumulators)), 1) for most in (8, 2)]
        widths = {_even(wide, min(columns, accumulators)) for columns in ((4, 3, 2, 1) if self.lanes > 1 else (1,))}
        tallest = {columns: self._tallest(columns, accumulators) for columns in widths}
        return [
            (columns, size)
            for columns in widths
            for most in {min(height, tallest[columns]), min(height, 6), min(height, 4)}
            for size in sorted({most, _even(height, most)})
            if size <= tallest[columns]
        ]

    def _tallest(self, columns: int, accumulators: int) -> int:
        """Rows at most: beside their accumulators a step has the columns of one factor in registers, and one of the
        other, or each step would lead some of them to memory and back."""
        free = min(accumulators, self.target.registers - 1 - columns)
        return max(1, free // columns)

    @cached_property
    def tiles(self) -> int:
        """How many tiles the rows have."""
        return -(-self.body.output_ranges[self.row] // self.rows) if self.row is not None else 1

    @property
    def innermost(self) -> int | None:
        """The loop that runs fastest: what does not depend on it can be packed for it."""
        return self.row if self.inner is None else self.inner

    @cached_property
    def served(self) -> int:
        """How many tiles the innermost loop has: all of them use what is packed."""
        return self.tiles if self.inner is None else self.body.output_ranges[self.inner]

    @cached_property
    def streams(self) -> frozenset[int]:
        """Loads, side by side along the vector, of large tensors of which every element is read for a few results."""
        many = {axis for axis, extent in enumerate(self.body.output_ranges) if extent > FEW}
        large = {axis for axis in (*many, self.row) if axis not in (None, self.vector)}
        return frozenset(
            number
            for number, i in enumerate(self.body.instructions)
            if i.op is Op.LOAD
            and self.strides[i.b] == (FOUR if number in self.analysis.wide else 1)
            and self.body.parameters[i.a].elements * self.body.parameters[i.a].dtype.size >= STREAM
            and large <= self.analysis.depends[i.b]
            and prod(self.analysis.extents[r] for r in self.analysis.depends[i.b]) <= self.body.parameters[i.a].elements
        )

    def _is_within(self, axis: int, load: int) -> bool:
        """Whether what is read along an axis lies inside of what a reduction reads, as one run of memory."""
        element = self.body.instructions[load].b
        step = self.analysis.strides(axis)[element]
        runs = [self.analysis.strides(loop)[element] for loop in self.analysis.loops_of(element)]
        return step is not None and any(run is not None and run > step for run in runs)

    @cached_property
    def in_pieces(self) -> frozenset[int]:
        """Streams that are read again and again, each time a part of what lies side by side."""
        around = {axis for axis, extent in enumerate(self.body.output_ranges) if extent > 1}
        around -= {self.row} if self.tiles == 1 else set()
        if self.vector is not None and self.body.output_ranges[self.vector] <= self.lanes * self.columns:
            around -= {self.vector}
        return frozenset(load for load in self.streams if any(self._is_within(axis, load) for axis in around))

    @cached_property
    def restarted(self) -> frozenset[int]:
        """Streams that begin anew with each row."""
        return frozenset(load for load in self.streams if self.row is None or not self._is_within(self.row, load))

    def striped(self) -> list[Self]:
        """The tiling with its rows in stripes, if that helps: where they are streams, and the vector is no loop."""
        if self.row is None or self.inner is not None or self.vector is None:
            return []
        if not self.streams or self.in_pieces or self.restarted != self.streams:
            return []
        wide = -(-self.body.output_ranges[self.vector] // self.lanes)
        rows = min(STRIPES // (wide * len(self.streams)), self.body.output_ranges[self.row])
        return [replace(self, columns=wide, rows=rows, stripes=1)] if rows > 1 and self.body.reduce_ranges else []

    # Far memory

    @cached_property
    def distant(self) -> frozenset[int]:
        """Loads of far memory of which every element is read for a few results."""
        analysis = self.analysis
        return frozenset(
            number
            for number, i in enumerate(self.body.instructions)
            if i.op is Op.LOAD
            and (parameter := self.body.parameters[i.a]).elements * parameter.dtype.size >= DISTANT
            and prod(analysis.extents[r] for r in analysis.depends[i.b]) >= parameter.elements
            and prod(e for axis, e in enumerate(self.body.output_ranges) if axis not in analysis.depends[i.b]) <= FEW
        )

    @cached_property
    def places(self) -> dict[int, int]:
        """From how many rows of far memory a load reads in one step, where each lane goes on in one of its own."""
        reads = {number: self.body.instructions[number].b for number in self.distant - set(self.analysis.wide)}
        return {
            number: self.lanes * self._copies(number)
            for number, element in reads.items()
            if self.strides[element] not in (0, 1)
            and self.analysis.run(element, self.analysis.loops_of(element)[-1:]) >= self.lanes
        }

    def narrowed(self) -> list[Self]:
        """The tiling with fewer lanes, if more of them would each read far memory in a row of its own."""
        if self.lanes <= PLACES or not self.places:
            return []
        if any(self.row in self.analysis.depends[number] for number in self.places):
            return []
        return [replace(self, rows=rows, most=PLACES) for rows in {rows for _, rows in self.sizes}]

    @cached_property
    def leaps(self) -> frozenset[int]:
        """Loads that go on in another row of far memory at each step of the only loop of the only reduction."""
        loop = self.analysis.outputs
        if self.body.reductions != 1 or len(self.body.reduce_ranges) != 1:
            return frozenset()
        if self.analysis.constant(self.body.reduce_ranges[0].extent) is None:
            return frozenset()
        reads = {number: self.body.instructions[number].b for number in self.distant}
        return frozenset(
            number
            for number, element in reads.items()
            if self.strides[element] == 1 and (self.analysis.strides(loop)[element] or 0) >= SWEEP // 4
        )

    def sweeping(self) -> list[Self]:
        """The tiling with its accumulators in memory, so that what leaps is read as runs of memory, few at once."""
        if self.row is not None or not self.leaps or self.body.output_ranges[self.vector or 0] < SWEEP // 4:
            return []
        return [replace(self, columns=2, swept=True)]

    @property
    def _sweep(self) -> int:
        """How much of the vector's axis is swept at once: all of it, or even parts that fit, some for each thread."""
        assert self.vector is not None
        extent, width = self.body.output_ranges[self.vector], self.lanes * self.columns
        parts = -(-extent // SWEEP)
        while parts * prod(self.body.output_ranges) // extent < SHARES // 2 and extent // parts >= SWEEP:
            parts *= 2
        return -(-extent // (parts * width)) * width

    # Packing

    @cached_property
    def packable(self) -> frozenset[int]:
        """The largest values inside reductions that vary along the vector but not in the innermost loop."""
        if self.row is None or self.vector is None or self.lanes == 1 or self.served < 4:
            return frozenset()
        fits = {i for i in range(len(self.analysis.depends)) if self._fits(i)}
        used: set[int] = set()
        for i, instruction in enumerate(self.body.instructions):
            if i not in fits and (self.analysis.scopes[i] is not None or instruction.op in REDUCTIONS):
                used.update(v for v in instruction.values if v in fits)
        return frozenset(i for i in used if self.body.instructions[i].dtype is not DType.INDEX)

    def _fits(self, number: int) -> bool:
        scope, depends = self.analysis.scopes[number], self.analysis.depends[number]
        if (
            scope is None
            or self.vector not in depends
            or self.innermost in depends
            or scope not in self._inner_reductions
        ):
            return False
        extents = (self.body.reduce_ranges[r - self.analysis.outputs].extent for r in self.analysis.loops_of(number))
        return all(self.analysis.constant(extent) is not None for extent in extents)

    def _copies(self, number: int) -> int:
        return self.columns * (self.rows if self.row in self.analysis.depends[number] else 1)

    @cached_property
    def _inner_reductions(self) -> frozenset[int]:
        """The reductions that the innermost loop runs again and again."""
        pairs = zip(self.body.instructions, self.analysis.depends, strict=True)
        return frozenset(i.c for i, depends in pairs if i.op in REDUCTIONS and self.innermost in depends)

    @cached_property
    def panel(self) -> int | None:
        """Steps of the outermost loop whose packed values fit, 0 for all of them; None if nothing can be packed."""
        size = sum(self.analysis.steps[i] * self._copies(i) * self.lanes * 4 for i in self.packable)
        if size <= PACK_BYTES:
            return 0
        if not self._in_panels or (fit := PACK_BYTES // self._step_bytes) < 1:
            return None
        steps = self.analysis.extents[self.analysis.outputs]
        fit = -(-steps // -(-steps // fit))  # panels of one size
        return min(fit + -fit % self.lanes, steps) if fit > self.lanes else fit

    @cached_property
    def _in_panels(self) -> bool:
        """Whether the outermost loop of all that is packed can be cut."""
        outermost = self.analysis.outputs
        return (
            self.body.reductions == 1
            and self.inner is None
            and bool(self.packable)
            and all(self.analysis.loops_of(i)[0] == outermost for i in self.packable)
            and self.analysis.constant(self.body.reduce_ranges[0].extent) is not None
        )

    @cached_property
    def _step_bytes(self) -> int:
        size = sum(self.analysis.steps[i] * self.lanes * self.columns * 4 for i in self.packable)
        return size // self.analysis.extents[self.analysis.outputs]

    @cached_property
    def packed(self) -> frozenset[int]:
        """The values that are packed: all that can be, if they fit the cache at once or in panels."""
        return self.packable if self.panel is not None and not self.stripes else frozenset()

    @cached_property
    def block(self) -> int:
        """Rows of a block: their accumulators fit between panels, and the call has parts enough for threads."""
        if self.row is None or not self.packed or self.inner is not None:
            return 0
        parts = prod(e for axis, e in enumerate(self.body.output_ranges) if axis not in (self.vector, self.row))
        assert self.vector is not None  # nothing would be packed
        parts *= -(-self.body.output_ranges[self.vector] // (self.lanes * self.columns))
        most = self.tiles
        if parts < SHARES and self.body.parameters[0].elements * max(self.analysis.steps) > 1 << 20:
            most = max(4, -(-self.tiles // -(-SHARES // parts)))
        if self.panel:
            most = min(most, max(1, KEEP_BYTES // (self.rows * self.columns * self.lanes * 4)))
        return most * self.rows if most < self.tiles else 0

    @cached_property
    def below_packed(self) -> frozenset[int]:
        """Values inside reductions that only packed values need, and the packed ones."""
        needed: set[int] = set()
        for i in reversed(range(len(self.analysis.depends))):
            if i == len(self.analysis.depends) - 1 or i in needed:
                needed.update(v for v in self.body.instructions[i].values if v not in self.packed)
        return frozenset(i for i, s in enumerate(self.analysis.scopes) if s is not None and i not in needed)

    @property
    def schedule(self) -> Schedule:
        """The schedule as the generator takes it; what has no lanes is not packed either."""
        if self.lanes == 1:
            return Schedule(self.joined, row=self.row, rows=self.rows, inner=self.inner)
        tile = Schedule(self.joined, self.vector, self.lanes, self.columns, self.row, self.rows, self.inner)
        if self.stripes:
            return replace(tile, stripes=self.stripes)
        if self.swept:
            return replace(tile, panel=PLACES, block=self._sweep)
        return replace(tile, packed=self.packed, panel=self.panel or 0, block=self.block) if self.packed else tile

    def variations(self) -> Iterator[Schedule]:
        """The same tile with other panels and blocks."""
        if self.packed and self._in_panels:
            steps = self.analysis.extents[self.analysis.outputs]
            panels = {0, self.panel or 0} | {p for p in (64, 128, 256, 512) if p < steps}
            fits = [p for p in panels if (p or steps) * self._step_bytes <= 2 * PACK_BYTES]
            blocks = {0, self.block} | {b * self.rows for b in (4, 16, 32) if b < self.tiles}
            for panel in sorted(fits):
                for block in sorted(blocks):
                    yield replace(self.schedule, panel=panel, block=block)


def _even(extent: int, most: int) -> int:
    """The largest tile of at most `most` that covers the extent with hardly more waste than any."""
    sizes = range(1, min(extent, most) + 1)
    covered = [-(-extent // size) * size for size in sizes]
    return max((s for s, c in zip(sizes, covered, strict=True) if c <= NEARLY * min(covered)), default=1)
