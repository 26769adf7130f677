"""CAST and BITCAST between all element types."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.floats import canonical, narrow, widen
from eigentensor.numerics.storage import STORAGE

Values = NDArray[Any]


def bitcast(source: DType, target: DType, a: Values) -> Values:
    """The same bits as another type of the same width. A NaN is the canonical one, before and after."""
    return canonical(target, canonical(source, np.asarray(a)).view(STORAGE[target]))


@np.errstate(all="ignore")
def cast(source: DType, target: DType, a: Values) -> Values:
    """The value as another type.

    To a float: rounded once, to nearest even. float to integer: towards zero, saturating, NaN to 0. Integer to integer:
    wrapping. To bool: whether it is not zero (NaN is not).
    """
    a = np.asarray(a)
    if target is DType.BOOL:
        return np.asarray((widen(source, a) if source.is_float else a) != 0)
    if source.is_float:
        return narrow(target, widen(source, a)) if target.is_float else _float_to_integer(target, widen(source, a))
    if target is DType.BFLOAT16:
        return narrow(target, _few_bits(a))
    # an integer that is not exact in float32 is infinite in float16: the two roundings are one
    return narrow(target, a.astype(np.float32)) if target.is_float else a.astype(STORAGE[target])


def _float_to_integer(target: DType, a: NDArray[np.float32]) -> Values:
    limits = np.iinfo(STORAGE[target])
    # The largest integer may be no float32, the power of two above it is: at or above it, all saturates.
    below, above = a < float(limits.min), a >= float(limits.max + 1)
    whole = np.trunc(np.where(below | above | np.isnan(a), np.float32(0), a)).astype(STORAGE[target])
    return np.where(above, STORAGE[target].type(limits.max), np.where(below, STORAGE[target].type(limits.min), whole))


def _few_bits(a: Values) -> NDArray[np.float32]:
    """Integers as float32, exact or rounded to odd at about 20 bits: later rounding to 8 bits is then the only one."""
    magnitude = np.where(a < 0, np.negative(a.astype(np.uint64)), a.astype(np.uint64))
    length = np.frexp(magnitude.astype(np.float64))[1]
    drop = np.maximum(length - 20, 0)
    kept = magnitude >> drop.astype(np.uint64)
    # The last bit set stands for all that was dropped: no later tie is taken for one that is not.
    odd = kept | (kept << drop.astype(np.uint64) != magnitude)
    value = np.ldexp(odd.astype(np.float64), drop).astype(np.float32)
    return np.asarray(np.where(a < 0, -value, value))
