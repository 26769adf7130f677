"""The decoder: tokens at their positions → scores of the tokens that follow, with keys and values of those before."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import partial

from tinygrad import Tensor, UOp, dtypes

from eigentensor.capture import repeated
from eigentensor_client.writing import RECENT
from eigentensor_models.architecture import Architecture, Attention, Experts, Rotary, layer
from eigentensor_models.matrices import Floats, Integers, Matrix, stand_in


class Cache:
    """Keys and values of the positions before this one, by layer: zeros at first. A layer with a window keeps the last
    positions alone, in a ring: each in the slot that is its remainder by their number."""

    def __init__(self, architecture: Architecture, length: int, chunk: int) -> None:
        """`length` positions, a multiple of `chunk`, which is how many are read at once at most."""
        self.length = length
        self.keys, self.values = list[Tensor](), list[Tensor]()
        for attention in architecture.layers:
            count = slots(attention.window, length, chunk)
            heads, size = architecture.key_heads, architecture.head_size
            # Keys lie along positions: so the products of a query with all of them fill vectors.
            self.keys.append(stand_in((1, heads, size, count), dtypes.float32))
            self.values.append(stand_in((1, heads, count, size), dtypes.float32))

    def states(self) -> dict[str, Tensor]:
        """Its tensors by name; those of rings are `RECENT`."""
        named = {"keys": self.keys, "values": self.values}
        return {
            f"{RECENT if self.is_ring(number) else ''}{word}.{number}": tensor
            for word, tensors in named.items()
            for number, tensor in enumerate(tensors)
        }

    def is_ring(self, number: int) -> bool:
        """Whether a layer keeps the last positions alone."""
        return int(self.values[number].shape[2]) < self.length


def slots(window: int | None, length: int, chunk: int) -> int:
    """How many positions a layer keeps: what the first token of a chunk sees is there when its last is written."""
    return length if window is None else min(length, -(-(window + chunk - 1) // chunk) * chunk)


@dataclass(eq=False)
class Place:
    """Where tokens stand: the `count` positions from `position` on. Nobody sees a position before `first`, whose
    rotation is none; positions count from there. Of several tokens only those that `are` there are kept."""

    position: UOp | int
    count: int
    length: int  # of the text, as the cache has it
    first: int = 1
    are: Tensor | None = None  # (count,)

    def __post_init__(self) -> None:
        self.queries = Tensor.arange(self.length)[self.position : self.position + self.count]
        self._turned: dict[Rotary, tuple[Tensor, Tensor]] = {}

    def end(self, count: int) -> UOp | int:
        """How many of `count` slots are looked at: not those that were never written."""
        return self.position + self.count if count == self.length else count

    def scores(self, products: Tensor) -> Tensor:
        """What is looked at of products with all slots, of which the others are not computed."""
        count = int(products.shape[-1])
        if count < self.length:
            return products
        written = (Tensor.arange(count) < self.end(count)).where(products, 0)
        return written.contiguous()[..., : self.end(count)]

    def keep(self, new: Tensor, kept: Tensor, axis: int) -> None:
        """Writes what belongs to the tokens, along an axis of slots."""
        if self.are is not None:
            new = self.are.reshape([self.count if n == axis else 1 for n in range(kept.ndim)]).where(new, 0)
        count = int(kept.shape[axis])
        if count == self.length:
            box = slice(self.position, self.position + self.count)
            kept[tuple(box if n == axis else slice(None) for n in range(kept.ndim))].assign(new.contiguous())
            return
        chunks = count // self.count
        here = Tensor.arange(chunks) == self.queries[:1] // self.count % chunks
        turns = here.reshape([chunks if n == axis else 1 for n in range(kept.ndim + 1)])
        whole = turns.where(new.contiguous().unsqueeze(axis), kept.unflatten(axis, (chunks, self.count)))
        kept.assign(whole.flatten(axis, axis + 1))

    def visible(self, window: int | None, count: int) -> Tensor:
        """(tokens, slots): whether a query sees a key. One before `first` sees itself, so that it has a result."""
        keys = Tensor.arange(count)
        if count < self.length:  # of each slot the last position that has it
            last = self.queries[self.count - 1 :]
            keys = last - (last - keys + count) % count
        keys = keys[: self.end(count)].reshape(1, -1)
        back = self.queries.reshape(-1, 1) - keys
        seen = (back >= 0) & (keys >= self.first) | (back == 0)
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
            kept = cache.keys[number], cache.values[number]
            kinds, weights = self._weights(layer(number))
            made = partial(self._layer, x, layer(number), attention, place, *kept)
            x = repeated((self, place, attention, kinds), [x, *kept, *weights], made)
        return x

    def _weights(self, at: str) -> tuple[Hashable, list[Tensor]]:
        """The tensors of a layer, and what tells layers apart that do other things with theirs."""
        kinds, tensors = list[Hashable](), list[Tensor]()
        for name, matrix in self._matrices.items():
            if name.startswith(at):
                kinds.append((name.removeprefix(at), type(matrix), getattr(matrix, "kind", ""), *matrix.parts))
                tensors += matrix.parts.values()
        for name, vector in self._vectors.items():
            if name.startswith(at):
                kinds.append(name.removeprefix(at))
                tensors.append(vector)
        return tuple(kinds), tensors

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
        place.keep(key.transpose(2, 3), keys, 3)
        place.keep(value, values, 2)
        count = int(keys.shape[3])
        end = place.end(count)
        grouped = query.reshape(1, a.key_heads, a.heads // a.key_heads, place.count, a.head_size)
        scores = place.scores(grouped @ keys.unsqueeze(2))
        scores = capped(scores * (a.head_size**-0.5 if a.score_scale is None else a.score_scale), a.score_cap)
        shares = place.visible(attention.window, count).where(scores, -math.inf).softmax()
        mixed = shares @ values[:, :, :end].unsqueeze(2)
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
        if (experts := self.architecture.experts) is not None and f"{at}mlp.gate.weight" in self._matrices:
            return self._mixed(x, at, experts)
        if self.architecture.packed:
            gate, up = self._matrices[f"{at}mlp.gate_up_proj.weight"].product(x).chunk(2, dim=-1)
        else:
            names = [f"{at}mlp.{name}_proj" for name in ("gate", "up")]
            gate, up = (self._biased(self._matrices[f"{name}.weight"].product(x), name) for name in names)
        down = self._matrices[f"{at}mlp.down_proj.weight"]
        return self._biased(down.product(self._active(gate) * up), f"{at}mlp.down_proj")

    def _mixed(self, x: Tensor, at: str, experts: Experts) -> Tensor:
        scores = self._matrices[f"{at}mlp.gate.weight"].product(x).contiguous()
        chosen = best(scores, experts.chosen)  # (1, count, chosen)
        gate, up, down = (self._chosen(f"{at}mlp.experts.{name}_proj", chosen) for name in ("gate", "up", "down"))
        each = x.reshape(1, x.shape[1], 1, 1, -1)
        out = down.product((self._active(gate.product(each)) * up.product(each)).contiguous()).squeeze(-2)
        return (out * shares(scores, chosen, among_chosen=experts.among_chosen).unsqueeze(-1)).sum(2)

    def _chosen(self, name: str, numbers: Tensor) -> Floats:
        matrices = self._matrices[f"{name}.weight"]
        assert not isinstance(matrices, Integers)  # rows lie side by side in one matrix alone
        return matrices.chosen(numbers)

    def _active(self, x: Tensor) -> Tensor:
        return x.silu() if self.architecture.activation == "silu" else x.gelu()

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


# Experts: each token is transformed by the few networks that score best for it, and no other one is read


def best(scores: Tensor, count: int) -> Tensor:
    """The numbers of the `count` best scores, best first, and of equal ones the first: (…, n) → int32 (…, count)."""
    numbers = Tensor.arange(scores.shape[-1])
    mine, other = scores.unsqueeze(-1), scores.unsqueeze(-2)
    is_before = (other > mine) | (other == mine) & (numbers < numbers.reshape(-1, 1))
    places = is_before.sum(-1).unsqueeze(-2)
    is_there = places == Tensor.arange(count).reshape(-1, 1)
    return is_there.where(numbers, 0).sum(-1).cast(dtypes.int32).contiguous()


def shares(scores: Tensor, chosen: Tensor, *, among_chosen: bool) -> Tensor:
    """What each of the chosen adds, (…, count): its probability among them, if `among_chosen`, or else among all."""
    if among_chosen:
        return scores.gather(-1, chosen).softmax()
    return scores.softmax().contiguous().gather(-1, chosen)
