"""Spans: how long sums are cut, what each partial result needs, and every bit that follows."""

from collections.abc import Iterable
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from eigentensor import reference
from eigentensor.graph.builder import GraphBuilder
from eigentensor.lowering.kernel import Kernel, add, flat, fresh_array, fresh_axis, scaled
from eigentensor.lowering.spans import LANES, LONG, RUN, SHORT, TERMS, Cut, cut, shape
from eigentensor.program.expression import Axis, counter, load, reduction
from eigentensor.program.ops import DType, Op
from eigentensor.runtime import CompiledGraph
from support.programs.changes import buffers_of, differing
from support.programs.kernels import array, run

F32 = DType.FLOAT32
STEPS = {Op.REDUCE_ADD: (np.float32(0), np.add), Op.REDUCE_MUL: (np.float32(1), np.multiply)}


@given(st.integers(SHORT, 1 << 22), st.integers(1, 1 << 20))
def test_spans_are_a_power_of_two_and_short(terms: int, results: int) -> None:
    hold(terms, results)


@pytest.mark.parametrize("results", [1, LONG - 1, LONG, 1 << 20])
def test_every_length_is_cut_evenly(results: int) -> None:
    for terms in range(1, 20_001):
        hold(terms, results)


def hold(terms: int, results: int) -> None:
    partition = shape(terms, results)
    if partition is None:
        assert terms <= LONG <= results or terms < SHORT
        return
    spans, lanes, length = partition
    assert spans & (spans - 1) == 0
    assert lanes == (1 if results >= LONG else LANES) and length <= (RUN if results >= LONG else TERMS)
    assert spans * (length - 1) * lanes < terms <= spans * length * lanes
    assert terms > (LONG if results >= LONG else SHORT - 1)


