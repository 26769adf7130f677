"""Functions of tinygrad as graphs: what the planner searches gives what capture's programs give."""

import numpy as np
import pytest
from tinygrad import Tensor, nn

from eigentensor.capture import capture_graph
from eigentensor.errors import CaptureError
from eigentensor.graph.lower import lower
from eigentensor.graph.node import Form, walk
from eigentensor.program.ops import REDUCTIONS
from eigentensor.reference import execute
from support.programs import captured as captured_graphs
from support.programs.captured import normal

EQUAL = [
    "matmul",
    "matmul of half",
    "matmul of integers",
    "matmul of wide integers",
    "gelu mlp",
    "long sum",
    "bfloat16",
]
SAME = ["softmax", "layernorm", "attention", "embedding", "cumsum", "argmax", "wide integers", "digits", "convolution"]


@pytest.mark.parametrize("name", EQUAL)
def test_a_graph_is_the_program_that_capture_makes(name: str) -> None:
    example = captured_graphs.graphs()[name]
    assert lower(capture_graph(example.function, example.inputs)).to_bytes() == example.captured().to_bytes()


@pytest.mark.parametrize("name", SAME)
def test_a_graph_has_the_bits_of_the_captured_program(name: str) -> None:
    example = captured_graphs.graphs()[name]
    graph, captured = lower(capture_graph(example.function, example.inputs)), example.captured()
    assert len(graph.program.calls) <= len(captured.program.calls) + 1
    ours, theirs = (execute(of.program, example.bound(of)).outputs["output"] for of in (graph, captured))
    assert ours.shape == theirs.shape
    assert ours.tobytes() == theirs.tobytes()


def test_a_gradient_is_near_what_the_scheduler_makes_of_it() -> None:
    example = captured_graphs.graphs()["cross-entropy with its gradient"]
    graph, captured = lower(capture_graph(example.function, example.inputs)), example.captured()
    ours, theirs = (execute(of.program, example.bound(of)).outputs for of in (graph, captured))
    for name in ("output_0", "output_1"):
        np.testing.assert_allclose(ours[name], theirs[name], 1e-4, 1e-6)


def test_a_look_up_is_a_gather_and_a_range_a_counter() -> None:
    table = nn.Embedding.__new__(nn.Embedding)
    table.weight = Tensor(normal(5_000, 4))

    def function(tokens: Tensor) -> Tensor:
        return table(tokens) + Tensor.arange(3).reshape(3, 1)

    graph = capture_graph(function, {"tokens": np.zeros((2, 3), np.int32)})
    ops = [n.op for n in walk(*graph.roots)]
    assert Form.GATHER in ops
    assert Form.COUNTER in ops
    assert not REDUCTIONS.intersection(ops)


def test_weights_keep_their_names_and_data_without_one_get_one() -> None:
    model, unnamed = {"weight": Tensor(normal(40, 30))}, normal(30, 20)
    graph = capture_graph(lambda x: x @ model["weight"] @ Tensor(unnamed), {"x": normal(2, 40)}, model)
    assert sorted(graph.data) == ["data_0", "weight"]
    assert graph.data["data_0"].tobytes() == unnamed.tobytes()


def test_what_a_graph_has_not_is_refused() -> None:
    def reading(x: Tensor) -> Tensor:
        return x * x.sum().item()

    with pytest.raises(CaptureError) as refusal:
        capture_graph(reading, {"x": normal(3)})
    assert refusal.value.fix
    assert "test_capture_graph.py:" in refusal.value.line
