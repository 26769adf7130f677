"""What a device must pass before its operator accepts tasks: every operation on every type, at the values that matter.

One program, the same on every device, is executed and held to the reference. Subnormal operands and results show a
processor that flushes them to zero; sums that depend on their order show a compiler that changes it; choices by what is
compared or loaded show a bool whose bits are not all alike, which a result that is stored as a bool hides.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from functools import cache
from functools import reduce as fold
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor import reference
from eigentensor.errors import ExecutionError
from eigentensor.numerics.dtypes import CANONICAL_NAN, INFINITY, DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.assemble import assemble
from eigentensor.program.binding import Results
from eigentensor.program.expression import (
    Array,
    Axis,
    Lowered,
    Node,
    binary,
    const,
    counter,
    load,
    node,
    reduction,
    to_body,
)
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.program.ops import COMPARISONS, REDUCTIONS, Op
from eigentensor.program.signatures import STORED, UNIFORM
from eigentensor.runtime.compiled import execute

INDEX = DType.INDEX
UNARY = frozenset({Op.SQRT, Op.RECIPROCAL, Op.TRUNC})
ROWS, TERMS = 23, 37  #: of the matrices that are reduced
FOUR = 4
WIDEST = 16  #: elements side by side: fewer than that would not be loaded as the widest vector
MASK = "mask"
Tensors = dict[str, NDArray[Any]]


def check(run: Callable[[Program, Tensors], Results] = execute, dtypes: Collection[DType] = STORED) -> None:
    """Raises ExecutionError, which names what is wrong, unless `run` gives the reference's bits for these types."""
    expected, actual = answers(frozenset(dtypes)), run(*conformance(dtypes)).outputs
    wrong = [name for name, array in expected.items() if array.tobytes() != actual[name].tobytes()]
    if wrong:
        raise ExecutionError(
            f"this device does not compute as specified: {', '.join(wrong)}",
            fix="It cannot serve: its results would be convicted. Try another compiler or device.",
            topic="machine",
        )


@cache
def answers(dtypes: frozenset[DType]) -> Tensors:
    """The reference's outputs of the program. Raises ExecutionError where this thread cannot compute them."""
    return reference.execute(*conformance(dtypes)).outputs


def conformance(dtypes: Collection[DType] = STORED) -> tuple[Program, Tensors]:
    """The program and its inputs; outputs are named by type and kind of operation."""
    calls: list[tuple[Hashable, Lowered]] = []
    results: dict[tuple[Kind, str], tuple[Hashable, tuple[int, ...]]] = {}
    masks = np.random.default_rng(0).integers(0, 2, max(len(_edges(dtype)) for dtype in dtypes)).astype(bool)
    tensors: Tensors = {MASK: masks}
    inputs: dict[Hashable, Buffer] = {MASK: Buffer(Role.INPUT, DType.BOOL, masks.shape, MASK)}
    for dtype in sorted(dtypes):
        name = dtype.name.lower()
        matrix = np.resize(_edges(dtype), (ROWS, TERMS))
        matrix = np.random.default_rng(dtype).permuted(matrix, axis=1)
        for key, values in ((f"{name}_edges", _edges(dtype)), (f"{name}_matrix", matrix)):
            tensors[key] = values
            inputs[key] = Buffer(Role.INPUT, dtype, values.shape, key)
        for kind, value, axes in _expressions(dtype, inputs):
            key = f"{name}_{kind}"
            calls.append((key, to_body(value, axes)))
            results[Kind.OUTPUT, key] = (key, tuple(axis.extent for axis in axes))
    return assemble(calls, inputs, results), tensors


