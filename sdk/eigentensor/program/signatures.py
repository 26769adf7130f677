"""Which operations take which types: the table of operations of sdk/README.md, column by column."""

from collections.abc import Sequence

from eigentensor.numerics.dtypes import FLOATS
from eigentensor.program.ops import COMPARISONS, DType, Op

ALL = frozenset(DType)
INTEGERS = frozenset(dtype for dtype in DType if dtype.is_integer)
STORED = ALL - {DType.INDEX}

#: Operations whose operands have one type, and the types it may be. All but comparisons also result in it.
UNIFORM: dict[Op, frozenset[DType]] = {
    Op.REDUCE_ADD: STORED, Op.REDUCE_MUL: STORED, Op.REDUCE_MAX: STORED, Op.REDUCE_MIN: STORED,
    Op.REDUCE_MULACC: frozenset({DType.FLOAT32}), Op.MULACC: frozenset({DType.FLOAT32}),
    Op.ADD: ALL, Op.SUB: ALL - {DType.BOOL}, Op.MUL: ALL, Op.DIV: FLOATS, Op.MAX: ALL, Op.MIN: ALL,
    Op.SQRT: FLOATS, Op.RECIPROCAL: FLOATS, Op.TRUNC: FLOATS,
    Op.CDIV: INTEGERS | {DType.INDEX}, Op.CMOD: INTEGERS | {DType.INDEX},
    Op.FLOORDIV: INTEGERS | {DType.INDEX}, Op.FLOORMOD: INTEGERS | {DType.INDEX},
    Op.AND: INTEGERS | {DType.BOOL, DType.INDEX}, Op.OR: INTEGERS | {DType.BOOL, DType.INDEX},
    Op.XOR: INTEGERS | {DType.BOOL}, Op.SHL: INTEGERS, Op.SHR: INTEGERS,
    Op.CMPLT: ALL, Op.CMPNE: ALL, Op.CMPEQ: ALL,
}  # fmt: skip


def mismatch(op: Op, dtype: DType, operands: Sequence[DType]) -> str:
    """What does not fit between an operation, its dtype and those of its operands; empty if all fits.

    The dtype of a LOAD is compared with its parameter elsewhere.
    """
    if op is Op.CONST:
        return ""
    if op in (Op.RANGE, Op.VAR):
        return "" if dtype is DType.INDEX else f"is an index, not {_name(dtype)}"
    if op is Op.LOAD:
        wanted = (DType.INDEX, DType.BOOL)[: len(operands)]
        return "" if tuple(operands) == wanted else f"takes an index and a bool guard, not {_names(operands)}"
    if op is Op.WHERE:
        return "" if tuple(operands) == (DType.BOOL, dtype, dtype) else f"chooses {_names(operands)} for {_name(dtype)}"
    if op is Op.CAST:
        forbidden = dtype is DType.INDEX and operands[0].is_float
        return "a float is never cast to an index" if forbidden else ""
    if op is Op.BITCAST:
        fits = operands[0].size == dtype.size and not {dtype, operands[0]} & {DType.BOOL, DType.INDEX}
        return "" if fits else f"{_name(operands[0])} has not the bits of {_name(dtype)}"
    if any(operand is not operands[0] for operand in operands):
        return f"operands of different types: {_names(operands)}"
    if operands[0] not in UNIFORM[op]:
        return f"not defined on {_name(operands[0])}"
    result = DType.BOOL if op in COMPARISONS else operands[0]
    return "" if dtype is result else f"results in {_name(result)}, not {_name(dtype)}"


def _name(dtype: DType) -> str:
    return dtype.name.lower()


def _names(dtypes: Sequence[DType]) -> str:
    return ", ".join(map(_name, dtypes))
