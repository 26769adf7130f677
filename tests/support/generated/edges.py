"""Values at which scalar operations go wrong: borders, zeros, infinities, NaN payloads, subnormals, ties."""

import numpy as np

from eigentensor.numerics.dtypes import CANONICAL_NAN, INFINITY, DType
from eigentensor.numerics.exact import FRACTION
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.ops import REDUCTIONS
from eigentensor.program.signatures import UNIFORM

#: Operations of one type, with the number of operands: all but leaves, reductions, WHERE, CAST and BITCAST.
CELLS = [(op, dtype) for op, dtypes in UNIFORM.items() if op not in REDUCTIONS for dtype in sorted(dtypes)]


def edges(dtype: DType) -> list[int]:
    """Patterns of the type, about forty at most, without repetition."""
    if dtype is DType.BOOL:
        return [0, 1]
    if dtype is DType.INDEX:  # small enough that no result leaves the range that is proven of indices
        return [value - (value >> 31 << 32) & (1 << 64) - 1 for value in edges(DType.INT32)]
    sign, ones = 1 << 8 * dtype.size - 1, (1 << 8 * dtype.size) - 1
    if dtype.is_float:
        infinity, one = INFINITY[dtype], 1 << FRACTION[dtype]
        unit = infinity // 2 // one * one  # the pattern of 1.0
        sizes = [
            0, 1, 2, one // 2, one - 1, one, one + 1, unit - one, unit - 1, unit, unit + 1, unit + one // 2, unit + one,
            unit + one + 1, unit + (FRACTION[dtype] + 1) * one, unit + (FRACTION[dtype] + 1) * one + 1,
            infinity - one, infinity - 1, infinity, infinity + 1, CANONICAL_NAN[dtype], sign - 1,
        ]  # fmt: skip
        return [size | bit for size in sizes for bit in (0, sign)]
    width = 8 * dtype.size
    near = [base + d for base in (0, sign) for d in (-3, -2, -1, 0, 1, 2, 3, 7)]
    floats = [(1 << k) + d for k in (11, 24, 25, 53, 62) if k < width - 1 for d in (-1, 0, 1)]
    ties = [(1 << k) + (1 << k - p) + d for k, p in ((30, 8), (62, 24), (62, 8)) if k < width - 1 for d in (-1, 0, 1)]
    return list(dict.fromkeys(value & ones for value in [*near, width, width - 1, 100, *floats, *ties]))


def held(dtype: DType, patterns: list[int]) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    """An array of elements with these bits."""
    return np.array(patterns, f"u{dtype.size}").view(STORAGE[dtype])
