"""Captured networks: every buffer of every call has the reference's bits."""

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tinygrad import Tensor, dtypes, nn
from tinygrad.helpers import Context

from bench_runtime import Block
from eigentensor.capture import GraphProgram, capture
from eigentensor.testing.agreement import disagreements

SOME = np.random.default_rng(5)


def floats(*shape: int) -> np.ndarray:
    return SOME.standard_normal(shape, dtype=np.float32)


def bytes_of(*shape: int) -> np.ndarray:
    return SOME.integers(-128, 128, shape).astype(np.int8)


def agrees(graph: GraphProgram, inputs: Mapping[str, Any], **more: Any) -> None:
    tensors = {**graph.weights, **graph.states, **inputs}
    assert disagreements(graph.program, tensors, **more) == []


def gelu_layer(x: Tensor, up: Tensor, down: Tensor) -> Tensor:
    return (x @ up).gelu() @ down


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return q.scaled_dot_product_attention(k, v, is_causal=True)


def embedding(tokens: Tensor, table: Tensor) -> Tensor:
    return table[tokens]


def half_product(x: Tensor, y: Tensor) -> Tensor:
    return x.half() @ y.half()


def brain_product(x: Tensor, y: Tensor) -> Tensor:
    return (x.cast(dtypes.bfloat16) @ y.cast(dtypes.bfloat16)).relu()


def int_product(x: Tensor, y: Tensor) -> Tensor:
    return x @ y


FUNCTIONS: list[tuple[Callable[..., Tensor], tuple[np.ndarray, ...]]] = [
    (gelu_layer, (floats(5, 24), floats(24, 40), floats(40, 24))),
    (attention, (floats(2, 9, 16), floats(2, 9, 16), floats(2, 9, 16))),
    (lambda x: x.layernorm(), (floats(6, 300),)),
    (lambda x: x.softmax(), (floats(3, 700) * 9,)),
    (embedding, (SOME.integers(0, 11, (3, 4)).astype(np.int32), floats(11, 20))),
    (half_product, (floats(7, 33), floats(33, 18))),
    (brain_product, (floats(7, 33), floats(33, 18))),
    (int_product, (bytes_of(9, 20), bytes_of(20, 17))),
    (lambda x: x.cumsum(1), (floats(3, 70),)),
    (lambda x: x.argmax(1), (floats(5, 65),)),
    (lambda x: x.sort(1)[0], (floats(3, 16),)),
    (lambda x, w: x.conv2d(w, padding=1).relu().max_pool2d(), (floats(2, 3, 10, 10), floats(8, 3, 3, 3))),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_functions(number: int) -> None:
    function, inputs = FUNCTIONS[number]
    graph = capture(function, inputs)
    names = function.__code__.co_varnames[: len(inputs)]
    agrees(graph, dict(zip(names, inputs, strict=True)))


@pytest.mark.slow
@pytest.mark.parametrize(("width", "length"), [(384, 128), (768, 1)])
def test_a_transformer_layer(width: int, length: int) -> None:
    layer, x = Block(width, 12), floats(1, length, width)
    agrees(capture(layer, {"x": x}, model=layer), {"x": x})


@pytest.mark.slow
def test_convolutions_of_colour_images() -> None:
    layers = [nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1, stride=2), nn.Conv2d(64, 64, 3)]

    def network(images: Tensor) -> Tensor:
        for layer in layers:
            images = layer(images).relu()
        return images.mean((2, 3))

    images = floats(3, 3, 33, 35)
    agrees(capture(network, {"images": images}), {"images": images})


def test_the_digits_net() -> None:
    path = Path(__file__).parents[2] / "client" / "examples" / "digits.py"
    spec = importlib.util.spec_from_file_location("digits_example", path)
    assert spec is not None and spec.loader is not None
    digits = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(digits)
    images = digits.load()[1].images[:7]
    net = digits.Net()
    agrees(capture(net, {"images": images}, model=net), {"images": images})


class Decoder:
    """One step of attention over the keys so far, which are a state."""

    def __init__(self) -> None:
        self.keys = Tensor.zeros(8, 16).contiguous().realize()
        self.query = nn.Linear(16, 16)

    def __call__(self, x: Tensor, pos: Any) -> Tensor:
        self.keys.assign((Tensor.arange(8).reshape(8, 1) == pos).where(x, self.keys)).realize()
        scores = (self.query(x) @ self.keys.T).reshape(8)
        return (Tensor.arange(8) <= pos).where(scores, -1e9).softmax() @ self.keys


def test_a_decoder_step_with_a_state_and_a_position() -> None:
    net = Decoder()
    graph = capture(net, {"x": floats(1, 16)}, model=net, variables={"pos": (0, 7)})
    assert graph.program.variables and graph.program.new_states
    for pos in (0, 3, 7):
        agrees(graph, {"x": floats(1, 16)}, variables={"pos": pos})


def test_a_training_step_with_adam() -> None:
    Tensor.manual_seed(3)
    net = nn.Linear(12, 4)
    with Context(TRAINING=1):
        optimizer = nn.optim.Adam(nn.state.get_parameters(net), lr=1e-2)

        def step(x: Tensor, labels: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = net(x).sparse_categorical_crossentropy(labels).backward()
            return loss.realize(*optimizer.schedule_step())

        inputs = {"x": floats(8, 12), "labels": SOME.integers(0, 4, 8).astype(np.int32)}
        graph = capture(step, inputs)
    assert graph.program.new_states
    agrees(graph, inputs)
