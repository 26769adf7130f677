"""A good schedule of a body without measuring, and the candidates that are worth measuring."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from eigentensor.program.model import Body
from eigentensor.program.ops import Op
from eigentensor.runtime.bodies.analysis import Analysis
from eigentensor.runtime.bodies.quads import join_in_quads
from eigentensor.runtime.bodies.rewriting import simple_joins
from eigentensor.runtime.cpu.cost import CostedTiling
from eigentensor.runtime.cpu.schedule import Schedule, Target

AXES = 5  #: output axes, the longest, that are looked at
CANDIDATES = 24


def choose(body: Body, target: Target) -> Schedule:
    """A good schedule without measuring: the one with the fewest instructions for each element."""
    return min(_choices(body, target), key=lambda choice: choice.cost).schedule


def candidates(body: Body, target: Target) -> list[Schedule]:
    """Different schedules to choose from by measuring; the first is that of `choose`, others have larger costs."""
    choices = sorted(_choices(body, target), key=lambda choice: choice.cost)
    few = list(dict.fromkeys(choice.schedule for choice in choices))[:CANDIDATES]
    varied = [s for choice in choices[:4] for s in choice.variations()]
    return list(dict.fromkeys([*few, *varied]))


def _choices(body: Body, target: Target) -> Iterator[CostedTiling]:
    simple = simple_joins(join_in_quads(body, ()))
    for joined in _joins(join_in_quads(body, ()), simple):
        yield from _tiles(
            join_in_quads(body, joined), joined, target
        )  # of the body itself: joined twice it has other numbers


def _joins(body: Body, simple: tuple[int, ...]) -> list[tuple[int, ...]]:
    """What to join: what costs nothing; under a reduction also one axis more."""
    joins = [simple]
    for axis in range(1, len(body.output_ranges)) if body.reduce_ranges else ():
        if axis not in simple:
            joined = tuple(sorted({*simple, axis}))
            with suppress(ValueError):
                join_in_quads(body, joined)
                joins.append(joined)
    return joins


def _tiles(body: Body, joined: tuple[int, ...], target: Target) -> Iterator[CostedTiling]:
    analysis = Analysis(body)
    large = sorted(range(len(body.output_ranges)), key=lambda axis: (body.output_ranges[axis], axis))[-AXES:]
    axes = [axis for axis in sorted(large) if body.output_ranges[axis] > 1]
    vectors: list[int | None] = [*axes, None]
    # Rows pay where a reduction uses a value again for each of them, or where neighbours in memory are read for them;
    # elsewhere they only make code longer.
    rows: list[int | None] = [None, *(axes if body.reduce_ranges else (a for a in axes if _is_turned(analysis, a)))]
    for vector in vectors:
        for row in rows:
            if row is None or row != vector:
                for inner in _inner_axes(body, {vector, row}):
                    plain = CostedTiling(analysis, target, joined, vector, row, inner)
                    for columns, height in plain.sizes:
                        yield replace(plain, columns=columns, rows=height)
                    yield from (*plain.striped(), *plain.narrowed(), *plain.sweeping())


def _inner_axes(body: Body, tile: set[int | None]) -> list[int | None]:
    """None for the rows themselves; or the longest axis outside of a tile that has two."""
    others = [axis for axis in range(len(body.output_ranges)) if axis not in tile]
    if not others or None in tile or not body.reduce_ranges:
        return [None]
    return [None, max(others, key=lambda axis: body.output_ranges[axis])]


def _is_turned(analysis: Analysis, axis: int) -> bool:
    """Whether something is read along an axis whose neighbours are needed for one place of the axes after it, along
    which the result is written. What is read along no other axis is one value there, read once."""
    strides, extents = analysis.strides(axis), analysis.body.output_ranges
    after = {a for a in range(axis + 1, len(extents)) if extents[a] > 1}
    reads = [i.b for i in analysis.body.instructions if i.op is Op.LOAD]
    return any(strides[b] == 1 and analysis.depends[b] & after for b in reads)
