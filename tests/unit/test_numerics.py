"""Every cell of the semantics table against the exact model: all operations, all types, edges by edges."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from eigentensor.numerics import conversion, exact
from eigentensor.numerics.dtypes import CANONICAL_NAN, FLOATS, INFINITY, DType
from eigentensor.numerics.floats import canonical, narrow, patterns, widen
from eigentensor.numerics.operations import OPERATIONS, from_pattern, identity
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.ops import ARITY, COMPARISONS, Op
from support.generated.edges import CELLS, edges, held

Patterns = list[int]


def bits(dtype: DType, a: Any) -> Patterns:
    assert a.dtype == STORAGE[dtype]
    return [int(pattern) for pattern in patterns(dtype, np.ascontiguousarray(a)).ravel()]


def compute(name: str, dtype: DType, *operands: Patterns) -> Patterns:
    result = DType.BOOL if name.startswith("CMP") else dtype
    return bits(result, OPERATIONS[name](dtype, *(held(dtype, operand) for operand in operands)))


def assert_same(answers: Patterns, expected: Patterns, *operands: Patterns) -> None:
    wrong = [tuple(map(hex, case)) for case in zip(*operands, answers, expected, strict=True) if case[-1] != case[-2]]
    assert not wrong, f"(operands, answer, expected): {wrong[:5]}"


@pytest.mark.parametrize(("op", "dtype"), CELLS, ids=lambda x: x.name)
def test_an_operation_gives_the_exact_bits_on_all_pairs_of_edges(op: Op, dtype: DType) -> None:
    few = edges(dtype)[::2] + edges(dtype)[1::4] if op is Op.MULACC else edges(dtype)
    operands = [list(column) for column in zip(*product(few, repeat=ARITY[op]), strict=True)]
    expected = [exact.evaluate(op.name, dtype, *case) for case in zip(*operands, strict=True)]
    assert_same(compute(op.name, dtype, *operands), expected, *operands)


@pytest.mark.parametrize("dtype", DType, ids=lambda x: x.name)
def test_where_chooses_without_touching_bits(dtype: DType) -> None:
    values = edges(dtype)
    chosen = OPERATIONS["WHERE"](
        dtype, held(DType.BOOL, [i % 2 for i in range(len(values))]), held(dtype, values), held(dtype, values[::-1])
    )
    expected = [values[i] if i % 2 else values[-1 - i] for i in range(len(values))]
    assert bits(dtype, chosen) == expected


CASTS = [(a, b) for a in DType for b in DType if not (a.is_float and b is DType.INDEX)]
WITH_BITS = [dtype for dtype in DType if dtype not in (DType.BOOL, DType.INDEX)]
BITCASTS = [(a, b) for a in WITH_BITS for b in WITH_BITS if a.size == b.size]


@pytest.mark.parametrize(("source", "target"), CASTS, ids=lambda x: x.name)
def test_a_cast_gives_the_exact_bits(source: DType, target: DType) -> None:
    values = edges(source)
    if source.is_float:
        values = values + border_patterns(source, target)
    expected = [exact.cast(source, target, value) for value in values]
    assert_same(bits(target, conversion.cast(source, target, held(source, values))), expected, values)


def border_patterns(source: DType, target: DType) -> Patterns:
    """Floats beside the limits of an integer type, and beside the ties of a smaller float type."""
    if target.is_float:
        half = 1 << max(0, exact.FRACTION[source] - exact.FRACTION[target])
        coarse = [pattern * half for pattern in edges(target)] if source is DType.FLOAT32 else []
        shifted = [pattern & 0xFFFFFFFF for pattern in coarse] + [half * k + half // 2 for k in range(-3, 4) if k > 0]
        return [pattern + d for pattern in shifted for d in (-1, 0, 1) if 0 <= pattern + d < 1 << 8 * source.size]
    limits = [1 << 8 * target.size - 1, 1 << 8 * target.size]
    near = [exact.cast(DType.UINT64, source, limit) for limit in limits if limit < 1 << 64]
    sign = 1 << 8 * source.size - 1
    return [(pattern + d) | bit for pattern in near for d in (-1, 0, 1) for bit in (0, sign)]


@pytest.mark.parametrize(("source", "target"), BITCASTS, ids=lambda x: x.name)
def test_a_bitcast_shows_only_the_canonical_nan(source: DType, target: DType) -> None:
    values = edges(source)
    expected = [exact.bitcast(source, target, value) for value in values]
    assert_same(bits(target, conversion.bitcast(source, target, held(source, values))), expected, values)


HALVES = [DType.FLOAT16, DType.BFLOAT16]
ALL_HALVES = list(range(1 << 16))


@pytest.mark.parametrize("dtype", HALVES, ids=lambda x: x.name)
@pytest.mark.parametrize("name", ["SQRT", "RECIPROCAL", "TRUNC"])
def test_a_function_of_one_half_is_exact_for_every_pattern(name: str, dtype: DType) -> None:
    expected = [exact.evaluate(name, dtype, pattern) for pattern in ALL_HALVES]
    assert_same(compute(name, dtype, ALL_HALVES), expected, ALL_HALVES)


@pytest.mark.parametrize("dtype", HALVES, ids=lambda x: x.name)
def test_every_half_survives_the_way_through_float32(dtype: DType) -> None:
    values = held(dtype, ALL_HALVES)
    wide = widen(dtype, values)
    assert bits(dtype, narrow(dtype, wide)) == bits(dtype, canonical(dtype, values))
    expected = [exact.cast(dtype, DType.FLOAT32, pattern) for pattern in ALL_HALVES]
    assert_same(bits(DType.FLOAT32, canonical(DType.FLOAT32, wide)), expected, ALL_HALVES)


@pytest.mark.parametrize("dtype", HALVES, ids=lambda x: x.name)
def test_float32_is_rounded_to_even_between_any_two_halves(dtype: DType) -> None:
    finite = widen(dtype, held(dtype, list(range(INFINITY[dtype]))))
    below = finite[:-1].astype(np.float64)
    middle = ((below + finite[1:]) / 2).astype(np.float32)
    roundings: list[tuple[float | None, Callable[[int], int]]]
    roundings = [(-np.inf, lambda i: i), (None, lambda i: i + i % 2), (np.inf, lambda i: i + 1)]
    for nudge, expected in roundings:
        between = middle if nudge is None else np.nextafter(middle, np.float32(nudge))
        assert bits(dtype, narrow(dtype, between)) == [expected(i) for i in range(len(middle))]


def test_fused_multiply_add_sees_on_which_side_of_a_tie_it_is() -> None:
    a, b, c = 1 + 2.0**-18, (1 - 2.0**-18) * 2.0**-24, 1 + 2.0**-23
    fused = OPERATIONS["MULACC"](DType.FLOAT32, np.float32(a), np.float32(b), np.float32(c))
    assert bits(DType.FLOAT32, fused) == [0x3F800001]


def test_fused_multiply_add_is_exact_beside_ties() -> None:
    """c + a·b where a·b is half a unit of c, and a little more or less: 1 ± ε squared, in all binades of c."""
    generator = np.random.default_rng(1)
    count = 4000
    epsilon = np.ldexp(generator.integers(1, 9, count).astype(np.float32), generator.integers(-23, -8, count))
    sign = generator.choice(np.array([-1, 1], np.float32), (2, count))
    exponent = generator.integers(-120, 120, count)
    a = (1 + epsilon * sign[0]).astype(np.float32)
    b = np.ldexp(((1 - epsilon * sign[0]) * sign[1]).astype(np.float32), exponent - 24)
    c = np.ldexp((1 + generator.integers(0, 1 << 23, count) * 2.0**-23).astype(np.float32), exponent)
    operands = [bits(DType.FLOAT32, x.astype(np.float32)) for x in (a, b, c)]
    expected = [exact.evaluate("MULACC", DType.FLOAT32, *case) for case in zip(*operands, strict=True)]
    assert_same(compute("MULACC", DType.FLOAT32, *operands), expected, *operands)


def random_patterns(dtype: DType, count: int, seed: int) -> Patterns:
    unused = 64 - (1 if dtype is DType.BOOL else 8 * dtype.size)
    return [
        pattern >> unused for pattern in np.random.default_rng(seed).integers(0, 1 << 64, count, np.uint64).tolist()
    ]


@pytest.mark.parametrize(("op", "dtype"), [cell for cell in CELLS if cell[1] is not DType.INDEX], ids=lambda x: x.name)
def test_an_operation_gives_the_exact_bits_on_random_patterns(op: Op, dtype: DType) -> None:
    count = 3000 if dtype is DType.FLOAT32 else 300
    operands = [random_patterns(dtype, count, seed) for seed in range(ARITY[op])]
    expected = [exact.evaluate(op.name, dtype, *case) for case in zip(*operands, strict=True)]
    assert_same(compute(op.name, dtype, *operands), expected, *operands)


@pytest.mark.parametrize(("source", "target"), CASTS, ids=lambda x: x.name)
def test_a_cast_gives_the_exact_bits_on_random_patterns(source: DType, target: DType) -> None:
    values = random_patterns(source, 300, 9)
    expected = [exact.cast(source, target, value) for value in values]
    assert_same(bits(target, conversion.cast(source, target, held(source, values))), expected, values)


@pytest.mark.parametrize("source", [DType.INT32, DType.INT64, DType.UINT32, DType.UINT64], ids=lambda x: x.name)
@pytest.mark.parametrize("target", sorted(FLOATS), ids=lambda x: x.name)
def test_wide_integers_are_rounded_to_a_float_once(source: DType, target: DType) -> None:
    """Integers of every length whose low bits are all zero, all one, or a tie and one more or less."""
    values: Patterns = []
    for length in range(2, 8 * source.size + 1):
        for kept in (2, 8, 9, 24, 25, 53, 54):
            top = (1 << length) - 1 >> max(0, length - kept) << max(0, length - kept)
            values += [top + d & (1 << 8 * source.size) - 1 for d in (-1, 0, 1)]
    expected = [exact.cast(source, target, value) for value in values]
    assert_same(bits(target, conversion.cast(source, target, held(source, values))), expected, values)


@pytest.mark.parametrize(("op", "dtype"), CELLS, ids=lambda x: x.name)
def test_scalars_and_arrays_without_elements_are_operands_too(op: Op, dtype: DType) -> None:
    one = from_pattern(dtype, edges(dtype)[-1])
    answer = OPERATIONS[op.name](dtype, *[one] * ARITY[op])
    result = DType.BOOL if op in COMPARISONS else dtype
    assert bits(result, answer) == [exact.evaluate(op.name, dtype, *[edges(dtype)[-1]] * ARITY[op])]
    assert OPERATIONS[op.name](dtype, *[held(dtype, [])] * ARITY[op]).shape == (0,)


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if dtype is not DType.INDEX], ids=lambda x: x.name)
@pytest.mark.parametrize("name", ["ADD", "MUL", "MAX", "MIN"])
def test_the_identity_of_a_reduction_changes_no_value(name: str, dtype: DType) -> None:
    values = [pattern for pattern in edges(dtype) if not (dtype.is_float and exact.real(dtype, pattern) is None)]
    start = bits(dtype, identity(name, dtype)) * len(values)
    minus_zero = 1 << 8 * dtype.size - 1
    expected = [0 if name == "ADD" and dtype.is_float and pattern == minus_zero else pattern for pattern in values]
    assert compute(name, dtype, start, values) == expected


def test_a_nan_with_a_foreign_payload_is_made_canonical() -> None:
    for dtype in FLOATS:
        nans = [pattern for pattern in edges(dtype) if exact.real(dtype, pattern) is None]
        assert len(nans) > 2
        assert bits(dtype, canonical(dtype, held(dtype, nans))) == [CANONICAL_NAN[dtype]] * len(nans)