def _expressions(dtype: DType, inputs: Mapping[Hashable, Buffer]) -> Iterator[tuple[str, Node, tuple[Axis, ...]]]:
    name = dtype.name.lower()
    edges, matrix = (Array(f"{name}_{what}", dtype, inputs[f"{name}_{what}"].elements) for what in ("edges", "matrix"))
    which, left, right = Axis(0, 1), Axis(1, edges.elements), Axis(2, edges.elements)
    a, b = load(edges, counter(left)), load(edges, counter(right))
    of = [op for op, types in UNIFORM.items() if dtype in types and op not in REDUCTIONS]
    same = [_apply(op, a, b) for op in of if op not in COMPARISONS]
    yield "arithmetic", *_stacked(same, which, (left, right))
    if dtype.is_float:  # two roundings each, and in this order
        yield "product_and_sum", binary(Op.ADD, binary(Op.MUL, a, b), a), (left, right)
        yield "products", binary(Op.MUL, binary(Op.MUL, a, b), b), (left, right)
        none = binary(Op.MIN, const(dtype, CANONICAL_NAN[dtype]), const(dtype, 1))  # NVRTC computes no such constant
        yield "nothing", *_stacked([_bits(cast) for cast in _casts(none)], which, ())
        zero = const(dtype, 0)  # of either sign it is equal, and neither may be given for the other
        tests = [binary(op, *of) for op in sorted(COMPARISONS) for of in ((a, zero), (zero, a))]
        either = [node(Op.WHERE, dtype, test, *arms) for test in tests for arms in ((a, zero), (zero, a))]
        yield "zeros", *_stacked(either, which, (left,))
    if dtype.is_integer:  # ptxas has lost the sign of one of three
        few = Axis(5, 3, True)
        near = binary(Op.MIN, node(Op.CAST, dtype, counter(few)), a)
        ends = [reduction(op, (few,), binary(Op.SUB, const(dtype, 0), near)) for op in (Op.REDUCE_MIN, Op.REDUCE_MAX)]
        yield "ends", *_stacked(ends, which, (left,))
    yield "comparisons", *_stacked([binary(op, a, b) for op in sorted(COMPARISONS)], which, (left, right))
    mask = load(Array(MASK, DType.BOOL, inputs[MASK].elements), counter(right))
    conditions = [mask, *(binary(op, a, b) for op in sorted(COMPARISONS)), *(same if dtype is DType.BOOL else ())]
    choices = [node(Op.WHERE, dtype, condition, a, b) for condition in conditions]
    yield "choices", *_stacked([*choices, load(edges, counter(right), mask)], which, (left, right))
    yield "conversions", *_stacked([_bits(cast) for cast in _casts(a)], which, (left,))
    row, term = Axis(3, ROWS), Axis(4, TERMS, True)
    x = load(matrix, binary(Op.ADD, binary(Op.MUL, counter(row), const(INDEX, TERMS)), counter(term)))
    y = load(edges, binary(Op.FLOORMOD, counter(term), const(INDEX, edges.elements)))
    sums = [
        reduction(op, (term,), *((x, y) if op is Op.REDUCE_MULACC else (x,)))
        for op in sorted(REDUCTIONS)
        if dtype in UNIFORM[op]
    ]
    yield "reductions", *_stacked(sums, which, (row,))
    if dtype in (DType.INT8, DType.UINT8):
        lane = Axis(6, TERMS // FOUR)
        yield "fours", *_stacked(_dots(matrix, row, lane), which, (row, lane))


def _dots(matrix: Array, row: Axis, lane: Axis) -> list[Node]:
    """Sums of four products of neighbours, with signs and without: an instruction, which must not saturate."""
    first = binary(Op.MUL, counter(lane), const(INDEX, FOUR))
    fours = [binary(Op.ADD, first, const(INDEX, n)) for n in range(FOUR)]
    line = binary(Op.MUL, counter(row), const(INDEX, TERMS))
    across = [load(matrix, binary(Op.ADD, line, four)) for four in fours]
    beside = [load(matrix, four) for four in fours]
    return [_dot(across, [node(Op.CAST, kind, value) for value in beside]) for kind in (DType.INT8, DType.UINT8)]


def _dot(xs: Iterable[Node], ys: Iterable[Node]) -> Node:
    pairs = ([node(Op.CAST, DType.INT32, value) for value in pair] for pair in zip(xs, ys, strict=True))
    return fold(lambda total, term: binary(Op.ADD, total, term), (binary(Op.MUL, *pair) for pair in pairs))


def _casts(a: Node) -> Iterator[Node]:
    for target in sorted(STORED):
        yield node(Op.CAST, target, a)
        if target.size == a.dtype.size and DType.BOOL not in (a.dtype, target):
            yield node(Op.BITCAST, target, a)


def _bits(a: Node) -> Node:
    """The pattern of a value, as an integer that holds that of any."""
    unsigned = {1: DType.UINT8, 2: DType.UINT16, 4: DType.UINT32, 8: DType.UINT64}[a.dtype.size]
    pattern = a if a.dtype is DType.BOOL else node(Op.BITCAST, unsigned, a)
    return node(Op.CAST, DType.UINT64, pattern)


def _apply(op: Op, a: Node, b: Node) -> Node:
    operands = {Op.MULACC: (a, b, a)}.get(op, (a,) if op in UNARY else (a, b))
    return node(op, a.dtype, *operands)


def _stacked(values: list[Node], which: Axis, axes: tuple[Axis, ...]) -> tuple[Node, tuple[Axis, ...]]:
    """Several values as one, along a new first axis."""
    which = which._replace(extent=len(values))

    def chosen(rest: Node, number: int) -> Node:
        here = binary(Op.CMPEQ, counter(which), const(INDEX, number))
        return node(Op.WHERE, rest.dtype, here, values[number], rest)

    return fold(chosen, range(1, len(values)), values[0]), (which, *axes)


def _edges(dtype: DType) -> NDArray[Any]:
    """Elements at borders: zeros, infinities, NaN, subnormals, ties, the smallest and the largest."""
    bits = 8 * dtype.size
    sign = 1 << bits - 1
    if dtype is DType.BOOL:
        patterns = [0, 1]
    elif dtype.is_float:
        infinity = INFINITY[dtype]
        step = infinity & -infinity  # one in the exponent
        one = infinity // 2 // step * step
        sizes = [0, 1, step - 1, step, step + 1, one - step, one - 1, one, one + 1, one + step // 2, one + 3 * step + 5,
                 infinity - step, infinity - 1, infinity, CANONICAL_NAN[dtype], infinity + 1]  # fmt: skip
        patterns = [size | s for size in sizes for s in (0, sign)]
    else:
        near = [
            0,
            1,
            2,
            3,
            7,
            bits - 1,
            bits,
            sign - 1,
            sign,
            sign + 1,
            sign + sign // 2 + 1,
            2 * sign - 1,
            2 * sign - 3,
        ]
        patterns = [*near, *((1 << k) + d for k in (24, 53) if k < bits for d in (-1, 1, 3))]
        if bits == 64:  # rounded to double it lies in the middle between two of float32
            patterns.append((1 << 62) + (1 << 38) + 1)
    elements = np.array(patterns, f"u{dtype.size}").view(STORAGE[dtype])
    return np.resize(elements, max(len(elements), WIDEST))
