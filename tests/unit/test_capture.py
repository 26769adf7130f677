"""What TensorContext and capture promise and refuse; `here` marks the line that an error must name."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tinygrad import Tensor, TinyJit, UOp, dtypes, nn
from tinygrad.dtype import DType

from eigentensor import reference
from eigentensor.capture import GraphProgram, TensorContext, capture
from eigentensor.errors import CaptureError
from eigentensor.program.model import Role

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def lines_of(function: object, mark: str = "# here") -> str:
    lines, first = inspect.getsourcelines(function)  # type: ignore[arg-type]
    return f"{__file__}:{first + next(i for i, line in enumerate(lines) if mark in line)}"


def test_the_promised_example_works_twice_in_a_row() -> None:
    context = TensorContext()
    a = context.add_graph_input("matrix_a", (30, 20))
    b = context.add_graph_input("matrix_b", (20, 10))
    first, second = context.compile_to_graph(a @ b), context.compile_to_graph(a @ b)
    assert first.uuid == second.uuid
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        inputs = {"matrix_a": rng.random((30, 20), np.float32), "matrix_b": rng.random((20, 10), np.float32)}
        result = reference.execute(GraphProgram.from_bytes(first.to_bytes()).program, inputs).outputs["output"]
        assert np.allclose(result, inputs["matrix_a"] @ inputs["matrix_b"], rtol=1e-5)


def test_outputs_are_named_by_position_or_by_a_dict() -> None:
    context = TensorContext()
    x = context.add_graph_input("x", (3, 4))
    assert list(context.compile_to_graph(x + 1).program.outputs) == ["output"]
    assert list(context.compile_to_graph(x + 1, x * 2).program.outputs) == ["output_0", "output_1"]
    assert list(context.compile_to_graph({"sum": x.sum(), "both": x + 1}).program.outputs) == ["both", "sum"]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1)])
@pytest.mark.parametrize(
    "dtype", [dtypes.float32, dtypes.bool, dtypes.int64, dtypes.half, dtypes.uint8, dtypes.bfloat16]
)
def test_scalars_and_empty_tensors_of_every_type_pass_through(shape: tuple[int, ...], dtype: DType) -> None:
    context = TensorContext()
    program = context.compile_to_graph(context.add_graph_input("x", shape, dtype)).program
    storage = np.uint16 if dtype is dtypes.bfloat16 else np.dtype(dtype.fmt)
    x = np.ones(shape, storage)
    result = reference.execute(program, {"x": x}).outputs["output"]
    assert result.shape == shape and result.dtype == storage and np.array_equal(result, x)


def test_an_output_that_is_an_input_or_a_view_or_a_constant_is_written() -> None:
    context = TensorContext()
    x = context.add_graph_input("x", (3, 4))
    program = context.compile_to_graph(x, x.T, Tensor.eye(3), x[1:, ::2]).program
    outputs = reference.execute(program, {"x": X}).outputs
    arrays: list[NDArray[Any]] = [X, X.T, np.eye(3), X[1:, ::2]]
    for name, expected in zip(outputs, arrays, strict=True):
        assert np.array_equal(outputs[name], expected)


HALVES = Tensor(np.arange(12, dtype=np.float32)).realize()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x[1:3].contiguous() + 1, X[1:3] + 1),
        (lambda x: x[1:3].bitcast(dtypes.int32).contiguous() + 1, X[1:3].view(np.int32) + 1),
        (lambda x: x + HALVES[4:8], X + np.arange(4, 8)),
        (lambda x: x.bitcast(dtypes.uint8), X.view(np.uint8)),
    ],
)
def test_parts_of_buffers_are_read_where_they_are(function: Callable[[Tensor], Tensor], expected: np.ndarray) -> None:
    graph = capture(function, [X])
    assert np.array_equal(reference.execute(graph.program, {"x": X, **graph.weights}).outputs["output"], expected)


def rows(x: Tensor) -> None:
    x[1:3].assign(x[1:3] * 2)


def mirror(x: Tensor) -> None:
    x.flip(0).assign(x * 2)


def transposed(x: Tensor) -> None:
    x.T.assign(Tensor.ones(4, 3) * 3)


@pytest.mark.parametrize(
    ("assign", "expected"),
    [(rows, np.vstack([X[:1], X[1:] * 2])), (mirror, X[::-1] * 2), (transposed, np.full_like(X, 3))],
)
def test_assignments_to_views_write_through(assign: Callable[[Tensor], None], expected: np.ndarray) -> None:
    def function(x: Tensor) -> Tensor:
        assign(x)
        return x + 0

    assert np.array_equal(reference.execute(capture(function, [X]).program, {"x": X}).outputs["output"], expected)


def test_what_tinygrad_cannot_schedule_is_a_refusal() -> None:
    def reinterpreted(x: Tensor) -> Tensor:
        bits = x.bitcast(dtypes.int32)
        bits.assign(bits + 1)
        return x + 0

    with pytest.raises(CaptureError, match="tinygrad cannot schedule"):
        capture(reinterpreted, [X])


def test_named_weights_stay_outside_and_small_data_inside() -> None:
    context = TensorContext()
    x, w = context.add_graph_input("x", (3, 4)), context.add_weight("w", Tensor(X.T.copy()))
    graph = context.compile_to_graph(x @ w + Tensor([1.0, 2.0, 3.0]) + Tensor(np.ones((3, 1000), np.float32)).sum(1))
    assert list(graph.weights) == ["data_0", "w"]
    assert [len(b.data) for b in graph.program.buffers if b.role is Role.CONSTANT] == [12]
    result = reference.execute(graph.program, {"x": X, **graph.weights}).outputs["output"]
    assert np.allclose(result, X @ X.T + [1, 2, 3] + 1000)


def test_a_state_takes_the_value_that_is_assigned_to_it() -> None:
    context = TensorContext()
    x, total = (
        context.add_graph_input("x", (4,)),
        context.add_state("total", (4,), initial=Tensor([1.0, 2.0, 3.0, 4.0])),
    )
    total.assign(total + x)
    graph = context.compile_to_graph(total.sum())
    results = reference.execute(graph.program, {"x": X[0], **graph.states})
    assert np.array_equal(results.states["total"], X[0] + [1, 2, 3, 4])
    assert results.outputs["output"] == 16


def test_a_state_that_is_never_assigned_is_refused() -> None:
    context = TensorContext()
    state = context.add_state("cache", (4,))
    with pytest.raises(CaptureError, match="'cache' is never assigned"):
        context.compile_to_graph(state + 1)


def test_a_strided_assignment_is_kept_or_refused_but_never_lost() -> None:
    def strided(x: Tensor) -> Tensor:
        x[:, ::2] = 7.0
        return x

    program = capture(strided, [X]).program
    expected = X.copy()
    expected[:, ::2] = 7
    assert np.array_equal(reference.execute(program, {"x": X}).outputs["output"], expected)


def test_a_model_in_the_closure_brings_its_weights_once() -> None:
    layer = nn.Linear(4, 2)
    tied = layer.weight
    graph = capture(lambda x: layer(x) @ tied, [X])
    assert sorted(graph.weights) == ["layer.bias", "layer.weight"]
    assert sorted(capture(lambda x: layer(x), [X], model=layer).weights) == ["bias", "weight"]


@pytest.mark.parametrize("n", [0, 1])
def test_a_region_may_move_along_several_axes(n: int) -> None:
    def function(x: Tensor, n: UOp) -> Tensor:
        x[n : n + 2, n + 1 : n + 2].assign(Tensor.ones(2, 1) * 50)
        return x + 0

    program = capture(function, [X], variables={"n": (0, 1)}).program
    expected = X.copy()
    expected[n : n + 2, n + 1] = 50
    assert np.array_equal(reference.execute(program, {"x": X}, {"n": n}).outputs["output"], expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64])
def test_indices_may_have_any_integer_type(dtype: type[np.integer]) -> None:
    rows = np.array([2, 0, 1, 2], dtype)
    program = capture(lambda x, rows: x[rows], [X, rows]).program
    assert np.array_equal(reference.execute(program, {"x": X, "rows": rows}).outputs["output"], X[[2, 0, 1, 2]])


def test_indices_outside_select_zero_however_large() -> None:
    rows = np.array([-3, 2, 3, -4, 1 << 62, -(1 << 63), 1 << 32], np.int64)
    program = capture(lambda x, rows: x[rows], [X, rows]).program
    expected = np.vstack([X[0], X[2], np.zeros((5, 4), np.float32)])
    assert np.array_equal(reference.execute(program, {"x": X, "rows": rows}).outputs["output"], expected)


class Odd:
    """Weights of unusual kinds: computed late, a view, a number without a type, a counter."""

    def __init__(self) -> None:
        self.late, self.ones = Tensor.arange(16).reshape(4, 4).float() + 1, Tensor.ones(4)
        self.view, self.half = self.late.T, Tensor(0.5)
        self.steps = Tensor(3, dtype=dtypes.int32)

    def __call__(self, x: Tensor) -> Tensor:
        self.steps.assign(self.steps + 1)
        return (x @ self.view + self.ones) * self.half


def test_weights_of_every_kind_have_their_values() -> None:
    graph = capture(Odd(), [X])
    assert sorted(graph.weights) == ["ones", "view"]
    results = reference.execute(graph.program, {"x": X, **graph.weights, **graph.states})
    assert np.array_equal(results.outputs["output"], (X @ np.arange(1, 17).reshape(4, 4).T + 1) / 2)
    assert results.states["steps"] == 4


def test_a_number_without_a_type_cannot_be_a_state() -> None:
    odd = Odd()
    odd.steps = Tensor(3)
    with pytest.raises(CaptureError, match="'steps' is assigned but has no type"):
        capture(odd, [X])


def test_weights_of_a_file_stay_in_the_file(tmp_path: Path) -> None:
    nn.state.safe_save({"w": Tensor(X.T.copy())}, str(tmp_path / "weights.safetensors"))
    loaded = nn.state.safe_load(tmp_path / "weights.safetensors")
    graph = capture(lambda x: x @ loaded["w"], [X], model=loaded)
    assert np.array_equal(graph.weights["w"], X.T)
    assert str(loaded["w"].device).startswith("DISK")


def test_variables_become_arguments() -> None:
    graph = capture(lambda x, row: x[row], [X], variables={"row": (0, 2)})
    for row in range(3):
        assert np.array_equal(reference.execute(graph.program, {"x": X}, {"row": row}).outputs["output"], X[row])


def test_small_results_get_a_fingerprint_of_the_large_intermediates() -> None:
    def classify(x: Tensor) -> Tensor:
        return (x @ Tensor.ones(4, 300)).contiguous().exp().contiguous().argmax(1)

    graph = capture(classify, [X])
    assert list(graph.program.outputs) == ["fingerprint", "output"]
    assert list(capture(classify, [X], fingerprint=False).program.outputs) == ["output"]
    one, other = (reference.execute(graph.program, {"x": x}).outputs["fingerprint"] for x in (X, np.nextafter(X, 99)))
    assert one.dtype == np.uint32 and one != other


def read(x: Tensor) -> Tensor:
    return x * x.sum().item()  # here


def wide(x: Tensor) -> Tensor:
    y = x.double()
    return (y * 2).float()  # here


def crooked(x: Tensor) -> Tensor:
    return x.reshape(5, 5)  # here


@pytest.mark.parametrize(
    ("function", "reason"),
    [(read, "the value of a tensor is read"), (wide, "float64 cannot be in a program"), (crooked, "ValueError")],
)
def test_what_cannot_be_captured_is_refused_with_the_line(function: object, reason: str) -> None:
    with pytest.raises(CaptureError, match=reason) as refused:
        capture(function, [X])  # type: ignore[arg-type]
    assert refused.value.line.rsplit(" ", 1)[-1] == lines_of(function)
    assert refused.value.fix


def test_a_region_that_is_no_box_is_refused_with_the_line_that_assigns() -> None:
    def quadratic(x: Tensor, n: UOp) -> Tensor:
        x[n * n : n * n + 1].assign(Tensor.ones(1, 4))  # here
        return x + 0

    with pytest.raises(CaptureError, match="not a box") as refused:
        capture(quadratic, [X], variables={"n": (0, 1)})
    assert refused.value.line == lines_of(quadratic)


def test_shapes_that_depend_on_a_variable_are_refused() -> None:
    with pytest.raises(CaptureError, match="depends on a variable"):
        capture(lambda x, n: x[:n], [X], variables={"n": (1, 3)})


def test_outputs_that_are_no_tensors_are_refused() -> None:
    with pytest.raises(CaptureError, match="is a float, not a Tensor"):
        capture(lambda x: 3.5, [X])


def test_a_float64_input_is_named_with_what_casts_it() -> None:
    with pytest.raises(CaptureError, match="the input 'x': float64 cannot be in a program") as refused:
        capture(lambda x: x * 2, {"x": np.zeros(3)})
    assert 'x.cast("float32")' in refused.value.fix and 'x.astype("float32")' in refused.value.fix
    assert refused.value.topic == "cast"  # the command adds its flag
    assert capture(lambda x: x * 2, {"x": np.zeros(3)}, cast="float32").cast == ("the tensor 'x'",)


WEIGHTS = np.ones((4, 4), np.float32)


@pytest.mark.parametrize(
    ("function", "what", "fix"),
    [
        (lambda x: np.dot(x, WEIGHTS), "is an array of NumPy, which took Tensors for mere objects", "x @ w for np.dot"),
        (lambda x: WEIGHTS * 2, "is an array of NumPy, whose values do not depend on the inputs", "Tensor(array)"),
        (lambda x: x.mean(0).astype(np.float32), "has no attribute 'astype'", "if NumPy is at work there"),
        (lambda x: np.sum(x), "unexpected keyword argument 'out'", "return Tensors"),
        (lambda x: np.where(x > 0, x, 0), "ValueError", "a.where(x, 0) for np.where"),
    ],
)
def test_numpy_in_a_function_is_refused_with_what_to_write(function: Any, what: str, fix: str) -> None:
    with pytest.raises(CaptureError, match=re.escape(what)) as refused:
        capture(function, {"x": np.ones((4, 4), np.float32)})
    assert fix in refused.value.fix
    assert refused.value.line.rpartition(":")[0] in ("", __file__)


def test_names_are_unique() -> None:
    context = TensorContext()
    context.add_graph_input("x", (2,))
    with pytest.raises(CaptureError, match="two tensors named 'x'"):
        context.add_weight("x", Tensor([1.0]))


def test_a_name_that_the_format_refuses_says_so() -> None:
    context = TensorContext()
    x = context.add_graph_input("a/b", (2,))
    with pytest.raises(CaptureError, match="name"):
        context.compile_to_graph(x + 1)


def test_another_release_of_tinygrad_is_refused() -> None:
    from eigentensor.capture.adapter import require_release

    require_release("0.14.0")
    with pytest.raises(CaptureError, match=r"0\.15\.0"):
        require_release("0.15.0")


def test_a_jit_is_seen_through_and_left_as_it_was() -> None:
    double = TinyJit(lambda x: (x * 2).realize())
    uuids = {capture(function, [X]).uuid for function in (double, double, lambda x: double(x))}
    assert len(uuids) == 1
    assert double.cnt == 0


def test_a_capture_inside_a_capture_is_refused() -> None:
    def outer(x: Tensor) -> Tensor:
        capture(lambda y: y + 1, [X])
        return x

    with pytest.raises(CaptureError, match="recording already"):
        capture(outer, [X])
    assert capture(lambda x: x + 1, [X]).program.outputs
