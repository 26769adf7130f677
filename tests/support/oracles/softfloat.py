"""The float operations in whole numbers only, many values side by side: the contracts' `Float32`, `Half` and `Convert`.

Values are arrays of patterns as uint64. Names and order are those of the Solidity libraries, the words are narrower:
where those have 128 bits to spare, operands are shifted up first, and what falls off remains as a lowest bit.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from eigentensor.numerics.dtypes import CANONICAL_NAN, DType
from eigentensor.numerics.dtypes import INFINITY as INFINITIES

Words = NDArray[np.uint64]
Numbers = NDArray[np.int64]

SIGN, MAGNITUDE, INFINITY = np.uint64(0x80000000), np.uint64(0x7FFFFFFF), np.uint64(0x7F800000)
NAN, ONE, ZERO = np.uint64(0x7FC00000), np.uint64(0x3F800000), np.uint64(0)
#: The highest bit of what is shifted up: the sum of two has room.
TOP = 60


def evaluate(name: str, dtype: DType, *operands: Words) -> Words:
    """The patterns that an operation on floats stores (not CAST, BITCAST)."""
    widened = [widen(dtype, a) for a in operands]
    if name in ORDER:
        return ORDER[name](*widened).astype(np.uint64)
    return narrow(dtype, ARITHMETIC[name](*widened))


def cast(source: DType, target: DType, a: Words) -> Words:
    """The patterns of values as another type, one of the two a float's."""
    if not source.is_float:
        return _from_integer(source, target, a)
    a = widen(source, a)
    if target.is_float:
        return narrow(target, a)
    return (a & MAGNITUDE != 0).astype(np.uint64) if target is DType.BOOL else _to_integer(target, a)


def add(a: Words, b: Words) -> Words:
    """x is the larger size; y is shifted to its scale: more than 38 bits further down it changes nothing."""
    swap = (a & MAGNITUDE) < (b & MAGNITUDE)
    a, b = np.where(swap, b, a), np.where(swap, a, b)
    x, y = a & MAGNITUDE, b & MAGNITUDE
    (k, mx), (n, my) = _parts(x), _parts(y)
    my = _shifted(my << np.uint64(38), k - n)
    total = np.where((a ^ b) & SIGN != 0, (mx << np.uint64(38)) - my, (mx << np.uint64(38)) + my)
    result = np.where(total == 0, a & b & SIGN, _rounded(a & SIGN, total, k - 38))
    undefined = (x > INFINITY) | ((y == INFINITY) & (a != b))
    return np.where(x >= INFINITY, np.where(undefined, NAN, a), result)


def subtract(a: Words, b: Words) -> Words:
    return add(a, b ^ SIGN)


def multiply(a: Words, b: Words) -> Words:
    x, y, sign = a & MAGNITUDE, b & MAGNITUDE, (a ^ b) & SIGN
    (k, mx), (n, my) = _parts(x), _parts(y)
    result = _rounded(sign, mx * my << np.uint64(15), k + n - 149 - 15)
    undefined = (x > INFINITY) | (y > INFINITY) | (x == 0) | (y == 0)
    infinite = np.where(undefined, NAN, sign | INFINITY)
    return np.where((x >= INFINITY) | (y >= INFINITY), infinite, np.where((x == 0) | (y == 0), sign, result))


def fused_multiply_add(a: Words, b: Words, c: Words) -> Words:
    """a·b + c, rounded once. Product and addend get the same highest bit; of the smaller, what falls off is kept."""
    x, y, z = a & MAGNITUDE, b & MAGNITUDE, c & MAGNITUDE
    (k, mx), (n, my), (j, mz) = _parts(x), _parts(y), _parts(z)
    sign = (a ^ b) & SIGN
    product, k = _lifted(mx * my, k + n - 149)
    addend, j = _lifted(mz, j)
    swap = (product == 0) | ((addend != 0) & ((j > k) | ((j == k) & (addend > product))))
    larger, smaller = np.where(swap, addend, product), np.where(swap, product, addend)
    of_larger, of_smaller = np.where(swap, c & SIGN, sign), np.where(swap, sign, c & SIGN)
    top = np.where(swap, j, k)
    smaller = _jammed(smaller, top - np.where(swap, k, j))
    total = np.where(of_larger == of_smaller, larger + smaller, larger - smaller)
    none = np.where(of_larger == of_smaller, of_larger, ZERO)
    result = np.where(total == 0, none, _rounded(of_larger, *_lifted(total, top, TOP + 1)))
    special = (x >= INFINITY) | (y >= INFINITY)
    through = np.where(special, add(multiply(a, b), c), np.where(z > INFINITY, NAN, c))
    return np.where(special | (z >= INFINITY), through, result)


