"""The meaning of programs: order of reductions, guards, variables, states and repeats."""

import ctypes
import platform
import subprocess
from collections.abc import Callable, Hashable
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from eigentensor import reference
from eigentensor.errors import BindingError, ExecutionError
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import (
    Array,
    Axis,
    Named,
    Node,
    binary,
    const,
    counter,
    load,
    node,
    reduction,
    to_body,
)
from eigentensor.program.model import Bounds, Buffer, Kind, Program, Role, Variable
from eigentensor.program.ops import Op

F32, INDEX = DType.FLOAT32, DType.INDEX


def program_of(
    *calls: tuple[Hashable, Node, tuple[Axis, ...]], inputs: dict[str, Buffer], shape: tuple[int, ...] = ()
) -> Program:
    """The program whose last call writes `output`."""
    lowered = [(key, to_body(value, axes)) for key, value, axes in calls]
    shape = shape or tuple(axis.extent for axis in calls[-1][2])
    return assemble(lowered, inputs, {(Kind.OUTPUT, "output"): (calls[-1][0], shape)})


def tensor(name: str, dtype: DType, *shape: int, role: Role = Role.INPUT) -> tuple[Buffer, Array]:
    buffer = Buffer(role, dtype, shape, name)
    return buffer, Array(name, dtype, buffer.elements)


def index(value: int) -> Node:
    return const(INDEX, value)


def at(*terms: tuple[Node, int]) -> Node:
    """Σ counter·stride"""
    total = index(0)
    for value, stride in terms:
        total = binary(Op.ADD, total, binary(Op.MUL, value, index(stride)))
    return total


def folded(op: Op, dtype: DType, values: np.ndarray, other: np.ndarray | None = None) -> np.ndarray:
    """The result of a reduction over the last axis of a matrix."""
    rows, columns = values.shape
    buffer, array = tensor("x", dtype, rows, columns)
    i, k = Axis(0, rows), Axis(1, columns, True)
    element = at((counter(i), columns), (counter(k), 1))
    factors = [load(array, element)]
    inputs, tensors = {"x": buffer}, {"x": values}
    if other is not None:
        inputs["y"], second = tensor("y", dtype, rows, columns)
        factors.append(load(second, element))
        tensors["y"] = other
    program = program_of(("r", reduction(op, (k,), *factors), (i,)), inputs=inputs)
    return reference.execute(program, tensors).outputs["output"]


def test_a_float_sum_is_taken_in_order_from_zero() -> None:
    values = np.array([[1e8, 1.0, -1e8, 1.0], [1.0, 1e8, -1e8, 1.0], [-0.0, -0.0, -0.0, -0.0]], np.float32)
    assert folded(Op.REDUCE_ADD, F32, values).tolist() == [1.0, 1.0, 0.0]
    assert not np.signbit(folded(Op.REDUCE_ADD, F32, values)[2])


@pytest.mark.parametrize("columns", [1, 7, 300])
@pytest.mark.parametrize("rows", [1, 3, 500])
def test_a_long_sum_equals_one_accumulator_that_is_rounded_at_each_step(rows: int, columns: int) -> None:
    values = np.random.default_rng(rows).standard_normal((rows, columns)).astype(np.float32)
    total = np.zeros(rows, np.float32)
    for column in values.T:
        total = total + column
    assert folded(Op.REDUCE_ADD, F32, values).tobytes() == total.tobytes()


def test_a_sum_longer_than_a_chunk_is_still_one_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).standard_normal((5, 1000)).astype(np.float32)
    whole = folded(Op.REDUCE_ADD, F32, values)
    monkeypatch.setattr(reference, "LANES", 3)
    assert folded(Op.REDUCE_ADD, F32, values).tobytes() == whole.tobytes()


def test_a_sum_of_products_is_rounded_once_per_step() -> None:
    a = np.array([[1.0, 1 + 2.0**-12]], np.float32)
    b = np.array([[-1.0, 1 + 2.0**-12]], np.float32)
    assert folded(Op.REDUCE_MULACC, F32, a, b).tolist() == [2.0**-11 + 2.0**-24]


def test_a_half_sum_is_rounded_to_half_at_each_step() -> None:
    values = np.array([[2048, 1, 1, 1, 1]], np.float16)
    assert folded(Op.REDUCE_ADD, DType.FLOAT16, values).tolist() == [2048]


