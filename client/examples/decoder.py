"""One block of a decoder, which remembers what it has seen: its keys and values are states, its position a variable.

eigentensor program capture client/examples/decoder.py
"""

import numpy as np
from tinygrad import Tensor, UOp, nn

from eigentensor.capture import capture

WIDTH, LENGTH = 16, 128


class Block:
    """Attention of one head over all positions so far."""

    def __init__(self) -> None:
        self.attend, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.keys, self.values = (Tensor.zeros(1, LENGTH, WIDTH).contiguous().realize() for _ in range(2))

    def __call__(self, x: Tensor, position: UOp) -> Tensor:
        query, key, value = self.attend(x).chunk(3, dim=-1)
        self.keys[:, position : position + 1].assign(key)
        self.values[:, position : position + 1].assign(value)
        keys, values = self.keys[:, : position + 1], self.values[:, : position + 1]
        return x + self.project((query @ keys.transpose(1, 2) / WIDTH**0.5).softmax() @ values)


Tensor.manual_seed(1)
example = {"x": np.zeros((1, 1, WIDTH), np.float32)}
program = capture(Block(), example, variables={"position": (0, LENGTH - 1, 1)}, max_repeat=LENGTH)
