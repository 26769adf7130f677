"""Interval arithmetic: which integers an operation can result in, given which its operands may be."""

from operator import lshift, rshift

from eigentensor.program.ops import DType, Op

#: Smallest and largest integer, both included.
Interval = tuple[int, int]

RANGES: dict[DType, Interval] = {DType.BOOL: (0, 1)} | {
    dtype: (-(1 << 8 * dtype.size - 1), (1 << 8 * dtype.size - 1) - 1)
    if dtype.is_signed
    else (0, (1 << 8 * dtype.size) - 1)
    for dtype in DType
    if dtype.is_integer
}
#: More than any index may be; what is known of an index of which nothing is known.
UNKNOWN: Interval = (-(1 << 64), 1 << 64)


def whole(dtype: DType) -> Interval:
    """Everything that a value of an integer type can be."""
    return RANGES.get(dtype, UNKNOWN)


def union(a: Interval, b: Interval) -> Interval:
    """The smallest interval around both, with what lies between them."""
    return min(a[0], b[0]), max(a[1], b[1])


def common(a: Interval, b: Interval) -> Interval:
    """The intersection; low > high if it is empty."""
    return max(a[0], b[0]), min(a[1], b[1])


def within(a: Interval, b: Interval) -> bool:
    """Whether all of `a` is in `b`."""
    return b[0] <= a[0] and a[1] <= b[1]


def transfer(op: Op, dtype: DType, *x: Interval) -> Interval:
    """Of an operation on integers, before it wraps; `whole(dtype)` where nothing better is known."""
    if dtype is DType.BOOL:
        return RANGES[DType.BOOL]
    if op is Op.ADD:
        return x[0][0] + x[1][0], x[0][1] + x[1][1]
    if op is Op.SUB:
        return x[0][0] - x[1][1], x[0][1] - x[1][0]
    if op is Op.MUL:
        return _corners([a * b for a in x[0] for b in x[1]])
    if op is Op.MAX:
        return max(x[0][0], x[1][0]), max(x[0][1], x[1][1])
    if op is Op.MIN:
        return min(x[0][0], x[1][0]), min(x[0][1], x[1][1])
    if op is Op.CAST:
        return x[0]
    if op is Op.WHERE:
        return union(x[1], x[2])
    if op in (Op.FLOORDIV, Op.CDIV):
        return _quotient(op, *x)
    if op in (Op.FLOORMOD, Op.CMOD):
        return _remainder(op, *x)
    if op in (Op.AND, Op.OR, Op.XOR):
        return _bits(op, *x)
    if op in (Op.SHL, Op.SHR) and within(x[1], (0, 64)):
        shift = lshift if op is Op.SHL else rshift
        return _corners([shift(a, b) for a in x[0] for b in x[1]])
    return whole(dtype)


def _corners(values: list[int]) -> Interval:
    return min(values), max(values)


def _quotient(op: Op, a: Interval, b: Interval) -> Interval:
    if b[0] <= 0 <= b[1]:
        most = max(abs(a[0]), abs(a[1]))
        return -most, most
    if op is Op.FLOORDIV:
        return _corners([n // d for n in a for d in b])
    return _corners([(abs(n) // abs(d)) * (1 if (n < 0) == (d < 0) else -1) for n in (*a, *_zero(a)) for d in b])


def _zero(a: Interval) -> tuple[int, ...]:
    return (0,) if a[0] < 0 < a[1] else ()


def _remainder(op: Op, a: Interval, b: Interval) -> Interval:
    largest = max(abs(a[0]), abs(a[1]))
    if b[0] <= 0 <= b[1]:  # x % 0 = x
        most = max(largest, abs(b[0]), abs(b[1]))
        return -most, most
    if op is Op.FLOORMOD:
        if b[0] > 0:
            return a if within(a, (0, b[0] - 1)) else (0, b[1] - 1)
        return b[0] + 1, 0
    most = min(largest, max(abs(b[0]), abs(b[1])) - 1)
    return 0 if a[0] >= 0 else -most, 0 if a[1] <= 0 else most


def _bits(op: Op, a: Interval, b: Interval) -> Interval:
    if op is Op.AND and (a[0] >= 0 or b[0] >= 0):
        return 0, min(x[1] for x in (a, b) if x[0] >= 0)
    # in two's complement ~x has the length of x: no result has bits beyond the longest operand's
    length = max((x if x >= 0 else ~x).bit_length() for x in (*a, *b))
    if a[0] >= 0 and b[0] >= 0:
        return max(a[0], b[0]) if op is Op.OR else 0, (1 << length) - 1
    return -(1 << length), (1 << length) - 1
