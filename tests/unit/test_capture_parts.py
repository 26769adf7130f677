"""The parts of capture alone: constants, sums of indices, whole-buffer stores, guards and cuts."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigentensor.capture.store import Store, stored
from eigentensor.errors import CaptureError
from eigentensor.lowering.constants import constant, float_pattern
from eigentensor.lowering.indices import affine, simplify, written
from eigentensor.lowering.kernel import Kernel, add, fresh_array, fresh_axis, index, less, scaled
from eigentensor.lowering.limits import fits, guard, lowered, split
from eigentensor.lowering.passes import unnest
from eigentensor.program.expression import Axis, Named, Node, binary, const, counter, load, node, reduction
from eigentensor.program.forms import Form
from eigentensor.program.model import Bounds
from eigentensor.program.ops import DType, Op
from support.programs.kernels import array, run

FLOATS = {DType.FLOAT16: np.float16, DType.FLOAT32: np.float32}
F32 = DType.FLOAT32


@given(st.floats(width=64), st.sampled_from(sorted(FLOATS)))
def test_a_constant_is_rounded_once_to_the_nearest_even(value: float, dtype: DType) -> None:
    with np.errstate(all="ignore"):
        expected = np.array(value).astype(FLOATS[dtype])
    pattern = int(expected.view(f"u{dtype.size}"))
    assert float_pattern(dtype, value) == (pattern if value == value else {2: 0x7E00, 4: 0x7FC00000}[dtype.size])


@pytest.mark.parametrize(
    ("value", "pattern"),
    [(1.0, 0x3F80), (1 + 2**-8, 0x3F80), (1 + 2**-8 + 2**-40, 0x3F81), (3.4e38, 0x7F80), (-0.0, 0x8000)],
)
def test_bfloat16_is_not_rounded_twice(value: float, pattern: int) -> None:
    assert float_pattern(DType.BFLOAT16, value) == pattern


@pytest.mark.parametrize(
    ("dtype", "value", "wrapped"),
    [(DType.INT8, 200, -56), (DType.UINT16, -1, 65535), (DType.INT32, 1 << 31, -(1 << 31))],
)
def test_integer_constants_wrap(dtype: DType, value: int, wrapped: int) -> None:
    assert constant(dtype, value) is const(dtype, wrapped)


def test_sums_of_indices_forget_how_they_were_written() -> None:
    i, j = (counter(fresh_axis(n)) for n in (4, 6))
    left = add(scaled(add(i, j), 3), index(5))
    right = add(add(scaled(j, 3), index(5)), scaled(i, 3))
    assert affine(left).plus(affine(right), -1) == Form(0)
    assert affine(left) == Form(5, ((i, 3), (j, 3)))
    assert affine(written(affine(left))) == affine(left)


def test_a_quotient_and_its_remainder_are_one_counter_again() -> None:
    i = counter(fresh_axis(24))
    quotient, remainder = binary(Op.FLOORDIV, i, index(6)), binary(Op.FLOORMOD, i, index(6))
    assert simplify(add(scaled(quotient, 6), remainder)) is i
    assert simplify(binary(Op.FLOORMOD, add(scaled(i, 6), counter(axis := fresh_axis(5))), index(6))) is counter(axis)


def store_of(shape: tuple[int, ...], region: tuple[slice, ...], flip: bool = False) -> tuple[Store, np.ndarray]:
    """The store of 100 + element of x into a box of an array, and what NumPy makes of it."""
    strides = np.cumprod([1, *shape[:0:-1]])[::-1]
    extents = [s.stop - s.start for s in region]
    axes = [Axis(n, extent) for n, extent in enumerate(extents)]
    element: Node = index(0)
    for axis, s, stride in zip(axes, region, strides, strict=True):
        position = binary(Op.SUB, index(axis.extent - 1), counter(axis)) if flip else counter(axis)
        element = add(element, scaled(add(position, index(s.start)), int(stride)))
    source: Node = index(0)
    for axis in axes:
        source = add(scaled(source, axis.extent), counter(axis))
    elements = int(np.prod(extents))
    value = binary(Op.ADD, load(array("x", elements), source), constant(F32, 100.0))
    expected = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    new = 100 + np.arange(elements, dtype=np.float32).reshape(extents)
    expected[region] = np.flip(new) if flip else new
    store = Store(fresh_array(F32, int(np.prod(shape))), element, value, None, {a: index(a.extent) for a in axes})
    return store, expected.ravel()


REGIONS = [
    ((4, 6), (slice(1, 3), slice(0, 6))),
    ((4, 6), (slice(0, 4), slice(2, 5))),
    ((3, 4, 5), (slice(1, 2), slice(1, 3), slice(2, 4))),
    ((3, 4, 5), (slice(0, 3), slice(0, 4), slice(0, 5))),
    ((2, 3, 4), (slice(1, 2), slice(2, 3), slice(3, 4))),
]


@pytest.mark.parametrize(("case", "flip"), list(product(REGIONS, (False, True))))
def test_a_store_into_a_box_keeps_what_lies_outside(
    case: tuple[tuple[int, ...], tuple[slice, ...]], flip: bool
) -> None:
    store, expected = store_of(*case, flip)
    kernel = guard(stored(store, array("old", expected.size), store.array, ""))
    old = np.arange(expected.size, dtype=np.float32)
    source = np.arange(np.prod([s.stop - s.start for s in case[1]]), dtype=np.float32)
    inputs = {"x": source, "old": old}
    used = {a.key for a in lowered(kernel).arrays}
    assert np.array_equal(run([kernel], None, **{n: v for n, v in inputs.items() if n in used}), expected)


def test_a_store_at_a_variable_row_moves_with_it() -> None:
    position = node(Op.VAR, DType.INDEX, arg=Named("position", Bounds(0, 7)))
    column = Axis(0, 3)
    element = add(scaled(position, 3), counter(column))
    store = Store(fresh_array(F32, 24), element, load(array("x", 3), counter(column)), None, {column: index(3)})
    kernel = stored(store, array("old", 24), store.array, "")
    expected = np.zeros((8, 3), np.float32)
    expected[5] = 1
    result = run([kernel], {"position": 5}, x=np.ones(3, np.float32), old=np.zeros(24, np.float32))
    assert np.array_equal(result, expected.ravel())


def test_a_store_that_is_no_box_is_refused() -> None:
    i = Axis(0, 3)
    square = binary(Op.MUL, counter(i), counter(i))
    with pytest.raises(CaptureError, match="not a box"):
        stored(Store(fresh_array(F32, 9), square, constant(F32, 1), None, {i: index(3)}), None, fresh_array(F32, 9), "")


def test_a_reduction_inside_a_reduction_becomes_a_kernel_of_its_own() -> None:
    i, j, k = fresh_axis(3), fresh_axis(4, is_reduce=True), fresh_axis(5, is_reduce=True)
    element = add(scaled(add(scaled(counter(i), 4), counter(j)), 5), counter(k))
    inner = reduction(Op.REDUCE_MAX, (k,), load(array("x", 60), element))
    kernels = unnest(Kernel(fresh_array(F32, 3), (i,), reduction(Op.REDUCE_ADD, (j,), inner)))
    x = np.random.default_rng(2).standard_normal((3, 4, 5)).astype(np.float32)
    assert len(kernels) == 2
    assert np.allclose(run(kernels, x=x.ravel()), x.max(2).sum(1), rtol=1e-6)


def test_a_load_that_may_leave_its_array_gets_a_guard() -> None:
    i = fresh_axis(8)
    kernel = Kernel(fresh_array(F32, 8), (i,), load(array("x", 5), add(counter(i), index(-2))))
    x = np.arange(1, 6, dtype=np.float32)
    assert np.array_equal(run([guard(kernel)], x=x), [0, 0, 1, 2, 3, 4, 5, 0])


def test_a_guard_that_suffices_is_left_alone() -> None:
    i = fresh_axis(8)
    kernel = Kernel(fresh_array(F32, 8), (i,), load(array("x", 5), counter(i), less(counter(i), index(5))))
    assert guard(kernel) is kernel


def test_a_kernel_with_too_many_loads_is_cut_into_some_that_fit() -> None:
    i = fresh_axis(2)
    loads = [load(array(f"x{n}", 2), counter(i)) for n in range(100)]
    value = loads[0]
    for term in loads[1:]:
        value = binary(Op.ADD, value, term)
    kernels = split(Kernel(fresh_array(F32, 2), (i,), value))
    assert len(kernels) > 2
    assert all(fits(lowered(kernel).body) for kernel in kernels)
    inputs = {f"x{n}": np.full(2, n, np.float32) for n in range(100)}
    assert np.array_equal(run(kernels, None, **inputs), [4950, 4950])
