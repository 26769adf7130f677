"""Operations on operands of a type, and patterns on which implementations of them are compared."""

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.numerics import conversion
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.floats import canonical, patterns
from eigentensor.numerics.operations import OPERATIONS
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.ops import ARITY, COMPARISONS, Op
from eigentensor.program.signatures import mismatch
from support.generated.edges import CELLS, edges

Words = NDArray[np.uint64]
#: Of CAST and BITCAST source and target, of others the type of the operands twice.
Cell = tuple[Op, DType, DType]

CONVERSIONS = [
    (op, source, target)
    for op, source, target in product((Op.CAST, Op.BITCAST), DType, DType)
    if not mismatch(op, target, [source])
]
ALL: list[Cell] = [*((op, t, t) for op, t in CELLS), *((Op.WHERE, t, t) for t in DType), *CONVERSIONS]
#: Cells of one half operand, and those of them in which something is rounded or widened.
HALVES = [cell for cell in ALL if ARITY[cell[0]] == 1 and cell[1] in (DType.FLOAT16, DType.BFLOAT16)]
ROUNDED = [cell for cell in HALVES if cell[0] is not Op.BITCAST and cell[2].is_float]
#: Cells in which floats are computed, compared, or made of something else or something else of them.
FLOATS = [cell for cell in ALL if cell[0] not in (Op.WHERE, Op.BITCAST) and (cell[1].is_float or cell[2].is_float)]
EVERY_HALF = np.arange(1 << 16, dtype=np.uint64)[:, None]


def values(dtype: DType, words: Words) -> NDArray[Any]:
    """Elements with these bits."""
    return words.astype(f"u{dtype.size}").view(STORAGE[dtype])


def expected(cell: Cell, operands: Words) -> Words:
    """What a store writes of the results, by `numerics`: floats are computed by this machine."""
    op, source, target = cell
    if op in (Op.CAST, Op.BITCAST):
        convert = conversion.cast if op is Op.CAST else conversion.bitcast
        result = convert(source, target, values(source, operands[:, 0]))
    else:
        types = (DType.BOOL, target, target) if op is Op.WHERE else (target,) * 3
        columns = (values(t, column) for t, column in zip(types, operands.T, strict=False))
        result = OPERATIONS[op.name](target, *columns)
    stored = DType.BOOL if op in COMPARISONS else target
    return patterns(stored, np.ascontiguousarray(canonical(stored, result))).astype(np.uint64)


def types_of(cell: Cell) -> list[DType]:
    op, source, _ = cell
    return [DType.BOOL, source, source] if op is Op.WHERE else [source] * ARITY[op]


def on_edges(cell: Cell, most: int) -> Words:
    """All combinations of edges, or so many of them."""
    pools = [np.array(edges(dtype), np.uint64) for dtype in types_of(cell)]
    sizes = [len(pool) for pool in pools]
    count = int(np.prod(sizes))
    chosen = np.random.default_rng(0).permutation(count)[:most]
    return np.stack([pool[i] for pool, i in zip(pools, np.unravel_index(chosen, sizes), strict=True)], 1)


def at_random(cell: Cell, count: int, seed: int) -> Words:
    """Patterns of all kinds; a quarter of the sums of floats cancel or nearly so."""
    random = np.random.default_rng([seed, *map(int, cell)])
    columns = [_patterns(random, dtype, count) for dtype in types_of(cell)]
    dtype = cell[1]
    if dtype.is_float and len(columns) > 1:
        factors = (values(dtype, column) for column in columns[:2])
        other = columns[0] if len(columns) == 2 else patterns(dtype, OPERATIONS["MUL"](dtype, *factors))
        sign = 1 << 8 * dtype.size - 1
        near = (other.astype(np.int64) ^ sign) + (random.integers(-9, 10, count) << random.integers(0, 9, count))
        columns[-1] = np.where(random.integers(0, 4, count) == 0, near.astype(np.uint64) & (2 * sign - 1), columns[-1])
    return np.stack(columns, 1)


def difference(cell: Cell, operands: Words, results: Words) -> str:
    """Where results are not those of `numerics`: how many, and the first of them. Empty if all agree."""
    right = expected(cell, operands)
    wrong = np.flatnonzero(right != results)
    shown = [(list(map(hex, operands[i].tolist())), hex(results[i]), hex(right[i])) for i in wrong[:5]]
    return f"{name(cell)}: {len(wrong)} wrong, (operands, found, numerics): {shown}" if len(wrong) else ""


def name(cell: Cell) -> str:
    op, source, target = cell
    return f"{op.name} {source.name}" + (f" {target.name}" if op in (Op.CAST, Op.BITCAST) else "")


def _patterns(random: np.random.Generator, dtype: DType, count: int) -> Words:
    """Uniform, of few bits, short, edges."""
    if dtype is DType.BOOL:
        return random.integers(0, 2, count, np.uint64)
    # no product of indices leaves the range that is proven of them
    width = 31 if dtype is DType.INDEX else 8 * dtype.size
    uniform, one, two = (random.integers(0, 1 << width, count, np.uint64) for _ in range(3))
    short = uniform >> random.integers(0, width, count, np.uint64)
    edge = random.choice(np.array(edges(dtype), np.uint64), count)
    return np.choose(random.integers(0, 5, count), [uniform, uniform, uniform & one & two, short, edge])
