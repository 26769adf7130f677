"""A second opinion on the operations, one value at a time, in whole numbers only: nothing here adds two floats.

Values are patterns: the bits of an element as an unsigned integer. Tests compare `operations` and `conversion` with it,
and the vectors that the contracts read are its answers.
"""

from collections.abc import Callable
from fractions import Fraction
from math import isqrt
from typing import NamedTuple

from eigentensor.numerics.dtypes import CANONICAL_NAN, INFINITY, DType

#: Bits of the fraction; the exponent of the smallest normal number.
FRACTION = {DType.FLOAT16: 10, DType.BFLOAT16: 7, DType.FLOAT32: 23}
SMALLEST = {DType.FLOAT16: -14, DType.BFLOAT16: -126, DType.FLOAT32: -126}
FLOAT32 = DType.FLOAT32


class Real(NamedTuple):
    """A float: sign, and magnitude; None is infinite. NaN is None in place of the whole."""

    negative: bool
    size: Fraction | None

    @property
    def value(self) -> Fraction:
        """The rational number; only of what is finite."""
        assert self.size is not None
        return -self.size if self.negative else self.size


def real(dtype: DType, pattern: int) -> Real | None:
    """The float with these bits."""
    negative, rest = divmod(pattern, 1 << 8 * dtype.size - 1)
    if rest >= INFINITY[dtype]:
        return Real(bool(negative), None) if rest == INFINITY[dtype] else None
    exponent, fraction = divmod(rest, 1 << FRACTION[dtype])
    hidden = 1 << FRACTION[dtype] if exponent else 0
    return Real(bool(negative), (fraction + hidden) * _power(max(exponent, 1) - 1 + SMALLEST[dtype] - FRACTION[dtype]))


def rounded(dtype: DType, number: Real | None) -> int:
    """The bits of the nearest float, ties to even."""
    if number is None:
        return CANONICAL_NAN[dtype]
    sign = number.negative << 8 * dtype.size - 1
    if number.size is None:
        return sign | INFINITY[dtype]
    if not number.size:
        return sign
    exponent = number.size.numerator.bit_length() - number.size.denominator.bit_length()
    # Lengths give the exponent or one more. Below the smallest, the fraction shrinks instead: subnormal numbers.
    exponent = max(exponent if number.size >= _power(exponent) else exponent - 1, SMALLEST[dtype])
    units = round(number.size / _power(exponent - FRACTION[dtype]))  # a Fraction is rounded half to even
    # A fraction that is rounded up to 2 carries into the exponent, and from the largest number to infinity.
    return sign | min((exponent - SMALLEST[dtype] << FRACTION[dtype]) + units, INFINITY[dtype])


def _power(exponent: int) -> Fraction:
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def integer(dtype: DType, pattern: int) -> int:
    """The integer (or bool as 0 or 1) with these bits."""
    width = 8 * dtype.size
    return pattern - (1 << width) if (dtype.is_signed or dtype is DType.INDEX) and pattern >> width - 1 else pattern


def cast(source: DType, target: DType, pattern: int) -> int:
    """The pattern of a value in another type: floats to integers truncate and saturate (NaN is 0), integers wrap,
    floats round to nearest even; to bool, everything but zero is true."""
    if source.is_float:
        number = real(source, pattern)
        if target.is_float:
            return rounded(target, number)
        if target is DType.BOOL:
            return int(number is None or number.size != 0)
        return _saturated(target, number)
    value = integer(source, pattern)
    if target.is_float:
        return rounded(target, Real(value < 0, Fraction(abs(value))))
    return int(value != 0) if target is DType.BOOL else _wrapped(target, value)


def bitcast(source: DType, target: DType, pattern: int) -> int:
    """The same bits in another type, but that a NaN, before or after, is the canonical one."""
    for dtype in (source, target):
        if dtype.is_float and real(dtype, pattern) is None:
            pattern = CANONICAL_NAN[dtype]
    return pattern


def evaluate(name: str, dtype: DType, *operands: int) -> int:
    """The bits of the result of an operation (not CAST, BITCAST) on operands of this type."""
    if name == "WHERE":
        return operands[1] if operands[0] else operands[2]
    if not dtype.is_float:
        return _evaluate_integer(name, dtype, *(integer(dtype, pattern) for pattern in operands))
    numbers = [real(dtype, pattern) for pattern in operands]
    if name in ("CMPLT", "CMPNE", "CMPEQ"):
        return int(_compare(name, *numbers))
    if any(number is None for number in numbers):
        return CANONICAL_NAN[dtype]
    result = OF_FLOATS[name](*(number for number in numbers if number is not None))
    # half types: rounded to float32, then once more
    return rounded(dtype, real(FLOAT32, rounded(FLOAT32, result)))


def _wrapped(dtype: DType, value: int) -> int:
    return value & (1 << 8 * dtype.size) - 1


