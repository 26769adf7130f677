"""ONNX files made to hurt: each import ends soon, with a program or with one typed line."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from eigentensor.capture import GraphProgram, import_onnx
from eigentensor.errors import CaptureError, EigenTensorError
from support.programs.onnx_models import saved
from support.vectors.onnx import cases, inputs_of, part_of, table, with_constants

EXTREME = [s * 2**p + d for p in (0, 1, 3, 16, 31, 32, 47, 62) for s in (1, -1) for d in (0, -1)]


def imported(made: onnx.ModelProto, folder: Path) -> GraphProgram | None:
    """The program, or None if the model is refused in one line."""
    try:
        return import_onnx(saved(made, folder), fingerprint=False)
    except EigenTensorError as error:
        assert "\n" not in str(error) and error.fix
        return None


def layer_normalization(axis: int) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("LayerNormalization", ["x", "s"], ["y"], axis=axis)],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "s")],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_an_axis_far_outside_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"LayerNormalization cannot be imported: axis -140737488355328"):
        import_onnx(saved(layer_normalization(-(2**47)), tmp_path))


@cache
def small() -> list[onnx.ModelProto]:
    """Models of one operator each; inputs that are taken as numbers are constants, so that all of it is in the file."""
    models = []
    for row in table():
        if row.status == "passes" and not row.cast and part_of(row.test) == 0:
            case = cases()[row.test]
            assert case.model is not None
            models.append(with_constants(case.model, inputs_of(case, row.constants)))
    return models


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_extreme_numbers_in_attributes_shapes_and_constants_end_in_a_program_or_a_line(
    data: st.DataObject, tmp_path: Path
) -> None:
    made = onnx.ModelProto()
    made.CopyFrom(data.draw(st.sampled_from(small())))
    places: list[Any] = []
    for node in made.graph.node:
        places += [(a, "i", None) for a in node.attribute if a.type == onnx.AttributeProto.INT]
        places += [(a, "ints", i) for a in node.attribute for i in range(len(a.ints))]
        places += [(a, "f", None) for a in node.attribute if a.type == onnx.AttributeProto.FLOAT]
    for value in made.graph.input:
        places += [(d, "dim_value", None) for d in value.type.tensor_type.shape.dim]
    for tensor in made.graph.initializer:
        places += [(tensor, "dims", i) for i in range(len(tensor.dims))]
        if tensor.data_type == TensorProto.INT64:
            places += [(tensor, "raw_data", i) for i in range(len(tensor.raw_data) // 8)]
    for _ in range(data.draw(st.integers(1, 2)) if places else 0):
        message, field, at = data.draw(st.sampled_from(places))
        number = data.draw(st.sampled_from(EXTREME))
        if field == "raw_data":
            numbers = np.frombuffer(message.raw_data, np.int64).copy()
            numbers[at] = number
            message.raw_data = numbers.tobytes()
        elif at is None:
            setattr(message, field, number)
        else:
            getattr(message, field)[at] = number
    imported(made, tmp_path)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_bytes_end_in_a_program_or_a_line(data: st.DataObject, tmp_path: Path) -> None:
    content = bytearray(data.draw(st.sampled_from(small())).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "model.onnx"
    path.write_bytes(bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))]))
    try:
        import_onnx(path, fingerprint=False)
    except EigenTensorError as error:
        assert "\n" not in str(error) and error.fix


def field(number: int, content: bytes) -> bytes:
    size, length = len(content), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def test_graphs_within_graphs_are_bounded(tmp_path: Path) -> None:
    graph = b""
    for _ in range(2000):  # a node whose attribute is the graph so far
        graph = field(1, field(4, b"If") + field(5, field(1, b"then_branch") + field(6, graph) + b"\xa0\x01\x05"))
    path = tmp_path / "model.onnx"
    path.write_bytes(field(7, graph))
    with pytest.raises(CaptureError, match="graphs stand within graphs more than 16 deep"):
        import_onnx(path)


def test_a_length_beyond_the_file_makes_no_room(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    for content in (b"\x3a\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x3a" + b"\xff" * 9 + b"\x01", b"\x3a" + b"\xff" * 30):
        path.write_bytes(content)
        with pytest.raises(CaptureError, match=r"model\.onnx is not an ONNX model that can be read"):
            import_onnx(path)


def test_names_are_unique_and_computed_before_they_are_read(tmp_path: Path) -> None:
    made = layer_normalization(1)
    made.graph.node[0].input[0] = "y"
    with pytest.raises(CaptureError, match="nothing computes 'y' before it is read"):
        import_onnx(saved(made, tmp_path))
    made = layer_normalization(1)
    made.graph.node.append(made.graph.node[0])
    with pytest.raises(CaptureError, match="two tensors have the name 'y'"):
        import_onnx(saved(made, tmp_path))


def test_numbers_are_not_computed_from_more_than_a_model_needs(tmp_path: Path) -> None:
    nodes = [
        helper.make_node(
            "ConstantOfShape", ["n"], ["ones"], value=helper.make_tensor("v", TensorProto.INT64, [1], [1])
        ),
        helper.make_node("ReduceSum", ["ones"], ["total"], keepdims=0),
        helper.make_node("Range", ["zero", "total", "one"], ["y"]),
    ]
    numbers = {"n": [1 << 31], "zero": 0, "one": 1}
    constants = [onnx.numpy_helper.from_array(np.array(v, np.int64), name) for name, v in numbers.items()]
    output = helper.make_tensor_value_info("y", TensorProto.INT64, None)
    made = helper.make_model(helper.make_graph(nodes, "g", [], [output], constants), ir_version=8)
    made.opset_import[0].version = 18
    with pytest.raises(CaptureError, match="'total' is computed from more than"):
        import_onnx(saved(made, tmp_path))
