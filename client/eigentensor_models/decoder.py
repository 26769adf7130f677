"""The decoder: tokens at their positions → scores of the tokens that follow, with keys and values of those before."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tinygrad import Tensor, UOp, dtypes

from eigentensor_models.architecture import Architecture, Attention, Rotary, layer
from eigentensor_models.matrices import Matrix


class Cache:
    """Keys and values of the positions before this one, by layer: zeros at first."""

    def __init__(self, architecture: Architecture, length: int) -> None:
        shape = (1, architecture.key_heads, length, architecture.head_size)
        count = len(architecture.layers)
        self.keys = [Tensor.zeros(*shape).contiguous().realize() for _ in range(count)]
        self.values = [Tensor.zeros(*shape).contiguous().realize() for _ in range(count)]

    def states(self) -> dict[str, Tensor]:
        """Its tensors by name."""
        named = {"keys": self.keys, "values": self.values}
        return {f"{word}.{number}": tensor for word, tensors in named.items() for number, tensor in enumerate(tensors)}


@dataclass
class Place:
    """Where tokens stand: the `count` positions from `position` on. Nobody sees a position before `first`, whose
    rotation is none; positions count from there."""

    position: UOp | int
    count: int
    length: int  # of the cache
    first: int = 1

    def __post_init__(self) -> None:
        every = Tensor.arange(self.length)
        self.queries = every[self.position : self.position + self.count]
        self.keys = every[: self.position + self.count]
        self._turned: dict[Rotary, tuple[Tensor, Tensor]] = {}

    def visible(self, window: int | None) -> Tensor:
        """(count, keys): whether a query sees a key. One before `first` sees itself, so that it has a result."""
        back = self.queries.reshape(-1, 1) - self.keys.reshape(1, -1)
        seen = (back >= 0) & (self.keys.reshape(1, -1) >= self.first) | (back == 0)
        return seen if window is None else seen & (back < window)

    def rotation(self, rotary: Rotary) -> tuple[Tensor, Tensor]:
        """Cosines and sines of the angles of each pair, (count, pairs)."""
        if rotary not in self._turned:
            numbers = (self.queries - self.first).maximum(0).cast(dtypes.float32).reshape(-1, 1)
            angles = numbers * Tensor(list(rotary.frequencies), dtype=dtypes.float32)
            turned = (angles.cos() * rotary.scale, angles.sin() * rotary.scale)
            self._turned[rotary] = (turned[0].contiguous(), turned[1].contiguous())
        return self._turned[rotary]


class Decoder:
    """The network of an architecture over matrices and vectors by the names of its files."""

    def __init__(
        self, architecture: Architecture, matrices: Mapping[str, Matrix], vectors: Mapping[str, Tensor]
    ) -> None:
        self.architecture, self._matrices, self._vectors = architecture, matrices, vectors

    def __call__(self, tokens: Tensor, place: Place, cache: Cache) -> Tensor:
        """What the tokens (count,) at a place come to, (1, count, width); the cache has them afterwards."""
        x = self._matrices["model.embed_tokens.weight"].rows(tokens.reshape(1, -1)) * self.architecture.word_scale
        for number, attention in enumerate(self.architecture.layers):
            x = self._layer(x, layer(number), attention, place, cache.keys[number], cache.values[number])
        return x

    def scores(self, x: Tensor) -> Tensor:
        """(…, width) → how likely each token is next, (…, vocabulary), as logarithms up to a constant."""
        words = "model.embed_tokens.weight" if self.architecture.tied else "lm_head.weight"
        return capped(self._matrices[words].product(self._norm(x, "model.norm")), self.architecture.logit_cap)

    def _layer(self, x: Tensor, at: str, attention: Attention, place: Place, keys: Tensor, values: Tensor) -> Tensor:
        a = self.architecture
        added = self._attended(self._norm(x, f"{at}input_layernorm"), at, attention, place, keys, values)
        if not a.after_norms:
            x = x + added
            return x + self._fed(self._norm(x, f"{at}post_attention_layernorm"), at)
        x = x + self._norm(added, f"{at}post_attention_layernorm")
        fed = self._fed(self._norm(x, f"{at}pre_feedforward_layernorm"), at)
        return x + self._norm(fed, f"{at}post_feedforward_layernorm")

    def _attended(self, x: Tensor, at: str, attention: Attention, place: Place, keys: Tensor, values: Tensor) -> Tensor:
        a = self.architecture
        query, key, value = (self._heads(part) for part in self._parts(x, at))
        if a.head_norms:
            query, key = self._norm(query, f"{at}self_attn.q_norm"), self._norm(key, f"{at}self_attn.k_norm")
        if attention.rotary is not None:
            rotation = place.rotation(attention.rotary)
            query, key = rotated(query, *rotation), rotated(key, *rotation)
        end = place.position + place.count
        keys[:, :, place.position : end].assign(key.contiguous())
        values[:, :, place.position : end].assign(value.contiguous())
        key, value = keys[:, :, :end], values[:, :, :end]
        together = a.heads // a.key_heads * place.count  # queries that a head of keys serves
        grouped = query.reshape(1, a.key_heads, together, a.head_size)
        scores = grouped @ key.transpose(2, 3) * (a.head_size**-0.5 if a.score_scale is None else a.score_scale)
        scores = capped(scores, a.score_cap).reshape(1, a.heads, place.count, end)
        shares = place.visible(attention.window).where(scores, -math.inf).softmax()
        mixed = shares.reshape(1, a.key_heads, together, end) @ value
        mixed = mixed.reshape(1, a.heads, place.count, a.head_size).transpose(1, 2).reshape(1, place.count, -1)
        return self._biased(self._matrices[f"{at}self_attn.o_proj.weight"].product(mixed), f"{at}self_attn.o_proj")

    def _parts(self, x: Tensor, at: str) -> list[Tensor]:
        """Queries, keys and values, (1, count, heads × size) each."""
        a = self.architecture
        if a.packed:
            keys = a.key_heads * a.head_size
            whole = self._matrices[f"{at}self_attn.qkv_proj.weight"].product(x)
            return list(whole.split([a.heads * a.head_size, keys, keys], dim=-1))
        names = [f"{at}self_attn.{name}_proj" for name in "qkv"]
        return [self._biased(self._matrices[f"{name}.weight"].product(x), name) for name in names]

    def _heads(self, x: Tensor) -> Tensor:
        return x.reshape(1, x.shape[1], -1, self.architecture.head_size).transpose(1, 2)

    def _fed(self, x: Tensor, at: str) -> Tensor:
        if self.architecture.packed:
            gate, up = self._matrices[f"{at}mlp.gate_up_proj.weight"].product(x).chunk(2, dim=-1)
        else:
            names = [f"{at}mlp.{name}_proj" for name in ("gate", "up")]
            gate, up = (self._biased(self._matrices[f"{name}.weight"].product(x), name) for name in names)
        active = gate.silu() if self.architecture.activation == "silu" else gate.gelu()
        return self._biased(self._matrices[f"{at}mlp.down_proj.weight"].product(active * up), f"{at}mlp.down_proj")

    def _norm(self, x: Tensor, name: str) -> Tensor:
        weight = self._vectors[f"{name}.weight"].cast(dtypes.float32) + self.architecture.offset
        return x * (x.square().mean(-1, keepdim=True) + self.architecture.epsilon).rsqrt() * weight

    def _biased(self, x: Tensor, name: str) -> Tensor:
        bias = self._vectors.get(f"{name}.bias")
        return x if bias is None else x + bias.cast(dtypes.float32)


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """The pairs of each head, element i and i + pairs, turned; elements beyond those of all pairs stay."""
    pairs = cosine.shape[-1]
    a, b = x[..., :pairs], x[..., pairs : 2 * pairs]
    return (a * cosine - b * sine).cat(b * cosine + a * sine, x[..., 2 * pairs :], dim=-1)


def capped(x: Tensor, largest: float | None) -> Tensor:
    """Numbers between -largest and largest, small ones hardly changed."""
    return x if largest is None else (x / largest).tanh() * largest