def _saturated(dtype: DType, number: Real | None) -> int:
    low = -(1 << 8 * dtype.size - 1) if dtype.is_signed else 0
    high = (1 << 8 * dtype.size) - 1 + low
    if number is None:
        return 0
    if number.size is None:
        return _wrapped(dtype, low if number.negative else high)
    return _wrapped(dtype, min(max(int(number.value), low), high))


def _compare(name: str, a: Real | None, b: Real | None) -> bool:
    if a is None or b is None:
        return name == "CMPNE"
    first, second = _order(a)[:2], _order(b)[:2]
    return {"CMPLT": first < second, "CMPEQ": first == second, "CMPNE": first != second}[name]


def _order(number: Real) -> tuple[int, Fraction, bool]:
    """A key that orders floats; the last part puts -0 before +0."""
    if number.size is None:
        return -1 if number.negative else 1, Fraction(0), not number.negative
    return 0, number.value, not number.negative


def _add(a: Real, b: Real) -> Real | None:
    if a.size is None or b.size is None:
        infinite = [number for number in (a, b) if number.size is None]
        return infinite[0] if all(number == infinite[0] for number in infinite) else None
    total = a.value + b.value
    # A zero is −0 only as the sum of two −0: IEEE 754, rounding to nearest.
    return Real(total < 0 if total else a.negative and b.negative, abs(total))


def _multiply(a: Real, b: Real) -> Real | None:
    negative = a.negative != b.negative
    if a.size is None or b.size is None:
        return None if 0 in (a.size, b.size) else Real(negative, None)
    return Real(negative, a.size * b.size)


def _divide(a: Real, b: Real) -> Real | None:
    if b.size is None:
        return None if a.size is None else Real(a.negative != b.negative, Fraction(0))
    return _multiply(a, Real(b.negative, 1 / b.size) if b.size else Real(b.negative, None))


def _fused(a: Real, b: Real, c: Real) -> Real | None:
    product = _multiply(a, b)
    return None if product is None else _add(product, c)


def _square_root(a: Real) -> Real | None:
    if a.negative or not a.size:
        return a if a.size == 0 or not a.negative else None
    # √(n/d) is √(n·d)/d, with 64 bits behind the point: more than any float here keeps
    square = a.size.numerator * a.size.denominator << 128
    root = isqrt(square)
    # twice the root plus one if there is a rest: on the right side of every tie
    return Real(False, Fraction(2 * root + (root * root != square), a.size.denominator << 65))


def _truncate(a: Real) -> Real:
    return a if a.size is None else Real(a.negative, Fraction(int(a.size)))


OF_FLOATS: dict[str, Callable[..., Real | None]] = {
    "ADD": _add,
    "SUB": lambda a, b: _add(a, Real(not b.negative, b.size)),
    "MUL": _multiply,
    "DIV": _divide,
    "MULACC": _fused,
    "MAX": lambda a, b: max(a, b, key=_order),
    "MIN": lambda a, b: min(a, b, key=_order),
    "SQRT": _square_root,
    "RECIPROCAL": lambda a: _divide(Real(False, Fraction(1)), a),
    "TRUNC": _truncate,
}


def _evaluate_integer(name: str, dtype: DType, a: int, b: int) -> int:
    if dtype is DType.BOOL:
        name = {"ADD": "OR", "MUL": "AND", "MAX": "OR", "MIN": "AND"}.get(name, name)
    if name in ("CMPLT", "CMPNE", "CMPEQ"):
        return int({"CMPLT": a < b, "CMPNE": a != b, "CMPEQ": a == b}[name])
    return _wrapped(dtype, OF_INTEGERS[name](a, b, 8 * dtype.size))


def _towards_zero(a: int, b: int) -> int:
    return 0 if not b else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _distance(b: int, width: int) -> int:
    return min(b % (1 << width), width)


OF_INTEGERS: dict[str, Callable[[int, int, int], int]] = {
    "ADD": lambda a, b, _: a + b,
    "SUB": lambda a, b, _: a - b,
    "MUL": lambda a, b, _: a * b,
    "MAX": lambda a, b, _: max(a, b),
    "MIN": lambda a, b, _: min(a, b),
    "CDIV": lambda a, b, _: _towards_zero(a, b),
    "CMOD": lambda a, b, _: a - _towards_zero(a, b) * b,
    "FLOORDIV": lambda a, b, _: a // b if b else 0,
    "FLOORMOD": lambda a, b, _: a % b if b else a,
    "AND": lambda a, b, _: a & b,
    "OR": lambda a, b, _: a | b,
    "XOR": lambda a, b, _: a ^ b,
    "SHL": lambda a, b, width: a << _distance(b, width),
    "SHR": lambda a, b, width: a >> _distance(b, width),
}
