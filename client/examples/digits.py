"""Train a small convolutional network on handwritten digits and capture it as a program with its weights."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import load_file
from tinygrad import Tensor, TinyJit, nn
from tinygrad.helpers import Context

from eigentensor.capture import GraphProgram, capture

BATCH = 99  # the 297 held-out digits are three tasks


class Net:
    def __init__(self) -> None:
        self.first = nn.Conv2d(1, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 32, 3, padding=1)
        self.last = nn.Linear(32 * 2 * 2, 10)

    def __call__(self, images: Tensor) -> Tensor:
        x = self.first(images).relu().max_pool2d()
        return self.last(self.second(x).relu().max_pool2d().flatten(1))


class Digits(NamedTuple):
    images: np.ndarray  # float32 (n, 1, 8, 8), 0 to 1
    labels: np.ndarray  # uint8 (n,)


def load() -> tuple[Digits, Digits]:
    """The digits to train on, and the held-out ones: the test part of E. Alpaydin and C. Kaynak, Optical Recognition of
    Handwritten Digits, UCI Machine Learning Repository, doi 10.24432/C50P49, CC BY 4.0, values unchanged."""
    data = load_file(Path(__file__).with_name("digits.safetensors"))
    images, labels = (data["images"] / 16).astype(np.float32)[:, None], data["labels"]
    split = len(labels) - 3 * BATCH
    return Digits(images[:split], labels[:split]), Digits(images[split:], labels[split:])


def train(digits: Digits, steps: int = 200) -> Net:
    Tensor.manual_seed(7)
    net, rng = Net(), np.random.default_rng(7)
    optimizer = nn.optim.Adam(nn.state.get_parameters(net), lr=1e-2)
    images, labels = Tensor(digits.images), Tensor(digits.labels)

    @TinyJit
    def step(batch: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = net(images[batch]).sparse_categorical_crossentropy(labels[batch]).backward()
        return loss.realize(*optimizer.schedule_step())

    with Context(TRAINING=1):
        for _ in range(steps):
            step(Tensor(rng.integers(0, len(digits.labels), 64, dtype=np.int32)))
    return net


def program() -> GraphProgram:
    """A batch of images to their scores: what `eigentensor program capture client/examples/digits.py` writes."""
    training, held_out = load()
    net = train(training)
    return capture(net, {"images": held_out.images[:BATCH]}, model=net)