def test_order_free_reductions_know_nan_zeros_and_wrapping() -> None:
    assert folded(Op.REDUCE_MAX, F32, np.array([[-0.0, 0.0], [-np.inf, -3]], np.float32)).tolist() == [0.0, -3.0]
    assert np.signbit(folded(Op.REDUCE_MIN, F32, np.array([[0.0, -0.0]], np.float32)))[0]
    assert np.isnan(folded(Op.REDUCE_MAX, F32, np.array([[1, np.nan, 2]], np.float32)))[0]
    assert folded(Op.REDUCE_ADD, DType.INT8, np.array([[100, 100]], np.int8)).tolist() == [-56]
    assert folded(Op.REDUCE_MUL, DType.UINT8, np.array([[16, 17]], np.uint8)).tolist() == [16]
    assert folded(Op.REDUCE_ADD, DType.BOOL, np.array([[False, True], [False, False]])).tolist() == [True, False]


def test_reductions_follow_one_another_in_one_body() -> None:
    """x - max(x), summed: a variance-like body with a reduction that uses another's result."""
    buffer, array = tensor("x", F32, 4, 6)
    i, k, j = Axis(0, 4), Axis(1, 6, True), Axis(2, 6, True)

    def element(axis: Axis) -> Node:
        return load(array, at((counter(i), 6), (counter(axis), 1)))

    top = reduction(Op.REDUCE_MAX, (k,), element(k))
    value = reduction(Op.REDUCE_ADD, (j,), binary(Op.SUB, element(j), top))
    program = program_of(("r", value, (i,)), inputs={"x": buffer})
    x = np.random.default_rng(3).standard_normal((4, 6)).astype(np.float32)
    expected = np.zeros(4, np.float32)
    for column in (x - x.max(1, keepdims=True)).T:
        expected = expected + column
    assert reference.execute(program, {"x": x}).outputs["output"].tobytes() == expected.tobytes()


def test_two_reduce_ranges_run_in_row_major_order() -> None:
    buffer, array = tensor("x", F32, 3, 5)
    a, b = Axis(0, 3, True), Axis(1, 5, True)
    value = reduction(Op.REDUCE_ADD, (b, a), load(array, at((counter(a), 5), (counter(b), 1))))
    program = program_of(("r", value, ()), inputs={"x": buffer})
    x = (np.random.default_rng(5).standard_normal((3, 5)) * 1e3).astype(np.float32)
    expected = np.float32(0)
    for column in x.T:
        for one in column:
            expected = expected + one
    assert reference.execute(program, {"x": x}).outputs["output"] == expected


def test_a_guarded_load_gives_zero_where_the_guard_is_false() -> None:
    """Each element is the one before it: reading before the start gives +0."""
    buffer, array = tensor("x", F32, 4)
    i = Axis(0, 4)
    before = binary(Op.ADD, counter(i), index(-1))
    value = load(array, before, binary(Op.CMPLT, index(-1), before))
    program = program_of(("r", value, (i,)), inputs={"x": buffer})
    x = np.array([1, 2, -0.0, 4], np.float32)
    assert reference.execute(program, {"x": x}).outputs["output"].tolist() == [0, 1, 2, -0.0]


@pytest.mark.parametrize("dtype", [d for d in DType if d is not INDEX], ids=lambda x: x.name)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 3)])
def test_every_type_goes_in_and_out_in_every_shape(dtype: DType, shape: tuple[int, ...]) -> None:
    buffer, array = tensor("x", dtype, *shape)
    axes = tuple(Axis(n, extent) for n, extent in enumerate(shape))
    strides = [int(np.prod(shape[n + 1 :])) for n in range(len(shape))]
    element = at(*[(counter(axis), stride) for axis, stride in zip(axes, strides, strict=True) if axis.extent != 1])
    if shape == (1,):
        element = index(0)
    program = program_of(("r", load(array, element), axes), inputs={"x": buffer}, shape=shape)
    x = (np.arange(buffer.elements) % 2).astype(STORAGE[dtype]).reshape(shape)
    result = reference.execute(program, {"x": x}).outputs["output"]
    assert (result.dtype, result.shape, result.tobytes()) == (STORAGE[dtype], shape, x.tobytes())


def test_a_store_shows_only_the_canonical_nan() -> None:
    buffer, array = tensor("x", F32, 3)
    i = Axis(0, 3)
    program = program_of(("r", load(array, counter(i)), (i,)), inputs={"x": buffer})
    x = np.array([0xFFC00001, 0x7F800001, 0xFF800000], np.uint32).view(np.float32)
    bits = reference.execute(program, {"x": x}).outputs["output"].view(np.uint32)
    assert bits.tolist() == [0x7FC00000, 0x7FC00000, 0xFF800000]