def test_the_cut_follows_from_the_shape() -> None:
    assert shape(SHORT, 1) == Cut(1, LANES, SHORT // LANES)
    assert shape(LONG + 1, LONG - 1) == Cut(8, LANES, 33)
    assert shape(LONG + 1, LONG) == Cut(4, 1, 1025)
    assert shape(SHORT - 1, 1) is None and shape(LONG, LONG) is None


@pytest.mark.parametrize("extents", [(4100,), (4, 1025), (8, 3, 171), (3, 1367)])
@pytest.mark.parametrize("op", [Op.REDUCE_ADD, Op.REDUCE_MUL])
def test_many_long_reductions_are_cut_into_runs_of_terms(extents: tuple[int, ...], op: Op) -> None:
    """Partial results stand run by run, each as the results do, and are taken up in order: every bit follows."""
    terms = prod(extents)
    axes, column = tuple(fresh_axis(n, is_reduce=True) for n in extents), fresh_axis(LONG)
    x = np.random.default_rng(terms).uniform(0.999, 1.001, (terms, LONG)).astype(np.float32)
    term = load(array("x", x.size), add(scaled(flat(axes), LONG), counter(column)))
    kernel = Kernel(fresh_array(F32, LONG), (column,), reduction(op, axes, term))
    parts, whole = cut(kernel)
    partition = shape(terms, LONG)
    assert partition == Cut(4, 1, -(-terms // 4))
    assert extents_of(parts) == [partition.spans, LONG]
    partial = [in_order(op, x[i : i + partition.terms]) for i in range(0, terms, partition.terms)]
    assert np.array_equal(run([parts, whole], x=x.ravel()), in_order(op, partial))


def extents_of(kernel: Kernel) -> list[int]:
    return [axis.extent for axis in kernel.axes]


def in_order(op: Op, terms: Iterable[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Each term in turn, rounded each time."""
    start, step = STEPS[op]
    total: NDArray[np.float32] = np.asarray(start)
    for term in terms:
        total = step(total, term)
    return total


@pytest.mark.parametrize(("rows", "terms"), [(3, 1025), (1, 2500), (2, 4097), (5, 16_384)])
@pytest.mark.parametrize("op", [Op.REDUCE_ADD, Op.REDUCE_MUL])
def test_few_long_reductions_combine_lanes_within_spans_and_then_spans(rows: int, terms: int, op: Op) -> None:
    """Lanes of one span, spans of one result: each in order, and a kernel for each of the three. Every bit follows."""
    x = np.random.default_rng(terms).uniform(0.999, 1.001, (rows, terms)).astype(np.float32)
    lanes, spans, whole = cut(rows_of(op, rows, terms))
    partition = shape(terms, rows)
    assert partition is not None and partition.spans > 1
    outer = [rows] if rows > 1 else []
    assert extents_of(lanes) == [partition.spans, *outer, LANES]
    assert extents_of(spans) == [partition.spans, *outer]
    assert extents_of(whole) == outer
    neutral = STEPS[op][0]
    padded = np.full((rows, partition.spans * partition.terms * LANES), neutral)
    padded[:, :terms] = x
    steps = padded.reshape(rows, partition.spans, partition.terms, LANES).transpose(2, 3, 1, 0)
    partial = in_order(op, in_order(op, steps))  # of each lane over its terms, then over the lanes
    assert np.array_equal(run([lanes, spans], x=x.ravel()), partial.ravel())
    assert np.array_equal(run([lanes, spans, whole], x=x.ravel()), in_order(op, partial))


def rows_of(op: Op, rows: int, terms: int) -> Kernel:
    """A kernel that reduces each row of x."""
    row, step = Axis(0, rows), fresh_axis(terms, is_reduce=True)
    element = add(scaled(counter(row), terms), counter(step))
    outer = (row,) if rows > 1 else ()
    return Kernel(fresh_array(F32, rows), outer, reduction(op, (step,), load(array("x", rows * terms), element)))


def test_a_spans_partial_result_is_one_element_and_needs_its_terms_alone() -> None:
    builder = GraphBuilder()
    program = builder.compile(builder.input("x", (3, 5000)).sum(1), fingerprint=False).program
    x = np.random.default_rng(3).standard_normal((3, 5000), dtype=np.float32)
    partition = shape(5000, 3)
    assert partition is not None and len(program.calls) == 3
    terms = partition.terms * LANES
    before = buffers_of(program, {"x": x}, {})
    for span in range(partition.spans):
        other = x.copy()
        other[:, span * terms : (span + 1) * terms] += 1
        _, lanes, spans, _ = buffers_of(program, {"x": other}, {})
        for old, new in ((before[1], lanes), (before[2], spans)):
            assert old.shape[0] == partition.spans
            assert set(np.nonzero(differing(old, new))[0]) == {span}


def test_kernels_of_cut_sums_have_the_bits_of_the_reference() -> None:
    builder = GraphBuilder()
    x, y = builder.input("x", (2, 270_000)), builder.input("y", (3000, 5))
    outputs = {
        "spans of spans": x.sum(1),
        "columns": y.sum(0),
        "products": y.T @ y,
        "factors": (y * 0.001 + 1).reshape(3, 5000).prod(1),
        "many": (y[:, :, None] * y.reshape(3000, 1, 5)).reshape(3000, 25).tile((1, 180)).sum(0),
    }
    program = builder.compile(outputs, fingerprint=False).program
    random = np.random.default_rng(4)
    tensors = {"x": random.standard_normal((2, 270_000), dtype=np.float32)}
    tensors["y"] = random.standard_normal((3000, 5), dtype=np.float32)
    ours, exact = CompiledGraph(program).run(tensors), reference.execute(program, tensors)
    for name in outputs:
        assert ours.outputs[name].tobytes() == exact.outputs[name].tobytes()


@pytest.mark.parametrize("terms", [256, 300, 1025, 4096, 40_000])
@pytest.mark.parametrize("op", [Op.REDUCE_ADD, Op.REDUCE_MUL, Op.REDUCE_MULACC])
def test_a_long_reduction_in_spans_is_the_same_up_to_rounding(terms: int, op: Op) -> None:
    axis, row = fresh_axis(terms, is_reduce=True), fresh_axis(2)
    x = np.random.default_rng(terms).uniform(0.999, 1.001, (2, terms)).astype(np.float32)
    term = load(array("x", 2 * terms), add(scaled(counter(row), terms), counter(axis)))
    value = reduction(op, (axis,), *([term, term] if op is Op.REDUCE_MULACC else [term]))
    kernels = cut(Kernel(fresh_array(F32, 2), (row,), value))
    spans = shape(terms, 2)
    assert spans is not None and len(kernels) == 2 + (spans.spans > 1)
    exact = x.astype(np.float64)
    expected = {Op.REDUCE_ADD: exact.sum(1), Op.REDUCE_MUL: exact.prod(1), Op.REDUCE_MULACC: (exact**2).sum(1)}[op]
    assert np.allclose(run(kernels, x=x.ravel()), expected, rtol=1e-4)


def test_rows_and_columns_of_a_long_reduction_keep_their_order() -> None:
    rows, columns = (fresh_axis(n, is_reduce=True) for n in (40, 50))
    x = np.random.default_rng(1).standard_normal((40, 50)).astype(np.float32)
    element = add(scaled(counter(columns), 40), counter(rows))
    kernels = cut(
        Kernel(fresh_array(F32, 1), (), reduction(Op.REDUCE_ADD, (rows, columns), load(array("x", 2000), element)))
    )
    assert np.allclose(run(kernels, x=x.T.copy().ravel()), x.sum(dtype=np.float64), rtol=1e-5)
