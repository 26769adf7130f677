"""Networks of the kinds that people split over devices, forward and as steps of SGD: programs, and their tensors."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tinygrad import Context, Tensor, nn

from eigentensor.capture import GraphProgram, capture
from eigentensor.runtime.sharded import Sharded
from support.programs.changes import poisoned
from support.programs.models import Digits, Layer, filled

Values = NDArray[Any]


class Mlp:
    """Two products with a relu between."""

    def __init__(self, width: int, hidden: int, classes: int) -> None:
        self.first, self.last = nn.Linear(width, hidden), nn.Linear(hidden, classes)

    def __call__(self, x: Tensor) -> Tensor:
        return self.last(self.first(x).relu())


class Deep:
    """Three products."""

    def __init__(self) -> None:
        self.first, self.second, self.last = nn.Linear(784, 1024), nn.Linear(1024, 1024), nn.Linear(1024, 10)

    def __call__(self, x: Tensor) -> Tensor:
        return self.last(self.second(self.first(x).relu()).relu())


def descent(parameters: list[Tensor]) -> Any:
    """SGD."""
    return nn.optim.SGD(parameters, lr=0.01)


class Step:
    """A step of an optimiser for the mean square of a network's results."""

    def __init__(
        self,
        network: Callable[[Tensor], Tensor],
        optimizer: Callable[[list[Tensor]], Any] = descent,
    ) -> None:
        self.network = network
        self.optimizer = optimizer(nn.state.get_parameters(network))

    def __call__(self, x: Tensor) -> Tensor:
        with Context(TRAINING=1):
            self.optimizer.zero_grad()
            loss = self.network(x).square().mean().backward()
            return loss.realize(*self.optimizer.schedule_step())


@dataclass(frozen=True)
class Network:
    """A network and an input; `train` makes a step of SGD of it, `shards` are those that it is captured in."""

    make: Callable[[], Any]
    shape: tuple[int, ...]
    train: bool = False
    shards: int = 1

    def captured(self) -> GraphProgram:
        """With weights that are drawn from one seed; in a step they are states."""
        network = filled(self.make(), 1)
        model = Step(network) if self.train else network
        for tensor in nn.state.get_parameters(model):
            tensor.realize()
        return capture(lambda x: model(x), {"x": self.input}, model, fingerprint=False, shards=self.shards)

    @property
    def input(self) -> Values:
        """What the network is run on."""
        return np.random.default_rng(5).standard_normal(self.shape, dtype=np.float32)


#: Small enough for the reference.
SMALL: dict[str, Network] = {
    f"{name}{' step' if train else ''}": Network(make, shape, train)
    for name, make, shape in (
        ("mlp", lambda: Mlp(12, 16, 6), (8, 12)),
        ("conv net", Digits, (4, 1, 8, 8)),
        ("transformer layer", lambda: Layer(16, 4), (4, 6, 16)),
    )
    for train in (False, True)
}
#: The table of sdk/README.md.
LARGE: dict[str, Network] = {
    "MLP 784-256-10, 64 rows": Network(lambda: Mlp(784, 256, 10), (64, 784)),
    "MLP 784-256-10, 64 rows, a step": Network(lambda: Mlp(784, 256, 10), (64, 784), True),
    "conv net, 32 images": Network(Digits, (32, 1, 8, 8)),
    "conv net, 32 images, a step": Network(Digits, (32, 1, 8, 8), True),
    "transformer layer 64, 8 × 32 tokens": Network(lambda: Layer(64, 4), (8, 32, 64)),
    "transformer layer 64, 8 × 32 tokens, a step": Network(lambda: Layer(64, 4), (8, 32, 64), True),
    "MLP 64-32-10, 8,192 rows, a step": Network(lambda: Mlp(64, 32, 10), (8192, 64), True),
    "MLP 784-1024-1024-10, 256 rows, a step": Network(Deep, (256, 784), True),
    "MLP 784-1024-1024-10, 4,096 rows, a step": Network(Deep, (4096, 784), True),
    "MLP 784-1024-1024-10, 4,096 rows in 4 shards, a step": Network(Deep, (4096, 784), True, 4),
    "MLP 784-1024-1024-10, 16 rows": Network(Deep, (16, 784)),
}
#: Forward and a step of training, each of more than 50 ms on one thread.
HEAVY: dict[str, Network] = {
    "MLP 784-1024-1024-10, 4,096 rows": Network(Deep, (4096, 784)),
    "the same in 4 shards, a step": Network(Deep, (4096, 784), True, 4),
    "transformer layer 256, 32 × 128 tokens": Network(lambda: Layer(256, 8), (32, 128, 256)),
    "the same in 2 shards, a step": Network(lambda: Layer(256, 8), (32, 128, 256), True, 2),
}
NETWORKS = SMALL | LARGE | HEAVY


@cache
def captured(name: str) -> GraphProgram:
    """One of them, captured once."""
    return NETWORKS[name].captured()


def tensors(name: str) -> dict[str, Values]:
    """All that a network's program is run on."""
    graph = captured(name)
    arrays = {**graph.weights, **graph.states, "x": NETWORKS[name].input}
    return {key: np.asarray(array) for key, array in arrays.items()}


def poison(runs: Sharded, seed: int = 0) -> Sharded:
    """The same with random bits in all memory that its workers were not given."""
    noise = np.random.default_rng(seed)
    for worker in runs.workers:
        worker.shared[...] = np.frombuffer(noise.bytes(worker.shared.size), np.uint8)
        for number, array in enumerate(worker.pieces):
            if number not in worker.planned.given:
                array[...] = poisoned(noise, array)
    return runs
