"""One instruction as C: the text of its value from the texts of its operands, with the functions of semantics.h."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from eigentensor.numerics.dtypes import INFINITY, DType
from eigentensor.numerics.floats import widen
from eigentensor.numerics.operations import from_pattern
from eigentensor.program.model import Instruction
from eigentensor.program.ops import COMPARISONS, Op
from eigentensor.runtime.bodies.analysis import Analysis

#: What holds a value in a register, and the suffix of the functions that lead it from and to memory.
REGISTER = {
    DType.BOOL: "b", DType.INT8: "i8", DType.INT16: "i16", DType.INT32: "i32", DType.INT64: "i64",
    DType.UINT8: "u8", DType.UINT16: "u16", DType.UINT32: "u32", DType.UINT64: "u64",
    DType.FLOAT16: "f32", DType.BFLOAT16: "f32", DType.FLOAT32: "f32", DType.INDEX: "ix",
}  # fmt: skip
MEMORY = REGISTER | {DType.FLOAT16: "f16", DType.BFLOAT16: "bf16"}
STORED = REGISTER | {DType.BOOL: "u8", DType.FLOAT16: "u16", DType.BFLOAT16: "u16"}

OPERATORS = {Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.DIV: "/", Op.AND: "&", Op.OR: "|", Op.XOR: "^"}
OF_BOOLS = OPERATORS | {Op.ADD: "|", Op.MUL: "&", Op.MAX: "|", Op.MIN: "&", Op.CMPNE: "^"}
FUNCTIONS = {
    Op.MULACC: "mulacc", Op.MAX: "maximum", Op.MIN: "minimum", Op.SQRT: "root", Op.TRUNC: "truncate",
    Op.CDIV: "cdiv", Op.CMOD: "cmod", Op.FLOORDIV: "floordiv", Op.FLOORMOD: "floormod", Op.SHL: "shl", Op.SHR: "shr",
    Op.CMPLT: "lt", Op.CMPNE: "ne", Op.CMPEQ: "eq", Op.WHERE: "choose",
}  # fmt: skip
WRAPPING = frozenset({Op.ADD, Op.SUB, Op.MUL})
EXACT = frozenset({Op.MAX, Op.MIN, Op.TRUNC, Op.WHERE})  #: operations on half types that never need a rounding
STEP = {
    Op.REDUCE_ADD: Op.ADD, Op.REDUCE_MUL: Op.MUL, Op.REDUCE_MAX: Op.MAX, Op.REDUCE_MIN: Op.MIN,
    Op.REDUCE_MULACC: Op.MULACC,
}  # fmt: skip


class Text:
    """Lines of C, indented."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0

    def line(self, text: str) -> None:
        """One line at the depth of the block that it stands in."""
        self.lines.append("  " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Braces around what is written inside, after a head such as a for; without a head a scope of its own."""
        self.line(f"{head} {{".lstrip())
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    def __str__(self) -> str:
        return "\n".join(self.lines) + "\n"


def register(dtype: DType, vector: bool) -> str:
    """The C type of a value. For indices `ix` and, for vectors of them, `xv` are chosen with the schedule."""
    if not vector:
        return REGISTER[dtype]
    return "xv" if dtype is DType.INDEX else f"{REGISTER[dtype]}v"


def literal(instruction: Instruction) -> str:
    """A CONST as a C expression."""
    dtype = instruction.dtype
    if dtype.is_float:
        return _float(dtype, instruction.immediate)
    return _integer(dtype, instruction.integer)


def identity(op: Op, dtype: DType) -> str:
    """Where a reduction starts, as a C expression."""
    lowest = op is Op.REDUCE_MAX
    if dtype is DType.BOOL:
        return "(b)-1" if op in (Op.REDUCE_MUL, Op.REDUCE_MIN) else "(b)0"
    if op in (Op.REDUCE_ADD, Op.REDUCE_MULACC, Op.REDUCE_MUL):
        return f"({REGISTER[dtype]}){int(op is Op.REDUCE_MUL)}"
    if dtype.is_float:
        return _float(dtype, INFINITY[dtype] | (lowest << 8 * dtype.size - 1))
    bits = 8 * dtype.size - dtype.is_signed
    return _integer(dtype, (-(1 << bits) if dtype.is_signed else 0) if lowest else (1 << bits) - 1)


def applied(analysis: Analysis, instruction: Instruction, a: list[str], vector: bool) -> str:
    """An instruction of a body on operands, with what is known of their values: `apply` where nothing is."""
    source = analysis.body.instructions[instruction.values[-1]].dtype
    bounds = [analysis.intervals[v] for v in instruction.values]
    natural = len(bounds) == 2 and bounds[0][0] >= 0 and bounds[1][0] > 0
    by_bits = analysis.chooses_zeros
    return apply(instruction.op, instruction.dtype, source, a, vector, natural=natural, by_bits=by_bits)


def apply(
    op: Op, dtype: DType, source: DType, a: list[str], vector: bool, *, natural: bool = False, by_bits: bool = False
) -> str:
    """An operation on operands of the type `source` with a result of the type `dtype`, for one value or for vectors.

    `natural` says that a division has a divisor above 0 and no negative dividend, `by_bits` that no comparison of
    floats may be left to the compiler.
    """
    if by_bits and op in COMPARISONS and source.is_float:
        return f"{FUNCTIONS[op]}_by_bits({', '.join(a)})"
    if op is Op.CAST:
        return _cast(source, dtype, a[0], vector)
    if op is Op.BITCAST:
        return _bitcast(source, dtype, a[0], vector)
    if source is DType.BOOL and op is Op.CMPLT:
        return f"~{a[0]} & {a[1]}"
    if source is DType.BOOL and op is Op.CMPEQ:
        return f"~({a[0]} ^ {a[1]})"
    if op is Op.RECIPROCAL:
        return rounded(dtype, f"{'(f32v)' if vector else ''}1.0f / {a[0]}")
    if natural and op in (Op.CDIV, Op.FLOORDIV, Op.CMOD, Op.FLOORMOD):
        return f"{a[0]} {'/' if op in (Op.CDIV, Op.FLOORDIV) else '%'} {a[1]}"
    operators = OF_BOOLS if source is DType.BOOL else OPERATORS
    if op in WRAPPING and source.is_integer and not vector:  # C leaves an overflow of what is signed undefined
        wide = "u64" if source.size == 8 else "u32"
        return f"({REGISTER[dtype]})(({wide}){a[0]} {operators[op]} ({wide}){a[1]})"
    if op in operators:
        return rounded(dtype, f"{a[0]} {operators[op]} {a[1]}")
    text = f"{FUNCTIONS[op]}({', '.join(a)})"
    return text if op in EXACT else rounded(dtype, text)


def rounded(dtype: DType, text: str) -> str:
    """A float32 result rounded to a half type; other types have nothing to round."""
    return f"round_{MEMORY[dtype]}({text})" if dtype in (DType.FLOAT16, DType.BFLOAT16) else text


def _convert(dtype: DType, a: str, vector: bool) -> str:
    if vector:
        return f"__builtin_convertvector({a}, {register(dtype, vector)})"
    return f"({REGISTER[dtype]})({a})"


def _cast(source: DType, target: DType, a: str, vector: bool) -> str:
    if source is DType.BOOL:
        return a if target is DType.BOOL else _convert(target, f"{a} & 1", vector)
    if target is DType.BOOL:
        return f"ne({a}, ({register(source, vector)})0)"
    if source.is_float:
        return rounded(target, a) if target.is_float else f"f32_to_{REGISTER[target]}({a})"
    if target is DType.BFLOAT16 and source.size > 2:
        wide = DType.INT64 if source.is_signed or source is DType.INDEX else DType.UINT64
        return f"{REGISTER[wide]}_to_bf16({_convert(wide, a, vector)})"
    if vector and target.is_float and source.size == 8:
        return rounded(target, f"to_f32({a})")
    return rounded(target, _convert(target, a, vector))


def _bitcast(source: DType, target: DType, a: str, vector: bool) -> str:
    unsigned = {2: DType.UINT8, 3: DType.UINT16, 4: DType.UINT32, 5: DType.UINT64}.get(source, source)
    bits = f"bits_{MEMORY[source]}({a})" if source.is_float else _convert(unsigned, a, vector)
    if target is DType.FLOAT32:
        return f"as_f32({bits})"
    return f"from_{MEMORY[target]}({bits})" if target.is_float else _convert(target, bits, vector)


def _float(dtype: DType, pattern: int) -> str:
    value = widen(dtype, np.atleast_1d(from_pattern(dtype, pattern)))
    return f"as_f32(0x{int(value.view(np.uint32)[0]):08x}u)"


def _integer(dtype: DType, value: int) -> str:
    if dtype is DType.BOOL:
        return f"(b){-value}"
    # no negative literals in C: the smallest int64 would be the negation of a number that is too large
    text = f"{value}{'u' if value >> 63 == 1 else ''}" if value > -(1 << 63) else "-9223372036854775807 - 1"
    return f"({REGISTER[dtype]})({text})"
