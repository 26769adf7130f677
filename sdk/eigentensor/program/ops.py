"""Operations of the format, with their codes (sdk/README.md)."""

from enum import IntEnum

from eigentensor.numerics.dtypes import DType

__all__ = ["ARITY", "COMPARISONS", "NO_GUARD", "REDUCTIONS", "DType", "Op"]


class Op(IntEnum):
    """Operations of an instruction."""

    # leaves
    CONST = 1
    RANGE = 2
    VAR = 3
    LOAD = 4
    # reductions: operand c names the reduction
    REDUCE_ADD = 8
    REDUCE_MUL = 9
    REDUCE_MAX = 10
    REDUCE_MIN = 11
    REDUCE_MULACC = 12
    # arithmetic
    ADD = 16
    SUB = 17
    MUL = 18
    DIV = 19
    MULACC = 20
    MAX = 21
    MIN = 22
    SQRT = 24
    RECIPROCAL = 25
    TRUNC = 26
    # integer division
    CDIV = 28
    CMOD = 29
    FLOORDIV = 30
    FLOORMOD = 31
    # bits
    AND = 32
    OR = 33
    XOR = 34
    SHL = 35
    SHR = 36
    # choice
    CMPLT = 40
    CMPNE = 41
    CMPEQ = 42
    WHERE = 43
    # types
    CAST = 44
    BITCAST = 45

    __hash__ = int.__hash__


REDUCTIONS = frozenset({Op.REDUCE_ADD, Op.REDUCE_MUL, Op.REDUCE_MAX, Op.REDUCE_MIN, Op.REDUCE_MULACC})
COMPARISONS = frozenset({Op.CMPLT, Op.CMPNE, Op.CMPEQ})

#: How many of the operands a, b, c are values (instruction numbers). LOAD is 1 or 2: element and guard, in b and c.
ARITY = {
    Op.CONST: 0, Op.RANGE: 0, Op.VAR: 0,
    Op.REDUCE_ADD: 1, Op.REDUCE_MUL: 1, Op.REDUCE_MAX: 1, Op.REDUCE_MIN: 1, Op.REDUCE_MULACC: 2,
    Op.ADD: 2, Op.SUB: 2, Op.MUL: 2, Op.DIV: 2, Op.MULACC: 3, Op.MAX: 2, Op.MIN: 2,
    Op.SQRT: 1, Op.RECIPROCAL: 1, Op.TRUNC: 1,
    Op.CDIV: 2, Op.CMOD: 2, Op.FLOORDIV: 2, Op.FLOORMOD: 2,
    Op.AND: 2, Op.OR: 2, Op.XOR: 2, Op.SHL: 2, Op.SHR: 2,
    Op.CMPLT: 2, Op.CMPNE: 2, Op.CMPEQ: 2, Op.WHERE: 3, Op.CAST: 1, Op.BITCAST: 1,
}  # fmt: skip
NO_GUARD = 0xFFFF
