"""Programs on values where processors differ: NaN, subnormal numbers, conversions out of range, products with a sum."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from eigentensor.numerics.dtypes import CANONICAL_NAN, INFINITY, DType
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Axis, Node, binary, const, counter, load, node, reduction, to_body
from eigentensor.program.model import Buffer, Kind, Role
from eigentensor.program.ops import Op
from eigentensor.program.signatures import INTEGERS
from support.generated.edges import edges, held
from support.generated.programs import Example

F32, INDEX = DType.FLOAT32, DType.INDEX
FLOATS = (DType.FLOAT16, DType.BFLOAT16, F32)
BITS = {1: DType.UINT8, 2: DType.UINT16, 4: DType.UINT32, 8: DType.UINT64}
#: More than the lanes of any vector.
FEWEST = 32
#: Pairs of patterns, repeated to be as many: what computes NaN is compiled once with what computes subnormal numbers.
PAIRS = 26**2


def nans() -> Example:
    """What every operation makes of NaN with any payload and sign, quiet and signalling, and what makes one anew: in
    memory, and as a pattern while it is in a register."""
    return _example(_arithmetic(dtype, _special(dtype)) for dtype in FLOATS)


def subnormals() -> Example:
    """Operands and results that are subnormal, or nearly, in float32 and in the half types."""
    return _example(_arithmetic(dtype, _small(dtype)) for dtype in FLOATS)


def saturation() -> Example:
    """Floats to integers of every type at the limits of each, beyond them and at NaN; integers to floats and to each
    other."""
    return _example(_conversions(dtype) for dtype in (*FLOATS, *sorted(INTEGERS)))


def fused() -> Example:
    """Sums of products with one rounding and with two, elements by themselves and in reductions."""
    random, steps = np.random.default_rng(7), 19
    a, b, c = (random.standard_normal(FEWEST * steps, dtype=np.float32) for _ in range(3))
    c = (-a * b + c * np.float32(1e-7)).astype(np.float32)  # what is left of a product is what was rounded away
    row, step = Axis(0, FEWEST), Axis(1, steps, True)
    place = binary(Op.ADD, binary(Op.MUL, counter(row), const(INDEX, steps)), counter(step))
    x, y, z = (load(Array(name, F32, a.size), counter(Axis(0, a.size))) for name in "abc")
    p, q = (load(Array(name, F32, a.size), place) for name in "ab")
    values = {
        "fused": (node(Op.MULACC, F32, x, y, z), Axis(0, a.size)),
        "rounded": (binary(Op.ADD, binary(Op.MUL, x, y), z), Axis(0, a.size)),
        "differences": (binary(Op.SUB, binary(Op.MUL, x, y), binary(Op.MUL, z, y)), Axis(0, a.size)),
        "fused_sums": (reduction(Op.REDUCE_MULACC, (step,), p, q), row),
        "rounded_sums": (reduction(Op.REDUCE_ADD, (step,), binary(Op.MUL, p, q)), row),
    }
    return _example([(values, {"a": (F32, a), "b": (F32, b), "c": (F32, c)})])


Values = Mapping[str, tuple[Node, Axis]]
Inputs = Mapping[str, tuple[DType, np.ndarray]]


def _example(parts: "Iterator[tuple[Values, Inputs]] | Sequence[tuple[Values, Inputs]]") -> Example:
    """A call for each value."""
    made = list(parts)
    values = {key: value for of, _ in made for key, value in of.items()}
    inputs = {key: value for _, of in made for key, value in of.items()}
    buffers = {key: Buffer(Role.INPUT, dtype, array.shape, key) for key, (dtype, array) in inputs.items()}
    calls = [(key, to_body(value, (axis,))) for key, (value, axis) in values.items()]
    results = {(Kind.OUTPUT, key): (key, (axis.extent,)) for key, (_, axis) in values.items()}
    return Example(assemble(calls, buffers, results), {key: array for key, (_, array) in inputs.items()}, {}, 1)


def _arithmetic(dtype: DType, patterns: Sequence[int]) -> tuple[Values, Inputs]:
    """Every operation on all pairs of these patterns, and every conversion of them to a float."""
    assert len(patterns) ** 2 <= PAIRS
    pairs = np.resize(np.array(list(product(patterns, patterns))), (PAIRS, 2))
    name, axis = dtype.name.lower(), Axis(0, PAIRS)
    inputs = {f"{name}_{side}": (dtype, held(dtype, pairs[:, n].tolist())) for n, side in enumerate("ab")}
    a, b = (load(Array(key, dtype, axis.extent), counter(axis)) for key in inputs)
    made = {op.name: binary(op, a, b) for op in (Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MAX, Op.MIN)}
    made |= {op.name: node(op, dtype, a) for op in (Op.SQRT, Op.RECIPROCAL, Op.TRUNC)}
    made |= {f"to_{target.name}": node(Op.CAST, target, a) for target in FLOATS}
    made |= {op.name: binary(op, a, b) for op in (Op.CMPLT, Op.CMPEQ, Op.CMPNE)}
    if dtype is F32:
        made["MULACC"] = node(Op.MULACC, dtype, a, b, a)
    made |= {f"{key}_bits": node(Op.BITCAST, BITS[v.dtype.size], v) for key, v in made.items() if v.dtype.is_float}
    return {f"{name}_{key}": (value, axis) for key, value in made.items()}, inputs


def _conversions(dtype: DType) -> tuple[Values, Inputs]:
    patterns = edges(dtype)
    if dtype.is_float:
        limits = [
            s * 2.0**k * (1 + d) for k in (7, 8, 15, 16, 31, 32, 63, 64) for s in (1, -1) for d in (-1e-2, 0, 1e-2)
        ]
        with np.errstate(over="ignore"):
            near = np.array(limits, np.float32)
            kept = near.astype(np.float16).view(np.uint16) if dtype is DType.FLOAT16 else near.view(np.uint32)
        patterns = [*patterns, *(kept >> 16 if dtype is DType.BFLOAT16 else kept).tolist()]
    name, axis = dtype.name.lower(), Axis(0, max(FEWEST, len(patterns)))
    array = np.resize(held(dtype, patterns), axis.extent)
    x = load(Array(name, dtype, axis.extent), counter(axis))
    targets = sorted(INTEGERS | set(FLOATS) - {dtype})
    return {f"{name}_to_{t.name}": (node(Op.CAST, t, x), axis) for t in targets}, {name: (dtype, array)}


def _special(dtype: DType) -> list[int]:
    """NaN, infinities and what makes one of them a NaN."""
    infinity, sign = INFINITY[dtype], 1 << 8 * dtype.size - 1
    quiet = CANONICAL_NAN[dtype]
    sizes = [0, infinity, infinity + 1, quiet - 1, quiet, quiet + 1, sign - 1, infinity // 2]
    return [size | s for size in sizes for s in (0, sign)]


def _small(dtype: DType) -> list[int]:
    """The smallest subnormal numbers, those around the smallest normal one, and what makes others subnormal."""
    infinity, sign = INFINITY[dtype], 1 << 8 * dtype.size - 1
    least = infinity & -infinity
    one = infinity // 2 // least * least
    sizes = [0, 1, 2, 3, least // 2, least - 1, least, least + 1, 2 * least + 1, one // 2, one - least, one, one + 1]
    return [size | s for size in sizes for s in (0, sign)]
