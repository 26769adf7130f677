"""A small encoder of BERT's architecture as a program: texts become vectors.

python client/examples/embeddings.py                # embeddings.json, and the tokenizer that it names
eigentensor deploy client/examples/embeddings.py --model embeddings.json --name words --local

Its weights are drawn, not learnt: texts are near each other that share words.
"""

import json
from pathlib import Path

import numpy as np
from tinygrad import Tensor, nn

from eigentensor.capture import GraphProgram, capture
from eigentensor_client import byte_pairs

README = Path(__file__).parents[2] / "README.md"
ROWS, LENGTH, WIDTH, HEADS, LAYERS, WORDS = 8, 64, 64, 4, 2, 512


class Layer:
    def __init__(self) -> None:
        self.attend, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norms = [nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)]

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        query, key, value = (
            t.reshape(ROWS, LENGTH, HEADS, -1).transpose(1, 2) for t in self.attend(x).chunk(3, dim=-1)
        )
        scores = query @ key.transpose(2, 3) * (WIDTH // HEADS) ** -0.5
        mixed = (scores + (mask.reshape(ROWS, 1, 1, LENGTH) - 1) * 1e9).softmax() @ value
        x = self.norms[0](x + self.out(mixed.transpose(1, 2).reshape(ROWS, LENGTH, WIDTH)))
        return self.norms[1](x + self.down(self.up(x).gelu()))


class Encoder:
    def __init__(self) -> None:
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = [Layer() for _ in range(LAYERS)]

    def __call__(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """A vector for each token: (rows, length, width). `mask` is 1 where there is one."""
        x = self.words(tokens) + 0.1 * self.places(Tensor.arange(LENGTH)).unsqueeze(0)
        for layer in self.layers:
            x = layer(x, mask)
        return x


def drawn(seed: int = 7) -> Encoder:
    encoder, random = Encoder(), np.random.default_rng(seed)
    for name, tensor in nn.state.get_state_dict(encoder).items():
        if "norms" not in name:
            scale = 1.0 if "words" in name else tensor.shape[-1] ** -0.5 if tensor.ndim > 1 else 0.0
            tensor.replace(Tensor((scale * random.standard_normal(tensor.shape)).astype(np.float32)).realize())
    return encoder


def program() -> GraphProgram:
    """What `eigentensor deploy client/examples/embeddings.py` deploys, with its weights."""
    encoder, shape = drawn(), (ROWS, LENGTH)
    return capture(encoder, {"tokens": np.zeros(shape, np.int32), "mask": np.zeros(shape, np.float32)}, model=encoder)


if __name__ == "__main__":
    Path("embeddings.tokenizer.json").write_bytes(byte_pairs.trained(README.read_text(), WORDS).to_bytes())
    model = {"schema": "eigentensor.model/1", "kind": "embeddings", "tokenizer": "embeddings.tokenizer.json"}
    Path("embeddings.json").write_text(json.dumps({**model, "pooling": "mean"}, indent=1) + "\n")
