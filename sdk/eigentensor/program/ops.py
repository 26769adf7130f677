"""Operations of the format, with their codes (sdk/README.md)."""

from enum import IntEnum

from eigentensor.numerics.dtypes import DType

__all__ = ["ARITY", "COMPARISONS", "NO_GUARD", "REDUCTIONS", "DType", "Op"]


class Op(IntEnum):
    """Operations of an instruction, and why each is one. Codes that are missing are reserved."""

    # leaves
    CONST = 1  # 32 bits stand in the instruction; what needs more is composed of two
    RANGE = 2  # a counter: what lies where follows from loops, so that bounds can be proven
    VAR = 3  # bound by the order: one program serves every position of a sequence
    LOAD = 4  # the only way to data; a guard makes it +0, which is padding without a branch
    # reductions: operand c names the reduction
    REDUCE_ADD = 8  # floats do not add up alike in every order: the program fixes one
    REDUCE_MUL = 9  # in order, as sums are
    REDUCE_MAX = 10  # any order gives the same bits, since NaN wins and −0 < +0
    REDUCE_MIN = 11  # as the maximum
    REDUCE_MULACC = 12  # one rounding a term: the sum of products that processors have an instruction for
    # arithmetic
    ADD = 16  # of bools it is "or", as tinygrad and NumPy have it
    SUB = 17  # not of bools: there is no −1
    MUL = 18  # of bools it is "and"
    DIV = 19  # correctly rounded, as x · (1/y) would not be
    MULACC = 20  # named, never inferred: a compiler that contracts a·b + c changes bits
    MAX = 21  # not a WHERE over CMPLT, which would choose by order where there is a NaN or −0
    MIN = 22  # as MAX
    SQRT = 24  # IEEE 754 rounds it correctly everywhere; exp and its like it does not, so these are composed
    RECIPROCAL = 25  # 1 / x in one step, as front ends write it
    TRUNC = 26  # floor, ceil and rounding are composed of it
    # integer division
    CDIV = 28  # towards zero, as C and ONNX divide
    CMOD = 29  # a − CDIV · b, so x % 0 is x
    FLOORDIV = 30  # towards −∞, as indices divide: row and column of a flat element
    FLOORMOD = 31  # never negative for a positive divisor: intervals of indices stay exact
    # bits
    AND = 32  # of guards, too: a conjunction is a list of facts
    OR = 33
    XOR = 34  # hashes and random numbers
    SHL = 35  # a distance of the width or more gives 0, where C leaves it open
    SHR = 36  # keeps the sign of signed types
    # choice
    CMPLT = 40  # the one order; a > b is it turned round, a ≤ b it or CMPEQ
    CMPNE = 41  # true of NaN: a value differs from itself there
    CMPEQ = 42  # false of NaN; −0 is 0
    WHERE = 43  # both sides are computed: a body has no branches, and each of its steps the same cone
    # types
    CAST = 44  # one rounding; floats saturate, since C leaves what does not fit open
    BITCAST = 45  # sees which NaN it is: there is one of each type before and after

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
