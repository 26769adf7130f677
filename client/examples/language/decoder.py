"""A decoder of Gemma 3's architecture in tinygrad: whole sequences to train it, one position at a time to write."""

import math
from dataclasses import dataclass

import numpy as np
from tinygrad import Tensor, UOp, dtypes, nn

from eigentensor_models.sampling import allowed, sampled


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder. Attention sees `window` positions, in every `full_every`-th layer all of the context."""

    layers: int
    width: int
    heads: int
    key_heads: int  # each serves heads / key_heads heads of queries
    head_size: int
    hidden: int
    vocabulary: int
    context: int
    window: int
    full_every: int = 6


#: Gemma 3 270M. Its context has 32,768 positions; this many are kept.
GEMMA_3_270M = Shape(18, 640, 4, 1, 256, 2048, vocabulary=262_144, context=1024, window=512)
#: Enough to learn a page.
SMALL = Shape(4, 96, 4, 2, 24, 256, vocabulary=512, context=192, window=32, full_every=2)
BASES = (1e4, 1e6)  # of rotary embedding, in layers with a window and in those that see all


class Norm:
    """Root mean square normalisation; its weight is how far the factor is from one."""

    def __init__(self, size: int) -> None:
        self.weight = Tensor.zeros(size)

    def __call__(self, x: Tensor) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * (1 + self.weight)


def rotation(positions: Tensor, base: float, size: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the angles of each position: those of rotary embedding."""
    half = size // 2
    angles = positions.reshape(-1, 1) * Tensor((base ** -(np.arange(half) / half)).astype(np.float32))
    return angles.cos().contiguous(), angles.sin().contiguous()


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """The two halves of each head are coordinates of points; these, turned."""
    a, b = x.chunk(2, dim=-1)
    return (a * cosine - b * sine).cat(b * cosine + a * sine, dim=-1)


@dataclass
class Place:
    """Where tokens stand: positions of the queries and of the keys that they may see, and rotations by base."""

    queries: Tensor
    keys: Tensor
    rotations: dict[float, tuple[Tensor, Tensor]]
    position: UOp | None = None  # of the one token that is read, by a decoder that remembers those before it


class Cache:
    """Keys and values of the positions before this one, by layer."""

    def __init__(self, shape: Shape) -> None:
        kept = (1, shape.key_heads, shape.context, shape.head_size)
        self.keys, self.values = (Tensor.zeros(*kept).contiguous().realize() for _ in range(2))

    def append(self, key: Tensor, value: Tensor, position: UOp) -> tuple[Tensor, Tensor]:
        self.keys[:, :, position : position + 1].assign(key.contiguous())
        self.values[:, :, position : position + 1].assign(value.contiguous())
        return self.keys[:, :, : position + 1], self.values[:, :, : position + 1]


