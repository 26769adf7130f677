"""Captured graphs, layers of real size and every method of tinygrad's Tensor: each call has the reference's bits."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from tinygrad import Tensor, nn

from eigentensor.capture import GraphProgram, capture
from support.conformance.answers import committed, hash_of
from support.oracles.agreement import disagreements
from support.programs.captured import NAMES, graphs, integers, normal
from support.programs.models import Digits, Layer
from support.programs.tensor_methods import EXAMPLES
from support.vectors.ops import captured, function_of, quick

METHODS = quick()


def agrees(graph: GraphProgram, inputs: Mapping[str, Any], **more: Any) -> None:
    tensors = {**graph.weights, **graph.states, **inputs}
    assert disagreements(graph.program, tensors, **more) == []


@pytest.mark.parametrize("name", NAMES)
def test_captured_graphs(name: str) -> None:
    graph = graphs()[name]
    made = graph.captured()
    assert hash_of(made.program) == committed()[f"graph {name}"].program  # what a GPU is held to is this program
    for low, high, *_ in graph.variables.values() or [(0, 0)]:
        for position in {low, high}:
            agrees(made, graph.inputs, variables=dict.fromkeys(graph.variables, position))


def test_products_of_bytes() -> None:
    a, b = integers(-128, 128, 9, 20, dtype=np.int8), integers(-128, 128, 20, 17, dtype=np.int8)
    agrees(capture(lambda a, b: a @ b, {"a": a, "b": b}), {"a": a, "b": b})


def test_a_sort() -> None:
    x = normal(3, 16)
    agrees(capture(lambda x: x.sort(1)[0], {"x": x}), {"x": x})


@pytest.mark.slow
@pytest.mark.parametrize(("width", "length"), [(384, 128), (768, 1)])
def test_a_transformer_layer(width: int, length: int) -> None:
    layer, x = Layer(width, 12), normal(1, length, width)
    agrees(capture(layer, {"x": x}, model=layer), {"x": x})


@pytest.mark.slow
def test_convolutions() -> None:
    layers = [nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1, stride=2), nn.Conv2d(64, 64, 3)]

    def network(images: Tensor) -> Tensor:
        for layer in layers:
            images = layer(images).relu()
        return images.mean((2, 3))

    for model, images in ((network, normal(3, 3, 33, 35)), (Digits(), normal(99, 1, 8, 8))):
        agrees(capture(model, {"images": images}), {"images": images})


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_method_of_tensor(method: str) -> None:
    agrees(captured(EXAMPLES[method]), function_of(EXAMPLES[method])[1])