def counting() -> Program:
    """A state of four numbers to which x[n] is added at place n, and the sum of the first n; n moves by one."""
    count = Named("n", Bounds(0, 3))
    n = node(Op.VAR, INDEX, arg=count)
    s, x = Array("s", F32, 4), Array("x", F32, 4)
    i, k = Axis(0, 4), Axis(1, 3, True)
    here = binary(Op.CMPEQ, counter(i), n)
    new = binary(Op.ADD, load(s, counter(i)), node(Op.WHERE, F32, here, load(x, counter(i)), const(F32, 0)))
    total = reduction(Op.REDUCE_ADD, (k,), load(s, counter(k)), extents=(n,))
    calls = [("new", to_body(new, (i,))), ("total", to_body(total, ()))]
    externals = {"s": Buffer(Role.STATE, F32, (4,), "s"), "x": Buffer(Role.INPUT, F32, (4,), "x")}
    results = {(Kind.OUTPUT, "total"): ("total", ()), (Kind.STATE, "s"): ("new", (4,))}
    return assemble(calls, externals, results, [Variable("n", 0, 3, 1)], max_repeat=4)


def test_states_are_fed_back_and_variables_move_in_a_repeat() -> None:
    x, s = np.array([1, 2, 4, 8], np.float32), np.zeros(4, np.float32)
    once = reference.execute(counting(), {"x": x, "s": s}, {"n": 1})
    assert (once.outputs["total"].tolist(), once.states["s"].tolist()) == (0.0, [0, 2, 0, 0])
    all_four = reference.execute(counting(), {"x": x, "s": s}, {"n": 0}, repeat=4)
    assert (all_four.outputs["total"].tolist(), all_four.states["s"].tolist()) == (7.0, [1, 2, 4, 8])
    assert s.tolist() == [0, 0, 0, 0]


def test_a_variable_that_would_leave_its_bounds_in_a_repeat_is_refused() -> None:
    tensors = {"x": np.zeros(4, np.float32), "s": np.zeros(4, np.float32)}
    with pytest.raises(BindingError):
        reference.execute(counting(), tensors, {"n": 1}, repeat=4)


def test_each_executed_call_is_observed_in_order() -> None:
    seen: list[tuple[int, list[float]]] = []
    tensors = {"x": np.ones(4, np.float32), "s": np.zeros(4, np.float32)}
    observe: Callable[[int, np.ndarray], None] = lambda number, result: seen.append((number, result.tolist()))  # noqa: E731
    reference.execute(counting(), tensors, {"n": 0}, repeat=2, observe=observe)
    assert seen == [(0, [1, 0, 0, 0]), (1, [0]), (2, [1, 1, 0, 0]), (3, [1])]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="sets a register of x86")
@pytest.mark.parametrize("mode", [0x8000, 0x0040, 0x2000, 0x4000, 0x6000])
def test_a_thread_that_flushes_small_floats_or_rounds_otherwise_is_refused(mode: int, tmp_path: Path) -> None:
    source, library = tmp_path / "mode.c", tmp_path / "mode.so"
    source.write_text("#include <xmmintrin.h>\nvoid set(unsigned bits) { _mm_setcsr(bits); }\n")
    subprocess.run(["clang", "-shared", "-fPIC", "-o", library, source], check=True)
    refused: list[ExecutionError] = []

    def attempt() -> None:
        set_mode = ctypes.CDLL(str(library)).set
        set_mode(0x1F80 | mode)
        try:
            reference.execute(counting(), {"x": np.ones(4, np.float32), "s": np.zeros(4, np.float32)}, {"n": 0})
        except ExecutionError as error:
            refused.append(error)

    thread = Thread(target=attempt)
    thread.start()
    thread.join()
    assert len(refused) == 1


def test_chosen_elements_of_a_call_are_those_of_the_whole() -> None:
    buffer, array = tensor("x", F32, 30, 40)
    i, k = Axis(0, 30), Axis(1, 40, True)
    value = reduction(Op.REDUCE_ADD, (k,), load(array, at((counter(i), 40), (counter(k), 1))))
    program = program_of(("r", value, (i,)), inputs={"x": buffer})
    x = np.random.default_rng(7).standard_normal((30, 40)).astype(np.float32)
    whole = reference.execute(program, {"x": x}).outputs["output"]
    chosen = np.array([29, 0, 7, 7])
    assert reference.elements(program, [x.ravel()], 0, chosen).tobytes() == whole[chosen].tobytes()
    assert reference.elements(program, [x.ravel()], 0, np.array([], np.int64)).shape == (0,)
