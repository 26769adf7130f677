"""Functions of the kinds that people bring, with inputs: captured, executed and compared by tests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from tinygrad import Context, Tensor, UOp, dtypes, nn

from eigentensor.capture.function import capture
from eigentensor.lowering.graph_program import GraphProgram


@dataclass(frozen=True)
class Graph:
    """A function of named inputs; `tolerance` is how far tinygrad's own results may be."""

    function: Callable[..., Any]
    inputs: Mapping[str, Any]
    variables: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    tolerance: float = 1e-5

    def captured(self, **options: Any) -> GraphProgram:
        return capture(self.function, self.inputs, variables=self.variables, **options)

    def bound(self, graph: GraphProgram) -> dict[str, Any]:
        """All tensors that the program needs."""
        return {**self.inputs, **graph.weights, **graph.states}


#: The graphs' names: what tests are named by before any graph is made.
NAMES = (
    "matmul",
    "matmul of half",
    "matmul of integers",
    "digits",
    "gelu mlp",
    "softmax",
    "layernorm",
    "attention",
    "embedding",
    "cumsum",
    "argmax",
    "long sum",
    "cross-entropy with its gradient",
    "training step with Adam",
    "decoder step",
    "random numbers",
    "bfloat16",
    "wide integers",
    "matmul of wide integers",
    "convolution",
)
_random = np.random.default_rng(7)
_FIRST = _random.bit_generator.state


def normal(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return _random.standard_normal(shape).astype(np.float32)


def integers(low: int, high: int, *shape: int, dtype: Any = np.int32) -> np.ndarray[Any, Any]:
    return _random.integers(low, high, shape).astype(dtype)


class Digits:
    """The network of the demo: 8 × 8 images, ten classes."""

    def __init__(self) -> None:
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 16, 3, padding=1)
        self.last = nn.Linear(64, 10)

    def __call__(self, images: Tensor) -> Tensor:
        x = self.first(images).relu().max_pool2d()
        return self.last(self.second(x).relu().max_pool2d().flatten(1))


class Block:
    """A decoder block of one head over a cache of keys and values; its position is a variable."""

    def __init__(self, width: int = 8, length: int = 6) -> None:
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.norm = nn.Linear(width, 2 * width), nn.Linear(2 * width, width), nn.LayerNorm(width)
        self.keys = Tensor.zeros(1, length, width).contiguous().realize()
        self.values = Tensor.zeros(1, length, width).contiguous().realize()

    def __call__(self, x: Tensor, position: UOp) -> Tensor:
        query, key, value = self.attend(self.norm(x)).chunk(3, dim=-1)
        self.keys[:, position : position + 1].assign(key)
        self.values[:, position : position + 1].assign(value)
        keys, values = self.keys[:, : position + 1], self.values[:, : position + 1]
        x = x + self.project((query @ keys.transpose(1, 2) / 8**0.5).softmax() @ values)
        return x + self.down(self.up(x).gelu())


@cache
def graphs() -> dict[str, Graph]:
    """The graphs by name. Weights are drawn from one seed, so programs and data are the same in every process."""
    Tensor.manual_seed(11)
    _random.bit_generator.state = _FIRST  # whoever drew before
    digits, table, block, trained = Digits(), nn.Embedding(50, 8), Block(), Digits()
    optimizer = nn.optim.Adam(nn.state.get_parameters(trained))
    up, down = Tensor(normal(16, 32)), Tensor(normal(32, 4))
    for tensor in (t for model in (digits, table, block, trained) for t in nn.state.get_parameters(model)):
        tensor.realize()
    labels = np.array([3, 1, 0, 7], np.int32)

    def loss(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        value = (x @ up).sparse_categorical_crossentropy(y)
        return value, *value.gradient(up)

    def train(images: Tensor, labels: Tensor) -> Tensor:
        with Context(TRAINING=1):
            optimizer.zero_grad()
            value = trained(images).sparse_categorical_crossentropy(labels).backward()
            optimizer.step()
        return value

    def noise(x: Tensor) -> Tensor:
        Tensor.manual_seed(5)
        with Context(TRAINING=1):
            return (x + Tensor.rand(4, 6)).dropout(0.3)

    made = {
        "matmul": Graph(lambda a, b: a @ b, {"a": normal(9, 20), "b": normal(20, 7)}),
        "matmul of half": Graph(
            lambda a, b: a @ b,
            {"a": normal(4, 9).astype(np.float16), "b": normal(9, 5).astype(np.float16)},
            tolerance=1e-2,
        ),
        "matmul of integers": Graph(lambda a, b: a @ b, {"a": integers(-99, 99, 4, 9), "b": integers(-99, 99, 9, 5)}),
        "digits": Graph(lambda images: digits(images), {"images": normal(2, 1, 8, 8)}),
        "gelu mlp": Graph(lambda x: (x @ up).gelu() @ down, {"x": normal(3, 16)}, tolerance=1e-4),
        "softmax": Graph(lambda x: x.softmax(), {"x": normal(5, 33)}),
        "layernorm": Graph(lambda x: x.layernorm(), {"x": normal(5, 384)}),
        "attention": Graph(
            lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True), {n: normal(1, 2, 6, 8) for n in "qkv"}
        ),
        "embedding": Graph(lambda tokens: table(tokens), {"tokens": integers(0, 50, 2, 3)}),
        "cumsum": Graph(lambda x: x.cumsum(1), {"x": normal(3, 40)}),
        "argmax": Graph(lambda x: x.argmax(-1), {"x": normal(6, 11)}),
        "long sum": Graph(lambda x: x.sum(), {"x": normal(3, 2500)}, tolerance=1e-4),
        "cross-entropy with its gradient": Graph(loss, {"x": normal(4, 16), "y": labels}, tolerance=1e-4),
        "training step with Adam": Graph(train, {"images": normal(4, 1, 8, 8), "labels": labels}, tolerance=1e-4),
        "decoder step": Graph(block, {"x": normal(1, 1, 8)}, variables={"position": (0, 5, 1)}, tolerance=1e-4),
        "random numbers": Graph(noise, {"x": normal(4, 6)}),
        "bfloat16": Graph(lambda x: (x.cast(dtypes.bfloat16) * 3).exp(), {"x": normal(4, 6)}, tolerance=1e-1),
        "wide integers": Graph(
            lambda x: (x * 3_000_000_019) // 7 - (x >> 40), {"x": integers(-(1 << 60), 1 << 60, 9, dtype=np.int64)}
        ),
        "matmul of wide integers": Graph(
            lambda a, b: a @ b,
            {
                "a": integers(-(1 << 40), 1 << 40, 4, 70, dtype=np.int64),
                "b": integers(-(1 << 40), 1 << 40, 70, 3, dtype=np.int64),
            },
        ),
        "convolution": Graph(
            lambda x, w: x.conv2d(w, stride=2, padding=1), {"x": normal(1, 3, 9, 9), "w": normal(4, 3, 3, 3)}
        ),
    }
    assert tuple(made) == NAMES
    return made
