"""Operators where onnx's node tests do not look: other versions and types, extremes, several things at once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from eigentensor import reference
from eigentensor.capture import GraphProgram, import_onnx
from eigentensor.errors import CaptureError
from support.programs.onnx_models import HALF, INT64, model, node, normal, saved

Arrays = Mapping[str, np.ndarray[Any, Any]]
_random = np.random.default_rng(20261123)


def one(
    operator: str, inputs: Arrays, numbers: Arrays | None = None, opset: int = 20, count: int = 1, **attributes: Any
) -> onnx.ModelProto:
    """A model of one node; `numbers` are inputs that are constants."""
    names = {**inputs, **(numbers or {})}
    outputs = [f"y{i}" for i in range(count)]
    graph = helper.make_graph(
        [helper.make_node(operator, list(names), outputs, **attributes)],
        "graph",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in inputs.items()
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (numbers or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def results(made: onnx.ModelProto, inputs: Arrays, folder: Path) -> list[np.ndarray[Any, Any]]:
    graph: GraphProgram = import_onnx(saved(made, folder), fingerprint=False)
    outputs = reference.execute(graph.program, {**graph.weights, **inputs}).outputs
    return [outputs[output.name] for output in made.graph.output]


def same_as_onnx(made: onnx.ModelProto, inputs: Arrays, folder: Path) -> None:
    """onnx's own evaluator says the same, type and shape included."""
    for result, wanted in zip(
        results(made, inputs, folder), ReferenceEvaluator(made).run(None, dict(inputs)), strict=True
    ):
        assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_half_types_lie_in_int32_data_as_patterns(dtype: int, tmp_path: Path) -> None:
    made = model([node("Cast", ["x"], ["c"], to=dtype), node("Mul", ["c", "w"], ["y"])], {"x": (1, (3,))}, {"y": 1})
    made.graph.node.append(node("Cast", ["y"], ["z"], to=1))
    made.graph.output[0].name = "z"
    made.graph.initializer.append(helper.make_tensor("w", dtype, [3], [1.0, -2.5, 0.125]))
    assert made.graph.initializer[0].int32_data
    x = np.array([1, 2, 3], np.float32)
    assert results(made, {"x": x}, tmp_path)[0].tolist() == [1, -5, 0.375]


def integers(*shape: int, dtype: Any = np.uint8, most: int = 255) -> np.ndarray[Any, Any]:
    return _random.integers(0, most, shape).astype(dtype)


