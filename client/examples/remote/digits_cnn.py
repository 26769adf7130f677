"""A convolutional network learns handwritten digits for a moment, then reads some that it never saw."""

from pathlib import Path

import numpy as np
from tinygrad import Context, Tensor, TinyJit, nn
from tinygrad.nn.state import get_parameters, safe_load

import eigentensor as et

Tensor.manual_seed(7)
data = safe_load(Path(__file__).parents[1] / "digits.safetensors")
images, labels = data["images"].to(None).float().unsqueeze(1) / 16, data["labels"].to(None)


class Net:
    def __init__(self):
        self.conv, self.last = nn.Conv2d(1, 16, 3, padding=1), nn.Linear(16 * 4 * 4, 10)

    def __call__(self, x: Tensor) -> Tensor:
        return self.last(self.conv(x).relu().max_pool2d().flatten(1))


net = Net()
optimizer = nn.optim.Adam(get_parameters(net), lr=1e-2)


@TinyJit
def learn(chosen: Tensor) -> Tensor:
    optimizer.zero_grad()
    loss = net(images[chosen]).sparse_categorical_crossentropy(labels[chosen]).backward()
    return loss.realize(*optimizer.schedule_step())


@et.function(max_price="0.05", wait="checked")
def read(batch: Tensor) -> Tensor:
    return net(batch).argmax(axis=1)


with Context(TRAINING=1):
    for _ in range(60):
        learn(Tensor(np.random.default_rng(_).integers(0, 1500, 64, dtype=np.int32)))

predictions = read.remote(images[1500:1600].contiguous())
print(f"{(predictions == labels[1500:1600]).sum().item()} of 100 right")
