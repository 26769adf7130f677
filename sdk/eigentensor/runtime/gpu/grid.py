"""How a body is spread over the work items of a device that has many. All grids give the same bits.

Each work item computes rows × columns elements in registers, and each accumulator takes its terms in order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from math import log, prod

import numpy as np
from numpy.typing import NDArray

from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Body
from eigentensor.program.ops import NO_GUARD, REDUCTIONS, Op
from eigentensor.runtime.bodies.analysis import Analysis
from eigentensor.runtime.bodies.quads import FOUR

#: What a work item computes, and how work items are grouped.
TILES = ((1, 1), (2, 2), (4, 4), (8, 4), (8, 8))
LINES = 400  #: instructions in a tile: longer ones compile slowly and spill
NEAR, FAR, SHARED = 4.0, 12.0, 1.5  #: instructions that a read is worth: of neighbours, of others, of shared memory
WAIT = 100  #: evaluations for which a chain of steps waits, by and large
CHUNK = 16  #: steps of a reduction whose values are staged at a time
LINE = 16  #: bytes that one copy takes at most
#: Of copies under way: steps of a chunk, chunks at most, work items of a group that is mostly there to copy.
COPIED, AHEAD, CREW = (64, 32, 16), 8, 128
#: Where there are such copies: instructions for which memory is waited for, and what a multiprocessor has room for.
FLIGHT, ROOM, THREADS = 1300, 200 << 10, 2048


@dataclass(frozen=True, slots=True)
class Many:
    """What a device with work items can hold: groups side by side, items in a group, bytes that a group shares.

    `copies` says whether memory is copied to what a group shares while its items do something else.
    """

    groups: int
    items: int
    shared: int
    copies: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """`rows` and `columns` are output axes, each set taken as one long axis; other axes have groups of their own.

    A group is `tall` × `wide` work items, each with a tile of `high` × `broad` elements that lie as far apart as the
    group is tall and wide: neighbours read neighbours. What would lie behind an end is computed for the last element,
    and not stored. With `chunk`, values in a reduction that vary along rows or columns alone are staged in memory that
    the group shares, so many steps at a time. With `ahead`, what is staged is memory as it is, copied while the group
    computes: so many chunks have room. A `crew` above 1 has so many times as many items, of which the first compute and
    all start copies.
    """

    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()
    tall: int = 1
    wide: int = 1
    high: int = 1
    broad: int = 1
    chunk: int = 0
    ahead: int = 0
    crew: int = 1

    @property
    def items(self) -> int:
        """Work items of a group."""
        return self.tall * self.wide * self.crew

    def __str__(self) -> str:
        return " ".join(f"{f.name}={_text(getattr(self, f.name))}" for f in fields(self))

    @classmethod
    def parse(cls, text: str) -> "Grid":
        """The grid of a text. Raises ValueError for anything that no grid is written as."""
        parts = [part.partition("=")[::2] for part in text.split(" ")]
        numbers = {name: tuple(int(n) for n in value.split(",") if n) for name, value in parts}
        arguments = {name: value if name in ("rows", "columns") else sum(value) for name, value in numbers.items()}
        if set(arguments) != {f.name for f in fields(cls)} or str(grid := cls(**arguments)) != text:  # type: ignore[arg-type]
            raise ValueError(f"not a grid: {text!r}")
        return grid


def choose_grid(body: Body, target: Many) -> Grid:
    """A good grid without measuring: the least estimated time."""
    return candidate_grids(body, target)[0]


def candidate_grids(body: Body, target: Many) -> list[Grid]:
    """Grids that fit the target, the most promising first."""
    analysis = Analysis(body)
    every = range(len(body.instructions))
    grids = {
        grid
        for rows, columns in _sides(analysis)
        for tile in (TILES if body.reduce_ranges else TILES[:3])
        for grid in _of(body, target, rows, columns, tile)
        if grid.high * grid.broad == 1 or sum(_instances(analysis, grid, n) for n in every) <= LINES
    }
    staged = {
        replace(g, chunk=CHUNK) for g in grids if 0 < shared_bytes(analysis, replace(g, chunk=CHUNK)) <= target.shared
    }
    grids |= staged
    if target.copies and body.reduce_ranges:
        grids |= {ahead for grid in (*grids, *_thin(body, analysis)) for ahead in _ahead(analysis, grid, target)}
    return sorted(grids, key=lambda grid: (_cost(analysis, grid, target), str(grid)))


def groups(body: Body, grid: Grid) -> tuple[int, int, int]:
    """Number of groups along columns, rows and the other axes."""
    rows, columns = (prod(body.output_ranges[a] for a in axes) for axes in (grid.rows, grid.columns))
    others = prod(body.output_ranges) // max(1, rows * columns)
    return -(-columns // (grid.wide * grid.broad)), -(-rows // (grid.tall * grid.high)), others


def staged(analysis: Analysis, grid: Grid, reduction: int) -> frozenset[int]:
    """The largest values in the steps of a reduction that read memory and vary with the rows alone or columns alone.

    Not one that each item reads for itself, where neighbours read neighbours: it would only come later. With copies
    under way it is what they can take of the memory that is read.
    """
    body, values = analysis.body, set[int]()
    if not grid.chunk or any(
        analysis.constant(body.reduce_ranges[r - analysis.outputs].extent) is None
        for r in analysis.ranges_of(body.instructions[reduction].c)
    ):
        return frozenset()
    if grid.ahead:
        of = [n for n, scope in enumerate(analysis.scopes) if scope == body.instructions[reduction].c]
        return frozenset(n for n in of if body.instructions[n].op is Op.LOAD and copied(analysis, grid, n))
    stack = [v for v in body.instructions[reduction].values if analysis.scopes[v] is not None]
    while stack:
        v = stack.pop()
        sides = [bool(analysis.depends[v].intersection(axes)) for axes in (grid.rows, grid.columns)]
        if v in analysis.wide:  # words of four bytes are read where they are needed
            continue
        if sum(sides) == 1 and body.instructions[v].dtype is not DType.INDEX:
            cone = cone_of(analysis, v)
            loads = [n for n in cone if body.instructions[n].op is Op.LOAD]
            reduced = any(body.instructions[n].op in REDUCTIONS for n in cone)
            shared = (grid.wide * grid.broad if sides[0] else grid.tall * grid.high) > 1
            if loads and not reduced and (shared or not all(_is_coalesced(analysis, grid, n) for n in loads)):
                values.add(v)
                continue
        stack += [w for w in body.instructions[v].values if analysis.scopes[w] is not None]
    return frozenset(values)


def side_of(analysis: Analysis, grid: Grid, v: int) -> str:
    """Along which side a value varies: "r", the rows, "c", the columns, "rc" or ""."""
    of = {"r": grid.rows, "c": grid.columns}
    return "".join(side for side, axes in of.items() if analysis.depends[v].intersection(axes))


@dataclass(frozen=True, slots=True)
class Copy:
    """How a group copies what the steps of a chunk read: `vector` elements at a time, of `span` places along a side.

    The elements of a vector are of neighbouring steps if it goes `along` the reduction, else of neighbouring places.
    """

    side: str
    span: int
    vector: int
    along: bool

    def elements(self, grid: Grid) -> int:
        """Elements of a chunk in shared memory."""
        return self.span * (grid.chunk + self.vector) if self._steps_together else grid.chunk * self._pitch

    def at(self, grid: Grid, k: str, place: str) -> str:
        """Where in it a step of a place lies: neighbours that read the same step hit different banks."""
        if self._steps_together:
            return f"({place}) * {grid.chunk + self.vector} + {k}"
        return f"{k} * {self._pitch} + {place}"

    def order(self, grid: Grid, e: str) -> tuple[str, str]:
        """Step and place where the copy with a number begins: neighbours copy neighbours."""
        if self.along:
            vectors = grid.chunk // self.vector
            return f"{e} % {vectors} * {self.vector}", f"{e} / {vectors}"
        vectors = self.span // self.vector
        return f"{e} / {vectors}", f"{e} % {vectors} * {self.vector}"

    @property
    def _steps_together(self) -> bool:
        return self.along and self.vector > 1

    @property
    def _pitch(self) -> int:
        return self.span + (self.vector == 1)


def copied(analysis: Analysis, grid: Grid, load: int) -> Copy | None:
    """How what a load in a reduction reads is copied; None if it has a guard, varies along both sides, or its elements
    are too small to be copied one by one and do not lie side by side."""
    instruction, body = analysis.body.instructions[load], analysis.body
    side = side_of(analysis, grid, load)
    if instruction.c != NO_GUARD or len(side) > 1 or load in analysis.wide:
        return None
    axes = {"r": grid.rows, "c": grid.columns, "": ()}[side]
    span = {"r": grid.tall * grid.high, "c": grid.wide * grid.broad, "": 1}[side]
    element, size = instruction.b, instruction.dtype.size
    scope = analysis.scopes[load]
    assert scope is not None  # it is in a reduction
    step = analysis.ranges_of(scope)[-1]
    whole = prod(body.output_ranges[a] for a in axes) % span == 0
    for axis, extent in ((step, grid.chunk), *((a, span) for a in axes[-1:] if whole)):
        vector = LINE // size
        while vector > 1 and extent % vector:
            vector //= 2
        if vector * size >= 4 and _is_together(analysis, element, axis, vector):
            return Copy(side, span, vector, axis == step)
    along = not axes or analysis.strides(step)[element] == 1
    return Copy(side, span, 1, along) if size == 4 else None


def _is_together(analysis: Analysis, element: int, axis: int, vector: int) -> bool:
    """Whether an index takes so many neighbours, from a multiple of their number on, as the counter of an axis does."""
    others = [analysis.strides(r)[element] for r in range(len(analysis.extents)) if r != axis]
    origin = analysis.origin(element)
    starts = [origin, analysis.extents[axis], *others]
    return analysis.strides(axis)[element] == 1 and all(s is not None and s % vector == 0 for s in starts)


def bytes_of_dots(analysis: Analysis, grid: Grid, reduction: int) -> tuple[int, int] | None:
    """The two loads of a sum of products of int8 as int32, if four neighbouring steps of both lie in one word: integers
    may be added in any order."""
    if not grid.ahead:
        return None
    of = analysis.body.instructions
    total = of[reduction]
    product = of[total.a]
    if (total.op, product.op, product.dtype) != (Op.REDUCE_ADD, Op.MUL, DType.INT32):
        return None
    first, second = (of[v].a if of[v].op is Op.CAST else v for v in product.values)
    for load in (first, second):
        byte = of[load].op is Op.LOAD and of[load].dtype is DType.INT8 and analysis.scopes[load] == total.c
        copy = copied(analysis, grid, load) if byte else None
        if copy is None or not copy.along or copy.vector < 4:
            return None
    return first, second


def cone_of(analysis: Analysis, number: int) -> list[int]:
    """The value and all that it is computed from, in order."""
    cone, stack = {number}, [number]
    while stack:
        new = set(analysis.body.instructions[stack.pop()].values) - cone
        cone |= new
        stack += new
    return sorted(cone)


def shared_bytes(analysis: Analysis, grid: Grid) -> int:
    """Bytes of shared memory of a group."""
    if grid.ahead:
        kept = {v for number in _reductions(analysis) for v in staged(analysis, grid, number)}
        copies = {v: copied(analysis, grid, v) for v in kept}
        sizes = [c.elements(grid) * analysis.body.instructions[v].dtype.size for v, c in copies.items() if c]
        return grid.ahead * sum(-(-size // LINE) * LINE for size in sizes)
    width = {
        v: grid.wide * grid.broad if analysis.depends[v].intersection(grid.columns) else grid.tall * grid.high
        for number in _reductions(analysis)
        for v in staged(analysis, grid, number)
    }
    return sum(grid.chunk * (w + 1) * max(4, analysis.body.instructions[v].dtype.size) for v, w in width.items())


def _reductions(analysis: Analysis) -> list[int]:
    return [n for n, i in enumerate(analysis.body.instructions) if i.op in REDUCTIONS]


def _sides(analysis: Analysis) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Axes to take as rows and as columns: along either, another read of a reduction is used again."""
    everything = tuple(range(analysis.outputs))
    reads = {
        frozenset(d for d in analysis.depends[n] if d < analysis.outputs)
        for n, i in enumerate(analysis.body.instructions)
        if i.op is Op.LOAD and analysis.scopes[n] is not None
    }
    pairs: set[tuple[tuple[int, ...], tuple[int, ...]]] = {((), everything)}
    for one, other in combinations(sorted(reads, key=sorted), 2):
        first, second = tuple(sorted(one - other)), tuple(sorted(other - one))
        if first and second:
            pairs.add((first, second) if max(first) < max(second) else (second, first))
    return sorted(pairs)