class Layer:
    """Attention, then a gated feed-forward network; both normalised before and after."""

    def __init__(self, shape: Shape, number: int) -> None:
        full = (number + 1) % shape.full_every == 0
        self.shape, self.base = shape, BASES[full]
        self.window = shape.context if full else shape.window
        self.sizes = [heads * shape.head_size for heads in (shape.heads, shape.key_heads, shape.key_heads)]
        self.attend = nn.Linear(shape.width, sum(self.sizes), bias=False)
        self.out = nn.Linear(self.sizes[0], shape.width, bias=False)
        self.gate, self.up = (nn.Linear(shape.width, shape.hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(shape.hidden, shape.width, bias=False)
        self.query_norm, self.key_norm = Norm(shape.head_size), Norm(shape.head_size)
        self.before, self.after, self.before_feed, self.after_feed = (Norm(shape.width) for _ in range(4))

    def __call__(self, x: Tensor, place: Place, cache: Cache | None) -> Tensor:
        x = x + self.after(self.attention(self.before(x), place, cache))
        y = self.before_feed(x)
        return x + self.after_feed(self.down(self.gate(y).gelu() * self.up(y)))

    def attention(self, x: Tensor, place: Place, cache: Cache | None) -> Tensor:
        batch, length, _ = x.shape
        split = (batch, length, -1, self.shape.head_size)
        query, key, value = (t.reshape(*split).transpose(1, 2) for t in self.attend(x).split(self.sizes, dim=-1))
        query = rotated(self.query_norm(query), *place.rotations[self.base])
        key = rotated(self.key_norm(key), *place.rotations[self.base])
        if cache is not None:
            key, value = cache.append(key, value, place.position)
        grouped = query.reshape(batch, self.shape.key_heads, -1, self.shape.head_size)
        scores = grouped @ key.transpose(2, 3) * self.shape.head_size**-0.5
        back = place.queries.reshape(-1, 1) - place.keys.reshape(1, -1)
        by_head = (batch, self.shape.heads, length, key.shape[2])
        shares = ((back >= 0) & (back < self.window)).where(scores.reshape(*by_head), -math.inf).softmax()
        mixed = shares.reshape(*scores.shape) @ value
        return self.out(
            mixed.reshape(batch, -1, length, self.shape.head_size).transpose(1, 2).reshape(batch, length, -1)
        )


class Decoder:
    """Tokens to the scores of the tokens that follow them."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.words = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = [Layer(shape, number) for number in range(shape.layers)]
        self.norm = Norm(shape.width)

    def __call__(self, tokens: Tensor) -> Tensor:
        """Scores (batch, length, vocabulary) of whole sequences (batch, length)."""
        positions = Tensor.arange(tokens.shape[1])
        return self.scores(tokens, self.place(positions, positions), [None] * len(self.layers))

    def place(self, queries: Tensor, keys: Tensor, position: UOp | None = None) -> Place:
        return Place(queries, keys, {b: rotation(queries, b, self.shape.head_size) for b in BASES}, position)

    def scores(self, tokens: Tensor, place: Place, caches: list[Cache] | list[None]) -> Tensor:
        x = self.words(tokens) * self.shape.width**0.5
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, place, cache)
        return self.norm(x) @ self.words.weight.transpose()


def drawn(shape: Shape, seed: int = 7) -> Decoder:
    """A decoder that has learnt nothing yet: each matrix keeps the size of what goes through it."""
    decoder, random = Decoder(shape), np.random.default_rng(seed)
    for tensor in nn.state.get_parameters(decoder):
        limit = (3 / int(tensor.shape[-1])) ** 0.5 if tensor.ndim > 1 else 0.0
        tensor.replace(Tensor(random.uniform(-limit, limit, tensor.shape).astype(np.float32)).realize())
    return decoder


class Writer:
    """A decoder at work: it reads the token at a position and writes the next one."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.caches = [Cache(decoder.shape) for _ in decoder.layers]
        self.tokens = Tensor.zeros(decoder.shape.context + 1, dtype=dtypes.int32).contiguous().realize()

    def __call__(
        self,
        prompt: Tensor,
        temperature: Tensor,
        margin: Tensor,
        seed: Tensor,
        position: UOp,
        top_k: Tensor | None = None,
        top_p: Tensor | None = None,
    ) -> Tensor:
        """The tokens so far and the next one, which is the prompt's where it has one: not less than zero."""
        places = Tensor.arange(self.decoder.shape.context + 1)
        here, seen = places[position : position + 1], places[: position + 1]
        token = self.tokens[position : position + 1].reshape(1, 1)
        scores = self.decoder.scores(token, self.decoder.place(here, seen, position), self.caches).flatten()
        among = None if top_k is None or top_p is None else allowed(scores, temperature, top_k, top_p)
        new = sampled(scores, temperature, margin, seed, here.cast(dtypes.uint32), among)
        following = (prompt < 0).where(new, prompt)
        return self.tokens.assign((places == here + 1).where(following, self.tokens))