def divide(a: Words, b: Words) -> Words:
    x, y, sign = a & MAGNITUDE, b & MAGNITUDE, (a ^ b) & SIGN
    (k, mx), (n, my) = _parts(x), _parts(y)
    mx, k = _lifted(mx, k)
    divisor = np.maximum(my, np.uint64(1))
    quotient = mx // divisor
    quotient |= (quotient * divisor != mx).astype(np.uint64)
    result = _rounded(sign, quotient, k - n + 149)
    undefined = (x > INFINITY) | (y > INFINITY) | ((x == y) & ((x == 0) | (x == INFINITY)))
    limit = np.where((x == INFINITY) | (y == 0), sign | INFINITY, sign)
    special = (x >= INFINITY) | (y >= INFINITY) | (x == 0) | (y == 0)
    return np.where(special, np.where(undefined, NAN, limit), result)


def reciprocal(a: Words) -> Words:
    return divide(np.full_like(a, ONE), a)


def square_root(a: Words) -> Words:
    """A line within 3.7 % of every root of 61 or 62 bits; each step of Newton squares the error, and stays above."""
    k, m = _parts(a & MAGNITUDE)
    up = 60 - log2(m)
    up += (k - up) & 1 == 0
    m = m << up.astype(np.uint64)
    root = m // np.uint64(3 << 30) + np.uint64(45 << 24)
    for _ in range(3):
        root = root + m // root >> np.uint64(1)
    root -= (root * root > m).astype(np.uint64)
    root |= (root * root != m).astype(np.uint64)
    result = _rounded(np.zeros_like(a), root, (k - up + 149) // 2)
    return np.where((a & MAGNITUDE == 0) | (a == INFINITY), a, np.where(a > INFINITY, NAN, result))


def truncate(a: Words) -> Words:
    """Towards zero; the sign of zero stays."""
    exponent = (a >> np.uint64(23) & np.uint64(0xFF)).astype(np.int64)
    down = np.clip(150 - exponent, 0, 23).astype(np.uint64)
    whole = np.where(a & MAGNITUDE > INFINITY, NAN, a >> down << down)
    return np.where(exponent < 127, a & SIGN, whole)


def maximum(a: Words, b: Words) -> Words:
    return np.where(is_nan(a) | is_nan(b), NAN, np.where(_place(a) < _place(b), b, a))


def minimum(a: Words, b: Words) -> Words:
    return np.where(is_nan(a) | is_nan(b), NAN, np.where(_place(a) < _place(b), a, b))


def less(a: Words, b: Words) -> NDArray[np.bool_]:
    none = is_nan(a) | is_nan(b) | ((a | b) & MAGNITUDE == 0)
    return np.asarray(~none & (_place(a) < _place(b)))


def equal(a: Words, b: Words) -> NDArray[np.bool_]:
    return np.asarray(~(is_nan(a) | is_nan(b)) & ((a == b) | ((a | b) & MAGNITUDE == 0)))


def is_nan(a: Words) -> NDArray[np.bool_]:
    return np.asarray(a & MAGNITUDE > INFINITY)


def widen(dtype: DType, a: Words) -> Words:
    """The float32 with the same value. A NaN stays one."""
    if dtype is DType.FLOAT32:
        return a
    if dtype is DType.BFLOAT16:
        return a << np.uint64(16)
    size, sign = (a & np.uint64(0x7FFF)) << np.uint64(13), (a & np.uint64(0x8000)) << np.uint64(16)
    up = 23 - log2(size)  # of a subnormal number the highest bit becomes the hidden one
    subnormal = (size << np.clip(up, 0, 23).astype(np.uint64)) + ((112 - up).astype(np.uint64) << np.uint64(23))
    normal = np.where(size >= 0x0F800000, INFINITY | size, size + np.uint64(112 << 23))
    return sign | np.where(size >= 0x00800000, normal, np.where(size == 0, ZERO, subnormal))


def narrow(dtype: DType, a: Words) -> Words:
    """float32 to a float type: one rounding, to nearest even; too large is infinite. NaN becomes the type's one."""
    nan = np.uint64(CANONICAL_NAN[dtype])
    if dtype is DType.FLOAT32:
        return np.where(is_nan(a), nan, a)
    if dtype is DType.BFLOAT16:
        return np.where(is_nan(a), nan, _halved(a, np.full(a.shape, 16)))
    sign, size = a >> np.uint64(16) & np.uint64(0x8000), a & MAGNITUDE
    small = size < 0x38800000
    down = np.where(small, 126 - (size >> np.uint64(23)).astype(np.int64), 13)
    hidden = np.where(down < 26, size & np.uint64(0x7FFFFF) | np.uint64(0x800000), ZERO)
    rounded = _halved(np.where(small, hidden, size - np.uint64(0x38000000)), np.minimum(down, 26))
    return np.where(is_nan(a), nan, sign | np.minimum(rounded, np.uint64(INFINITIES[dtype])))


def log2(x: Words) -> Numbers:
    """The position of the highest bit; 0 for 0."""
    n = np.zeros(x.shape, np.uint64)
    for width in (32, 16, 8, 4, 2, 1):
        n |= (x >> n >= np.uint64(1 << width)).astype(np.uint64) * np.uint64(width)
    return n.astype(np.int64)


def _parts(x: Words) -> tuple[Numbers, Words]:
    """k and m of a size m·2^(k - 149)."""
    k = (x >> np.uint64(23)) - (x > 0x7FFFFF).astype(np.uint64)
    return k.astype(np.int64), x - (k << np.uint64(23))


def _lifted(m: Words, k: Numbers, top: int = TOP) -> tuple[Words, Numbers]:
    """The same number with this highest bit."""
    up = top - log2(m)
    return m << up.astype(np.uint64), k - up


def _shifted(m: Words, down: Numbers) -> Words:
    return m >> np.clip(down, 0, 63).astype(np.uint64)


def _jammed(m: Words, down: Numbers) -> Words:
    """Shifted down; the lowest bit says whether anything fell off."""
    shifted = _shifted(m, down)
    lost = shifted << np.clip(down, 0, 63).astype(np.uint64) != m
    return np.asarray(shifted | lost.astype(np.uint64))


def _halved(m: Words, down: Numbers) -> Words:
    """m / 2^down to nearest even, for 1 <= down <= 63 and m < 2^63."""
    n = down.astype(np.uint64)
    one = np.uint64(1)
    return np.asarray(m + (one << n - one) - one + (m >> n & one) >> n)


def _rounded(sign: Words, m: Words, k: Numbers) -> Words:
    """The pattern nearest to m·2^(k - 149), ties to even; m has 24 bits, or all is below 2^-149.

    The lowest bit of m may stand for whatever is below it.
    """
    n = log2(m) - 23
    k = k + n
    n = np.where(k < 0, n - k, n)
    rounded = np.where(n > 63, ZERO, _halved(m, np.clip(n, 1, 63)))
    pattern = (np.maximum(k, 0).astype(np.uint64) << np.uint64(23)) + rounded
    return np.asarray(sign | np.minimum(pattern, INFINITY))


def _place(a: Words) -> Numbers:
    """A number's place in the order that has -0 below +0."""
    size = (a & MAGNITUDE).astype(np.int64)
    return np.where(a & SIGN != 0, ~size, size)


def _from_integer(source: DType, target: DType, a: Words) -> Words:
    """An integer that is not exact in float32 is infinite in float16: there two roundings are one."""
    width, is_signed = 8 * source.size, source.is_signed or source is DType.INDEX
    negative = (a >> np.uint64(width - 1) & np.uint64(is_signed)) != 0
    size = np.where(negative, (ZERO - a) & np.uint64((1 << width) - 1), a)
    fraction = 7 if target is DType.BFLOAT16 else 23
    n = log2(size)
    down = np.maximum(n - fraction, 0)
    kept = _jammed(size, np.where(n == 63, 1, 0))  # so that it has 63 bits
    rounded = np.where(down == 0, size, _halved(kept, np.maximum(down - (n == 63), 1)))
    rounded = np.where(n < fraction, size << np.maximum(fraction - n, 0).astype(np.uint64), rounded)
    pattern = np.where(size == 0, ZERO, rounded + ((n + 126).astype(np.uint64) << np.uint64(fraction)))
    sign = negative.astype(np.uint64)
    if target is DType.BFLOAT16:
        return np.asarray(sign << np.uint64(15) | pattern)
    return narrow(target, sign << np.uint64(31) | pattern)


def _to_integer(target: DType, a: Words) -> Words:
    """Towards zero, saturating, NaN to 0."""
    width = 8 * target.size
    exponent = (a >> np.uint64(23) & np.uint64(0xFF)).astype(np.int64)
    m, negative = a & np.uint64(0x7FFFFF) | np.uint64(0x800000), a & SIGN != 0
    size = np.where(exponent < 150, _shifted(m, 150 - exponent), m << np.clip(exponent - 150, 0, 40).astype(np.uint64))
    size = np.where(exponent < 127, ZERO, size)
    highest = np.uint64((1 << width - target.is_signed) - 1)
    lowest = np.uint64(1 << width - 1) if target.is_signed else ZERO  # as a size
    huge = exponent >= 127 + 64
    down = np.where(huge | (size > lowest), lowest, size)
    value = np.where(negative, ZERO - down, np.where(huge | (size > highest), highest, size))
    return np.where(is_nan(a), ZERO, value & np.uint64((1 << width) - 1))


ARITHMETIC: dict[str, Callable[..., Words]] = {
    "ADD": add,
    "SUB": subtract,
    "MUL": multiply,
    "DIV": divide,
    "MULACC": fused_multiply_add,
    "MAX": maximum,
    "MIN": minimum,
    "SQRT": square_root,
    "RECIPROCAL": reciprocal,
    "TRUNC": truncate,
}
ORDER: dict[str, Callable[..., NDArray[np.bool_]]] = {
    "CMPLT": less,
    "CMPNE": lambda a, b: ~equal(a, b),
    "CMPEQ": equal,
}
