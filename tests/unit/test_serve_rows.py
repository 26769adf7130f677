"""Rows of a request: filled up before a task, cut out of its outputs; and what a schema says of them."""

from dataclasses import replace

import jsonschema_rs
import numpy as np
import pytest
from tinygrad import Tensor

from eigentensor.capture import GraphProgram, capture
from eigentensor.errors import BindingError
from eigentensor_client.orders import Terms
from eigentensor_serve.apps import schema
from eigentensor_serve.apps.deployment import Parts, with_rows
from eigentensor_serve.apps.models import Embeddings
from eigentensor_serve.apps.registry import App
from eigentensor_serve.backend import Ask
from eigentensor_serve.rows import Cut, Rows

ROWS = Rows(4, ("x", "y"), ("sum",))
X, Y = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([7, 8], np.int32)


@pytest.fixture(scope="module")
def graph() -> GraphProgram:
    def summed(x: Tensor, y: Tensor, scale: Tensor) -> dict[str, Tensor]:
        return {"sum": x.sum(1) * scale + y, "twice": scale * 2}

    tensors = {"x": np.zeros((4, 3), np.float32), "y": np.zeros(4, np.int32), "scale": np.float32(1)}
    return capture(summed, tensors, fingerprint=False)


def test_rows_that_are_missing_are_zeros_and_are_cut_off_again() -> None:
    scale = np.float32(2)
    filled, cut = ROWS.filled({"x": X, "y": Y, "scale": np.asarray(scale)})
    assert cut == Cut(2, ("sum",))
    assert filled["x"].tolist() == [*X.tolist(), [0, 0, 0], [0, 0, 0]] and filled["x"].dtype == np.float32
    assert filled["y"].tolist() == [7, 8, 0, 0] and filled["scale"] == 2
    whole = {"sum": np.arange(4), "twice": np.array([1, 2, 3, 4])}
    assert {name: array.tolist() for name, array in cut.of(whole).items()} == {"sum": [0, 1], "twice": [1, 2, 3, 4]}


def test_all_rows_are_taken_as_they_are() -> None:
    tensors = {"x": np.zeros((4, 3), np.float32), "y": np.zeros(4, np.int32)}
    assert ROWS.filled(tensors) == (tensors, None)


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        (X, Y[:1], "other numbers of rows: x 2, y 1"),
        (X[:0], Y[:0], "0 rows, in a request there are 1 to 4"),
        (np.zeros((5, 3)), np.zeros(5), "5 rows, in a request there are 1 to 4"),
    ],
)
def test_other_numbers_of_rows_are_refused(x: np.ndarray, y: np.ndarray, says: str) -> None:
    with pytest.raises(BindingError, match=says):
        ROWS.filled({"x": x, "y": y})


def test_what_else_is_wrong_is_left_to_others() -> None:
    for tensors in ({}, {"x": np.float32(1)}, {"z": X}):
        assert ROWS.filled(tensors) == (tensors, None)  # type: ignore[arg-type]


def test_a_program_has_rows_where_they_keep_apart(graph: GraphProgram) -> None:
    parts = Parts(graph.program, {}, {}, None)
    assert with_rows(parts, []) is parts
    assert with_rows(parts, ["x", "y"]).rows == ROWS
    mixed = capture(lambda x: x - x.mean(0), {"x": np.zeros((4, 3), np.float32)})
    with pytest.raises(BindingError, match="do not keep apart"):
        with_rows(replace(parts, program=mixed.program), ["x"])
    with pytest.raises(BindingError, match="its texts"):
        with_rows(replace(parts, model=Embeddings("t")), ["x"])


def test_the_schema_admits_so_many_rows_as_there_are(graph: GraphProgram) -> None:
    validator = jsonschema_rs.Draft202012Validator(schema.input_schema(graph.program, ROWS))
    example = schema.example(graph.program, ROWS)
    assert example["inputs"]["x"] == [[0, 0, 0]] and validator.is_valid(example)

    def packed(*shape: int) -> dict[str, object]:
        return {"dtype": "float32", "shape": list(shape), "data": "AAAA"}

    for rows, is_valid in ((0, False), (1, True), (4, True), (5, False)):
        for x in ([[0, "NaN", 1.5]] * rows, packed(rows, 3)):
            assert validator.is_valid({"inputs": {"x": x, "y": [0] * rows, "scale": 1}}) is is_valid
    assert not validator.is_valid({"inputs": {"x": packed(2, 4), "y": [0, 0], "scale": 1}})
    assert schema.rows_word((4, 3), "x", ROWS) == "[1 to 4, 3]" and schema.rows_word((4, 3), "z", ROWS) == "[4, 3]"


def test_rows_are_kept_with_an_app_and_make_another_request(graph: GraphProgram) -> None:
    app = App("a", 1, "2026-11-22T09:00:00Z", graph.uuid, rows=ROWS)
    assert App.from_json(app.to_json()) == app
    before = {name: value for name, value in app.to_json().items() if name != "rows"}
    assert App.from_json(before) == replace(app, rows=None)
    ask = Ask(graph.program, graph.uuid, {}, Terms(0))
    asks = (ask, replace(ask, cut=Cut(1, ("sum",))), replace(ask, cut=Cut(2, ("sum",))))
    assert len({ask.fingerprint for ask in asks}) == 3
