"""Machine integers: two's complement, wrapping, total. INDEX is computed here too: it is proven never to wrap."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE

Values = NDArray[Any]


@np.errstate(all="ignore")
def add(dtype: DType, a: Values, b: Values) -> Values:
    """The sum modulo 2^bits, as the type wraps."""
    return np.asarray(np.add(a, b))


@np.errstate(all="ignore")
def subtract(dtype: DType, a: Values, b: Values) -> Values:
    """The difference modulo 2^bits, as the type wraps."""
    return np.asarray(np.subtract(a, b))


@np.errstate(all="ignore")
def multiply(dtype: DType, a: Values, b: Values) -> Values:
    """The product modulo 2^bits, as the type wraps."""
    return np.asarray(np.multiply(a, b))


@np.errstate(all="ignore")
def floor_divide(dtype: DType, a: Values, b: Values) -> Values:
    """Quotient towards -infinity; x/0 = 0, minimum/-1 = minimum."""
    none = np.equal(b, 0)
    quotient = np.floor_divide(a, np.where(none, STORAGE[dtype].type(1), b))
    return np.where(none, STORAGE[dtype].type(0), quotient)


@np.errstate(all="ignore")
def divide(dtype: DType, a: Values, b: Values) -> Values:
    """Quotient towards zero; x/0 = 0, minimum/-1 = minimum."""
    quotient = floor_divide(dtype, a, b)
    below = np.not_equal(b, 0) & np.not_equal(quotient * b, a) & (np.less(a, 0) != np.less(b, 0))
    return np.asarray(quotient + below.astype(STORAGE[dtype]))


@np.errstate(all="ignore")
def floor_modulo(dtype: DType, a: Values, b: Values) -> Values:
    """What `floor_divide` leaves; x%0 = x."""
    return np.asarray(a - floor_divide(dtype, a, b) * b)


@np.errstate(all="ignore")
def modulo(dtype: DType, a: Values, b: Values) -> Values:
    """What `divide` leaves; x%0 = x."""
    return np.asarray(a - divide(dtype, a, b) * b)


def shift_left(dtype: DType, a: Values, b: Values) -> Values:
    """a·2^b; the distance is read as unsigned, and one of the width or more gives 0."""
    unsigned = np.dtype(f"u{dtype.size}").type
    value, distance, width = np.asarray(a).view(unsigned), np.asarray(b).view(unsigned), unsigned(8 * dtype.size)
    shifted = value << np.minimum(distance, width - unsigned(1))
    return np.asarray(np.where(distance < width, shifted, unsigned(0))).view(STORAGE[dtype])


def shift_right(dtype: DType, a: Values, b: Values) -> Values:
    """a/2^b towards -infinity; the distance is read as unsigned, and one of the width or more leaves only the sign."""
    unsigned = np.dtype(f"u{dtype.size}").type
    value, distance, width = np.asarray(a), np.asarray(b).view(unsigned), unsigned(8 * dtype.size)
    last = np.minimum(distance, width - unsigned(1))
    if dtype.is_signed:
        return np.asarray(value >> last.astype(STORAGE[dtype]))
    return np.asarray(np.where(distance < width, value >> last, unsigned(0)))