X = normal(2, 3, 7, 6)
#: Name, operator, inputs, numbers, opset, count of results, attributes.
ROWS: list[tuple[str, str, Arrays, Arrays, int, int, dict[str, Any]]] = [
    ("pads that make the same extent know dilations", "Conv", {"x": X, "w": normal(4, 3, 3, 2)}, {}, 22, 1,
     {"auto_pad": "SAME_UPPER", "dilations": [2, 3]}),
    ("a stride beyond the window pads nothing", "Conv", {"x": X, "w": normal(4, 3, 1, 1)}, {}, 22, 1,
     {"auto_pad": "SAME_UPPER", "strides": [3, 4]}),
    ("pads of integers are zero points", "ConvInteger",
     {"x": integers(1, 2, 5, 5), "w": integers(3, 2, 3, 3)}, {"z": np.array(7, np.uint8), "v": np.array(3, np.uint8)},
     10, 1, {"pads": [1, 1, 1, 1]}),
    ("zero points of rows", "MatMulInteger", {"x": integers(4, 5), "w": integers(5, 3)},
     {"z": integers(4, 1, most=9), "v": integers(3, most=9)}, 10, 1, {}),
    ("an average of what is there", "AveragePool", {"x": X}, {}, 22, 1,
     {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 2], "dilations": [2, 1]}),
    ("parts of which the last is smaller", "Split", {"x": normal(9)}, {}, 18, 4, {"num_outputs": 4}),
    ("the least of unsigned numbers", "ArgMin", {"x": integers(5, 6)}, {}, 13, 1, {"axis": 1}),
    ("the least of the least number", "ArgMin", {"x": np.array([3, -128, 5], np.int8)}, {}, 13, 1, {}),
    ("an exponential that overflows", "ReduceLogSumExp", {"x": normal(3, 4) * 100}, {"a": np.array([1])}, 18, 1,
     {}),
    ("a mean of integers", "ReduceMean", {"x": _random.integers(-50, 50, (3, 5)).astype(np.int32)},
     {"a": np.array([1])}, 18, 1, {}),
    ("infinities are shrunk to themselves", "Shrink", {"x": np.array([np.inf, -np.inf, 0.3, 2], np.float32)}, {}, 9,
     1, {"bias": 0.5, "lambd": 1.0}),
    ("axes from the end among axes from the beginning", "Unsqueeze", {"x": normal(2, 3)}, {"a": np.array([-1, 0])},
     13, 1, {}),
    ("an eye beside the diagonal", "EyeLike", {"x": normal(4, 4)}, {}, 22, 1, {"k": -1}),
    ("an eye that is not square", "EyeLike", {"x": normal(3, 5)}, {}, 22, 1, {"k": 1}),
    ("each group has a scale", "GroupNormalization", {"x": X[:, :2], "s": normal(2), "b": normal(2)}, {}, 21, 1,
     {"num_groups": 2}),
    ("a batch of lists is normalised in training", "BatchNormalization",
     {"x": normal(6, 3), "s": normal(3), "b": normal(3), "m": normal(3), "v": np.abs(normal(3))}, {}, 15, 3,
     {"training_mode": 1}),
    ("corners meet when it shrinks", "Resize", {"x": X}, {"r": np.array([], np.float32),
     "s": np.array([1, 1, 0.6, 0.5], np.float32)}, 19, 1,
     {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
]  # fmt: skip
CASES = {
    name: (one(operator, inputs, numbers, opset, count, **attributes), inputs)
    for name, operator, inputs, numbers, opset, count, attributes in ROWS
}


@pytest.mark.parametrize("name", CASES)
def test_it_means_what_onnx_says(name: str, tmp_path: Path) -> None:
    made, inputs = CASES[name]
    same_as_onnx(made, inputs, tmp_path)


def test_indices_of_a_pool_count_through_the_whole_tensor_and_bring_it_back(tmp_path: Path) -> None:
    x = normal(2, 3, 6, 4)
    made = one("MaxPool", {"x": x}, opset=12, count=2, kernel_shape=[2, 2], strides=[2, 2])
    made.graph.output[1].type.tensor_type.elem_type = INT64
    largest, at = results(made, {"x": x}, tmp_path)
    assert (x.ravel()[at] == largest).all() and at.dtype == np.int64
    made = one("MaxPool", {"x": x}, opset=12, count=2, kernel_shape=[2, 2], strides=[2, 2], storage_order=1)
    largest, columns = results(made, {"x": x}, tmp_path)
    assert (x.transpose(0, 1, 3, 2).ravel()[columns] == largest).all()
    made = one("MaxUnpool", {"x": largest, "i": at}, opset=11, kernel_shape=[2, 2], strides=[2, 2])
    (back,) = results(made, {"x": largest, "i": at}, tmp_path)
    assert (back == np.where(np.isin(np.arange(x.size).reshape(x.shape), at), x, 0)).all()


def test_before_opset_13_softmax_is_of_all_dimensions_from_the_axis_on(tmp_path: Path) -> None:
    x = normal(2, 3, 4)
    flat = np.exp(x.reshape(2, 12) - x.reshape(2, 12).max(1, keepdims=True))
    wanted = (flat / flat.sum(1, keepdims=True)).reshape(x.shape)
    for operator, expected in (("Softmax", wanted), ("LogSoftmax", np.log(wanted))):
        (result,) = results(one(operator, {"x": x}, opset=11), {"x": x}, tmp_path)
        np.testing.assert_allclose(result, expected, rtol=1e-5)
    (result,) = results(one("Hardmax", {"x": x}, opset=11), {"x": x}, tmp_path)
    assert (result.reshape(2, 12).argmax(1) == x.reshape(2, 12).argmax(1)).all() and result.sum() == 2


def test_upsample_and_the_first_resize_repeat_elements(tmp_path: Path) -> None:
    x = normal(1, 2, 3, 5)
    scales = {"s": np.array([1, 1, 2, 3], np.float32)}
    for operator, opset in (("Upsample", 9), ("Resize", 10)):
        (result,) = results(one(operator, {"x": x}, scales, opset), {"x": x}, tmp_path)
        assert (result == x.repeat(2, 2).repeat(3, 3)).all()


def test_a_tensor_stays_what_it_is_where_another_node_scatters_into_it(tmp_path: Path) -> None:
    nodes = [node("ScatterND", ["x", "i", "u"], ["a"]), node("Add", ["x", "a"], ["y"])]
    weights = {"i": np.array([[1], [-1]]), "u": np.array([10, 20], np.float32)}
    made = model(nodes, {"x": (1, (4,))}, {"y": 1}, weights)
    x = np.arange(4, dtype=np.float32)
    assert results(made, {"x": x}, tmp_path)[0].tolist() == [0, 11, 4, 23]


def test_what_is_not_wanted_of_a_node_is_nobody_s_input(tmp_path: Path) -> None:
    """An empty name is no tensor, though a node gave a result there."""
    nodes = [node("MaxPool", ["x"], ["m", ""], kernel_shape=[1]), node("Clip", ["m", "", "top"], ["y"])]
    x = normal(1, 1, 5)
    made = model(nodes, {"x": (1, x.shape)}, {"y": 1}, {"top": np.array(0, np.float32)})
    assert (results(made, {"x": x}, tmp_path)[0] == np.minimum(x, 0)).all()


def test_the_branch_of_a_known_condition_reads_weights_around_it(tmp_path: Path) -> None:
    branches = {
        name: helper.make_graph(
            [node(operator, ["x", "w"], ["z"])], name, [], [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)]
        )
        for name, operator in (("then_branch", "Add"), ("else_branch", "NonZero"))
    }
    made = model([node("If", ["holds"], ["y"], **branches)], {"x": (1, (3,))}, {"y": 1},
                 {"w": np.arange(3, dtype=np.float32), "holds": np.array(True)})  # fmt: skip
    x = normal(3)
    graph = import_onnx(saved(made, tmp_path), fingerprint=False)
    assert list(graph.weights) == ["w"]
    assert (reference.execute(graph.program, {**graph.weights, "x": x}).outputs["y"] == x + graph.weights["w"]).all()
    made.graph.initializer[1].raw_data = b"\0"
    with pytest.raises(CaptureError, match="NonZero"):
        import_onnx(saved(made, tmp_path))
    undecided = model([node("If", ["holds"], ["y"], **branches)], {"x": (1, (3,)), "holds": (9, ())}, {"y": 1},
                  {"w": np.arange(3, dtype=np.float32)})  # fmt: skip
    with pytest.raises(CaptureError, match="the operator If takes numbers that depend on an input: 'holds'"):
        import_onnx(saved(undecided, tmp_path))


