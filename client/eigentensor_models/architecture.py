"""What a decoder is made of: sizes and options, as a family's configuration says them. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rotary:
    """Rotary embedding: the angle by which each pair of a head's elements turns from position to position; those of no
    pair stay. Cosines and sines are multiplied by `scale`."""

    frequencies: tuple[float, ...]
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Attention:
    """What one layer attends to: the last `window` positions, or all; how these are embedded."""

    rotary: Rotary | None
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Experts:
    """What transforms instead of one network: `count` of them, of which each token takes the `chosen` best by a score
    of its own, and adds them up by their shares of the probability: of all, or, if `among_chosen`, of those."""

    count: int
    chosen: int
    hidden: int
    among_chosen: bool = True
    without: frozenset[int] = frozenset()  # layers that have one network


@dataclass(frozen=True, slots=True)
class Architecture:
    """A decoder. Each of its layers attends, then transforms, each time adding to what it was given."""

    vocabulary: int
    width: int
    heads: int
    key_heads: int  # each serves heads / key_heads heads of queries
    head_size: int
    hidden: int
    layers: tuple[Attention, ...]
    epsilon: float
    context: int  # positions that it was made for
    activation: str = "silu"  # or "gelu", by tanh
    tied: bool = False  # words are scored by the matrix that embeds them
    query_bias: bool = False  # of queries, keys and values
    output_bias: bool = False
    hidden_bias: bool = False
    head_norms: bool = False  # of queries and keys, before they turn
    after_norms: bool = False  # of what a layer adds
    packed: bool = False  # queries, keys and values are one matrix, gate and up another
    offset: float = 0.0  # what is added to the weights of norms
    score_scale: float | None = None  # 1/√head_size if none
    score_cap: float | None = None
    logit_cap: float | None = None
    word_scale: float = 1.0
    experts: Experts | None = None

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor, by the name that its file has for it."""
        queries, keys = self.heads * self.head_size, self.key_heads * self.head_size
        named: dict[str, tuple[int, ...]] = {
            "model.embed_tokens.weight": (self.vocabulary, self.width),
            "model.norm.weight": (self.width,),
        }
        if not self.tied:
            named["lm_head.weight"] = (self.vocabulary, self.width)
        inner: dict[str, tuple[int, ...]] = dict.fromkeys(self._norms(), (self.width,))
        if self.head_norms:
            inner |= {f"self_attn.{name}_norm.weight": (self.head_size,) for name in "qk"}
        if self.packed:
            inner["self_attn.qkv_proj.weight"] = (queries + 2 * keys, self.width)
        else:
            rows = {"q": queries, "k": keys, "v": keys}
            inner |= {f"self_attn.{name}_proj.weight": (size, self.width) for name, size in rows.items()}
            if self.query_bias:
                inner |= {f"self_attn.{name}_proj.bias": (size,) for name, size in rows.items()}
        inner["self_attn.o_proj.weight"] = (self.width, queries)
        if self.output_bias:
            inner["self_attn.o_proj.bias"] = (self.width,)
        for number in range(len(self.layers)):
            fed = self._one() if self.experts is None or number in self.experts.without else self._many(self.experts)
            named |= {f"{layer(number)}{name}": shape for name, shape in (inner | fed).items()}
        return named

    def _one(self) -> dict[str, tuple[int, ...]]:
        """The network of a layer that has one."""
        named: dict[str, tuple[int, ...]] = {"mlp.down_proj.weight": (self.width, self.hidden)}
        if self.packed:
            return named | {"mlp.gate_up_proj.weight": (2 * self.hidden, self.width)}
        named |= {f"mlp.{name}_proj.weight": (self.hidden, self.width) for name in ("gate", "up")}
        if self.hidden_bias:
            named |= {f"mlp.{name}_proj.bias": (self.hidden,) for name in ("gate", "up")}
            named["mlp.down_proj.bias"] = (self.width,)
        return named

    def _many(self, experts: Experts) -> dict[str, tuple[int, ...]]:
        """The experts of a layer, as one tensor for each of their matrices, and what scores them."""
        return {
            "mlp.gate.weight": (experts.count, self.width),
            "mlp.experts.gate_proj.weight": (experts.count, experts.hidden, self.width),
            "mlp.experts.up_proj.weight": (experts.count, experts.hidden, self.width),
            "mlp.experts.down_proj.weight": (experts.count, self.width, experts.hidden),
        }

    def _norms(self) -> tuple[str, ...]:
        names = ("input_layernorm.weight", "post_attention_layernorm.weight")
        after = ("pre_feedforward_layernorm.weight", "post_feedforward_layernorm.weight")
        return (*names, *after) if self.after_norms else names


def layer(number: int) -> str:
    """What the names of a layer's tensors begin with."""
    return f"model.layers.{number}."
