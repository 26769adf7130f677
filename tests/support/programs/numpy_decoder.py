"""The decoder of client/examples/language written down a second time: in NumPy, with 64 bits, over whole sequences and
without a cache. What the program writes is held to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from language.decoder import BASES, Shape

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NumpyDecoder:
    """Weights by the names that the program has for them."""

    shape: Shape
    weights: Mapping[str, NDArray[Any]]

    def of(self, name: str) -> Floats:
        return self.weights[f"decoder.{name}.weight"].astype(np.float64)

    def scores(self, tokens: NDArray[Any]) -> Floats:
        """Scores (length, vocabulary) of the tokens that follow each of a sequence."""
        words = self.of("words")
        x = words[tokens] * self.shape.width**0.5
        for number in range(self.shape.layers):
            x = x + self.norm(self.attention(self.norm(x, number, "before"), number), number, "after")
            x = x + self.norm(self.feed(self.norm(x, number, "before_feed"), number), number, "after_feed")
        return normalised(x) * (1 + self.of("norm")) @ words.T

    def norm(self, x: Floats, layer: int, name: str) -> Floats:
        return normalised(x) * (1 + self.of(f"layers.{layer}.{name}"))

    def attention(self, x: Floats, layer: int) -> Floats:
        shape, full = self.shape, (layer + 1) % self.shape.full_every == 0
        heads = (x @ self.of(f"layers.{layer}.attend").T).reshape(len(x), -1, shape.head_size)
        queries, keys, values = np.split(heads, [shape.heads, shape.heads + shape.key_heads], axis=1)
        queries = turned(self.norm(queries, layer, "query_norm"), BASES[full])
        keys = turned(self.norm(keys, layer, "key_norm"), BASES[full])
        back = np.arange(len(x))[:, None] - np.arange(len(x))
        visible = (back >= 0) & (back < (shape.context if full else shape.window))
        mixed = []
        for head in range(shape.heads):
            shared = head * shape.key_heads // shape.heads
            scores = np.where(visible, queries[:, head] @ keys[:, shared].T / shape.head_size**0.5, -np.inf)
            shares = np.exp(scores - scores.max(1, keepdims=True))
            mixed.append(shares / shares.sum(1, keepdims=True) @ values[:, shared])
        return np.concatenate(mixed, axis=1) @ self.of(f"layers.{layer}.out").T

    def feed(self, x: Floats, layer: int) -> Floats:
        gate, up = (x @ self.of(f"layers.{layer}.{name}").T for name in ("gate", "up"))
        gelu = gate / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (gate + 0.044715 * gate**3)))
        fed: Floats = gelu * up @ self.of(f"layers.{layer}.down").T
        return fed

    def written(
        self,
        prompt: NDArray[Any],
        count: int,
        temperature: float,
        margin: float,
        seed: tuple[int, int],
        top_k: int = 0,
        top_p: float = 1.0,
    ) -> list[int]:
        """The first `count` + 1 tokens: END, the prompt's where it is not negative, else those drawn."""
        tokens = [0]
        for position in range(count):
            scores = self.scores(np.array(tokens))[-1]
            drawn = scores - temperature * np.log(-np.log(uniform(seed, position, len(scores))))
            drawn[(scores.max() - scores > margin) | ~allowed(scores, temperature, top_k, top_p)] = -np.inf
            token = int(prompt[position + 1])
            tokens.append(token if token >= 0 else int(drawn.argmax()))
        return tokens


def allowed(scores: Floats, temperature: float, top_k: int, top_p: float) -> NDArray[np.bool_]:
    """Which tokens top_k and top_p leave, as they are defined: ranked, and summed up from the best one."""
    order = np.argsort(-scores, kind="stable")
    best = scores >= scores[order[min(top_k or len(scores), len(scores)) - 1]]
    shares = np.where(best, np.exp((scores - scores.max()) / max(temperature, 1e-6)), 0)
    shares /= shares.sum()
    before = np.array([shares[scores > score].sum() for score in scores])
    likely = before < top_p if 0 < top_p < 1 else before == 0 if top_p <= 0 else best
    both: NDArray[np.bool_] = best & likely
    return both


def normalised(x: Floats) -> Floats:
    mean: Floats = (x * x).mean(-1, keepdims=True)
    return x / np.sqrt(mean + 1e-6)


def turned(x: Floats, base: float) -> Floats:
    """Each pair of coordinates (i, i + half) as a complex number, times that of the angle of its position."""
    half = x.shape[-1] // 2
    angles = np.arange(len(x))[:, None, None] * base ** -(np.arange(half) / half)
    points = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)
    return np.concatenate([points.real, points.imag], axis=-1)


def uniform(seed: tuple[int, int], position: int, count: int) -> Floats:
    """Numbers between 0 and 1 of the first words of Threefry-2x32, in Python's integers."""
    return np.array([((threefry(seed, (position, i))[0] >> 9) + 0.5) / 2**23 for i in range(count)])


def threefry(key: tuple[int, int], counter: tuple[int, int]) -> tuple[int, int]:
    """Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw: Parallel random numbers, SC 2011)."""
    words, (a, b) = (*key, key[0] ^ key[1] ^ 0x1BD11BDA), counter
    a, b = (a + words[0]) % 2**32, (b + words[1]) % 2**32
    for step in range(20):
        distance = (13, 15, 26, 6, 17, 29, 16, 24)[step % 8]
        a = (a + b) % 2**32
        b = a ^ ((b << distance | b >> 32 - distance) % 2**32)
        if step % 4 == 3:
            group = step // 4 + 1
            a, b = (a + words[group % 3]) % 2**32, (b + words[(group + 1) % 3] + group) % 2**32
    return a, b