def test_extremes_of_signs(tmp_path: Path) -> None:
    x = np.array([np.nan, -np.inf, -1e-40, -0.0, 3], np.float32)
    assert np.array_equal(results(one("Sign", {"x": x}, opset=13), {"x": x}, tmp_path)[0], np.sign(x), equal_nan=True)


def test_scales_of_groups_before_opset_21(tmp_path: Path) -> None:
    x, scale, bias = normal(2, 6, 3), normal(2), normal(2)
    inputs = {"x": x, "s": scale, "b": bias}
    (result,) = results(one("GroupNormalization", inputs, opset=18, num_groups=2), inputs, tmp_path)
    groups = x.reshape(2, 2, 9)
    normed = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + 1e-5)
    np.testing.assert_allclose(result.reshape(2, 2, 9), normed * scale[:, None] + bias[:, None], rtol=1e-4, atol=1e-5)


floats = st.integers(0, 2**32 - 1).map(lambda bits: np.uint32(bits).view(np.float32))


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(a=st.lists(floats, min_size=64, max_size=64), b=st.lists(floats, min_size=64, max_size=64), fmod=st.booleans())
def test_a_rest_of_floats_is_exact(a: list[Any], b: list[Any], fmod: bool, tmp_path: Path) -> None:
    inputs = {"a": np.array(a, np.float32), "b": np.array(b, np.float32)}
    (result,) = results(one("Mod", inputs, opset=28, fmod=int(fmod)), inputs, tmp_path)
    with np.errstate(all="ignore"):
        wanted = (np.fmod if fmod else np.mod)(inputs["a"], inputs["b"])
    np.testing.assert_array_equal(result, wanted)
    assert (np.signbit(result) == np.signbit(wanted))[~np.isnan(wanted)].all()