def _of(body: Body, target: Many, rows: tuple[int, ...], columns: tuple[int, ...], tile: tuple[int, int]) -> list[Grid]:
    high, broad = tile
    if not rows:
        return [Grid((), columns, 1, items, 1, broad) for items in {target.items, min(target.items, 64)}]
    shapes = [(1 << n, target.items >> n) for n in range(target.items.bit_length()) if target.items >> n]
    height = prod(body.output_ranges[a] for a in rows)
    return [
        Grid(rows, columns, tall, wide, high, broad)
        for tall, wide in shapes
        if tall * high < 2 * height and (wide >= 8 or wide == target.items)
    ]


def _thin(body: Body, analysis: Analysis) -> list[Grid]:
    """Grids of few rows and many columns: what little an item computes hides no wait for memory."""
    grids = []
    for rows, columns in _sides(analysis):
        height = prod(body.output_ranges[a] for a in rows)
        if height <= TILES[-1][0]:
            high = 1 << (height - 1).bit_length()
            grids += [Grid(rows, columns, 1, wide, high, 1, crew=CREW // wide) for wide in (16, 32)]
    return grids


def _ahead(analysis: Analysis, grid: Grid, target: Many) -> list[Grid]:
    """The grid with copies under way, if all reductions have some and the group has room: with the longest chunk.

    Not with the largest tile: its accumulators take the registers of a second group.
    """
    if (grid.high, grid.broad) == TILES[-1]:
        return []
    steps = [prod(analysis.extents[r] for r in analysis.ranges_of(k)) for k in range(analysis.body.reductions)]
    for chunk in COPIED:
        one = replace(grid, chunk=chunk, ahead=2)
        if any(n % chunk for n in steps) or not all(staged(analysis, one, r) for r in _reductions(analysis)):
            continue
        ahead = min(AHEAD, target.shared * 2 // shared_bytes(analysis, one), *(n // chunk for n in steps))
        if ahead > 1:
            return [replace(one, ahead=ahead)]
    return []


def _instances(analysis: Analysis, grid: Grid, number: int) -> int:
    """How often a tile has a value."""
    depends = analysis.depends[number]
    return (grid.high if depends.intersection(grid.rows) else 1) * (
        grid.broad if depends.intersection(grid.columns) else 1
    )


def _cost(analysis: Analysis, grid: Grid, target: Many) -> float:
    """Instructions of an item of all groups that one place of the device takes one after the other."""
    total = 0.0
    kept = [v for n in _reductions(analysis) for v in staged(analysis, grid, n)]
    dots = {analysis.body.instructions[n].c for n in _reductions(analysis) if bytes_of_dots(analysis, grid, n)}
    below = {n for v in kept for n in cone_of(analysis, v) if analysis.scopes[n] is not None}
    for n, instruction in enumerate(analysis.body.instructions):
        instances, steps = _instances(analysis, grid, n), analysis.steps[n]
        if instruction.op in REDUCTIONS:
            steps = prod(analysis.extents[r] for r in analysis.ranges_of(instruction.c))
        if (instruction.c if instruction.op in REDUCTIONS else analysis.scopes[n]) in dots:
            steps //= 4
        if n in kept:
            total += SHARED * steps * instances
        if n in below:  # the group shares the work, and reads along whatever lies side by side
            copy = copied(analysis, grid, n) if grid.ahead and n in kept else None
            span = grid.wide * grid.broad if analysis.depends[n].intersection(grid.columns) else grid.tall * grid.high
            share = span / grid.items if copy is None else copy.span / copy.vector / grid.items
            total += steps * share * (NEAR if instruction.op is Op.LOAD else 1)
        elif instruction.op is Op.LOAD:
            total += steps * instances * (NEAR if _is_coalesced(analysis, grid, n) else FAR)
        else:
            total += steps * instances
    rounds = -(-prod(groups(analysis.body, grid)) // target.groups)
    latency = 1 if grid.ahead else (1 + 2 / (grid.high * grid.broad)) ** 0.5  # which many chains hide
    work = float(total * rounds * latency * (1 + grid.items / target.items))
    if not target.copies or not grid.chunk:
        return work
    chunks = sum(prod(analysis.extents[r] for r in analysis.ranges_of(k)) for k in range(analysis.body.reductions))
    waits = FLIGHT * chunks / grid.chunk
    if not grid.ahead:
        return work + waits * rounds
    beside = max(1, min(rounds, ROOM // shared_bytes(analysis, grid), THREADS // grid.items))
    return max(work, waits / (grid.ahead - 1) * -(-rounds // beside))


def _is_coalesced(analysis: Analysis, grid: Grid, load: int) -> bool:
    """Whether neighbouring items read neighbouring elements, or the same."""
    beside = FOUR if load in analysis.wide else 1
    return not grid.columns or analysis.strides(grid.columns[-1])[analysis.body.instructions[load].b] in (0, beside)


def _text(value: int | tuple[int, ...]) -> str:
    return str(value) if isinstance(value, int) else ",".join(map(str, value))


def grid_features(body: Body, grids: Sequence[Grid]) -> NDArray[np.float64]:
    """A row for each grid: logarithms of a reckoned time, of groups, their size and tile, of reads, work and bytes."""
    analysis = Analysis(body)
    return np.array([_features(analysis, grid) for grid in grids])


def _features(a: Analysis, grid: Grid) -> list[float]:
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
        count, grid.tall, grid.wide, grid.high, grid.broad, grid.chunk,
        grid.ahead, grid.crew, reads, staged, work, chain, count * chain,
        sum(sizes), sizes[0], max(sizes), a.body.parameters[0].elements,
    )  # fmt: skip
    reckoned = work + 4 * reads + staged + WAIT * chain
    return [log(1 + reckoned), *(log(1 + number) for number in numbers)]