def test_quantised_ties_go_to_even(tmp_path: Path) -> None:
    x = np.arange(-5, 6, dtype=np.float32) * 0.5
    made = one("QuantizeLinear", {"x": x}, {"s": np.array(1, np.float32), "z": np.array(10, np.uint8)}, 21)
    assert results(made, {"x": x}, tmp_path)[0].tolist() == (np.rint(x) + 10).tolist()
    x = np.concatenate([normal(4000) * 3, np.array([0], np.float32)]).astype(np.float32)
    for result, wanted in zip(
        results(one("DynamicQuantizeLinear", {"x": x}, opset=11, count=3), {"x": x}, tmp_path),
        ReferenceEvaluator(one("DynamicQuantizeLinear", {"x": x}, opset=11, count=3)).run(None, {"x": x}),
        strict=True,
    ):
        assert (result == wanted).all()


def test_a_product_of_half_types_is_rounded_once(tmp_path: Path) -> None:
    inputs = {"a": normal(5, 40).astype(np.float16), "b": normal(40, 6).astype(np.float16)}
    (result,) = results(one("MatMul", inputs, opset=13), inputs, tmp_path)
    exact = inputs["a"].astype(np.float64) @ inputs["b"].astype(np.float64)
    assert (np.abs(result - exact) <= np.spacing(np.abs(exact).astype(np.float16)) * 0.51 + 1e-6).all()
    assert result.dtype == helper.tensor_dtype_to_np_dtype(HALF)


@pytest.mark.parametrize(
    ("operator", "inputs", "opset", "attributes", "why"),
    [
        ("NonMaxSuppression", {"b": normal(1, 4, 4), "s": normal(1, 1, 4)}, 11, {}, "NonMaxSuppression"),
        ("Unique", {"x": normal(4)}, 11, {}, "Unique"),
        ("NonZero", {"x": normal(4)}, 13, {}, "NonZero"),
        ("Add", {"x": normal(2, 3), "y": normal(2)}, 6, {"broadcast": 1, "axis": 0}, "opset 6"),
        ("Relu", {"x": normal(2)}, 99, {}, "opset 99"),
        ("Dropout", {"x": normal(2)}, 1, {}, "opset 1"),
        ("Squeeze", {"x": normal(2, 1)}, 11, {"axes": [0]}, "axes"),
        ("GlobalLpPool", {"x": X}, 22, {}, "GlobalLpPool"),
    ],
)
def test_what_would_be_another_model_is_refused_by_name(
    operator: str, inputs: dict[str, Any], opset: int, attributes: dict[str, Any], why: str, tmp_path: Path
) -> None:
    with pytest.raises(CaptureError, match=f"{operator}.*{why}|{why}") as refused:
        results(one(operator, inputs, None, opset, **attributes), inputs, tmp_path)
    assert operator in str(refused.value)
