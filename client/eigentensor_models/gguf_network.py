"""A GGUF file's network: its metadata as the configuration of a family, its tensors under the names of that."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from eigentensor.errors import ConfigError, TensorFileError
from eigentensor.numerics.dtypes import DType
from eigentensor_models.architecture import Architecture, Attention, Rotary, layer
from eigentensor_models.families import architecture_of
from eigentensor_models.families.common import FULL, SLIDING
from eigentensor_models.folder import Network
from eigentensor_models.gguf import File, Tensor
from eigentensor_models.options import Options
from eigentensor_models.quantised import Kept, Quantised, Weight
from eigentensor_models.weights import held_to

#: `general.architecture` → `model_type`
FAMILIES = {
    "gemma2": "gemma2", "gemma3": "gemma3_text", "llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3",
    "qwen3moe": "qwen3_moe",
}  # fmt: skip
_GEMMA = ("gemma2", "gemma3")
_LARGEST = {"gemma2": 46, "gemma3": 62}  # layers of the models whose scores are scaled by another rule
_FLOATS = {
    "F32": (DType.FLOAT32, np.float32),
    "F16": (DType.FLOAT16, np.float16),
    "BF16": (DType.BFLOAT16, np.uint16),
}
_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_INNER = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "mlp.gate", "ffn_gate_exps": "mlp.experts.gate_proj", "ffn_up_exps": "mlp.experts.up_proj",
    "ffn_down_exps": "mlp.experts.down_proj",
}  # fmt: skip
_INNER_GEMMA = _INNER | {
    "post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}  # fmt: skip
_FREQUENCIES = "rope_freqs.weight"


def network_of(file: File, what: str) -> Network:
    """The network in a file. Raises ConfigError for an architecture, or a part of it, that is not known, and
    TensorFileError for tensors that do not fit it."""
    kind = file.metadata.get("general.architecture")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise ConfigError(
            f"{what}: the architecture {str(kind)[:80]!r} is not known here",
            fix=f"Known are {', '.join(sorted(FAMILIES))}; or take the model's folder of safetensors.",
        )
    architecture = architecture_of(_configuration(file, kind, what), what)
    weights = {_named(name, kind): _kept(name, tensor, what) for name, tensor in file.tensors.items()}
    if (factors := weights.pop(_FREQUENCIES, None)) is not None:
        architecture = _slower(architecture, factors, what)
    if kind in _GEMMA:
        architecture = replace(architecture, offset=0.0)  # these files have it added already
    held = held_to(weights, architecture.shapes(), what)
    if vector := next((name for name, kept in held.items() if "norm" in name and isinstance(kept, Quantised)), None):
        raise TensorFileError(f"{what}: {vector!r} is quantised, and no matrix", fix="Fetch the file again.")
    if kind == "llama":
        held |= {name: _unturned(kept, heads) for name, kept, heads in _turned(held, architecture)}
    return Network(architecture, held)


def _configuration(file: File, kind: str, what: str) -> dict[str, Any]:
    """What config.json would say. Raises ConfigError for a member of the architecture that is not known."""
    prefix = f"{kind}."
    own = Options({k.removeprefix(prefix): v for k, v in file.metadata.items() if k.startswith(prefix)}, what)
    words = file.tensors.get("token_embd.weight")
    if words is None or len(words.shape) != 2:
        raise TensorFileError(f"{what} has no tensor 'token_embd.weight'", fix="Fetch the file again.")
    own.ignore("vocab_size", "rope.dimension_count", "attention.value_length")
    values: dict[str, Any] = {
        "model_type": FAMILIES[kind],
        "vocab_size": words.shape[0],
        "hidden_size": own.whole("embedding_length"),
        "intermediate_size": own.whole("feed_forward_length"),
        "num_hidden_layers": own.whole("block_count"),
        "num_attention_heads": own.whole("attention.head_count"),
        "max_position_embeddings": own.whole("context_length"),
        "rms_norm_eps": own.number("attention.layer_norm_rms_epsilon"),
        "tie_word_embeddings": "output.weight" not in file.tensors,
    }
    values["num_key_value_heads"] = own.whole("attention.head_count_kv", values["num_attention_heads"])
    width = values["hidden_size"] // values["num_attention_heads"]
    values["head_dim"] = own.whole("attention.key_length", width)
    if own.has("rope.freq_base"):
        values["rope_theta"] = own.number("rope.freq_base")
    if kind in ("llama", "qwen3", "qwen3moe") and "blk.0.attn_q.bias" in file.tensors:
        values["attention_bias"] = True
    if (scaling := _scaling(own)) is not None:
        values["rope_scaling"] = scaling
    if kind in _GEMMA:
        values |= _gemma(own, kind, values)
    if kind in ("llama", "qwen3moe"):
        values |= _experts(own, kind)
    own.close()
    return values


def _experts(own: Options, kind: str) -> dict[str, Any]:
    """Llama with experts is Mixtral; shares are always those among the chosen."""
    count, chosen = (own.whole(f"expert_{name}", 0, least=0) for name in ("count", "used_count"))
    if not count:
        return {}
    counts = {"num_local_experts": count, "num_experts_per_tok": chosen}
    if kind == "llama":
        return counts | {"model_type": "mixtral"}
    return counts | {"moe_intermediate_size": own.whole("expert_feed_forward_length"), "norm_topk_prob": True}


def _scaling(own: Options) -> dict[str, Any] | None:
    kind = own.chosen("rope.scaling.type", "none", "linear", "yarn")
    own.ignore("rope.scaling.finetuned")
    if kind == "none":
        return None
    scaling = {"rope_type": kind, "factor": own.number("rope.scaling.factor")}
    if own.has("rope.scaling.original_context_length"):
        first = own.whole("rope.scaling.original_context_length")
        scaling |= {"original_max_position_embeddings": first} if kind == "yarn" else {}
    return scaling


def _gemma(own: Options, kind: str, values: Mapping[str, Any]) -> dict[str, Any]:
    is_largest = values["num_hidden_layers"] == _LARGEST[kind]
    width = values["hidden_size"] // values["num_attention_heads"]
    gemma: dict[str, Any] = {
        "sliding_window": own.whole("attention.sliding_window", 4096),
        "query_pre_attn_scalar": width if is_largest else values["head_dim"],
    }
    for name in ("attn_logit_softcapping", "final_logit_softcapping"):
        if own.has(name):
            gemma[name] = own.number(name)
    if kind == "gemma3" and own.has("rope.freq_base_swa"):
        gemma["rope_local_base_freq"] = own.number("rope.freq_base_swa")
    if (windows := own.flags("attention.sliding_window_pattern")) is not None:
        gemma["layer_types"] = [SLIDING if window else FULL for window in windows]
    return gemma


def _named(name: str, kind: str) -> str:
    """A tensor by the name that its family has for it; one that is not known keeps its own."""
    if name in _TOP:
        return _TOP[name]
    first, _, rest = name.partition(".")
    number, _, rest = rest.partition(".")
    word, _, last = rest.rpartition(".")
    inner = _INNER_GEMMA if kind in _GEMMA else _INNER
    if first != "blk" or not number.isdecimal() or word not in inner:
        return name
    return f"{layer(int(number))}{inner[word]}.{last}"


def _kept(name: str, tensor: Tensor, what: str) -> Kept:
    if (kind := tensor.kind.name) in _FLOATS:
        dtype, storage = _FLOATS[kind]
        return Weight(dtype, tensor.data.view(storage).reshape(tensor.shape))
    if len(tensor.shape) < 2:
        raise TensorFileError(f"{what}: {name[:80]!r} is quantised, and no matrix", fix="Fetch the file again.")
    return tensor.kind.split(tensor.data, tensor.shape)


def _slower(architecture: Architecture, factors: Kept, what: str) -> Architecture:
    """The same, with each pair turning slower by its factor: so these files say what Llama 3 scales."""

    def slower(attention: Attention) -> Attention:
        assert attention.rotary is not None
        angles = np.array(attention.rotary.frequencies, np.float32)
        if isinstance(factors, Quantised) or factors.dtype is not DType.FLOAT32 or factors.shape != angles.shape:
            raise TensorFileError(f"{what}: {_FREQUENCIES!r} is not a factor for each pair", fix="Fetch it again.")
        with np.errstate(all="ignore"):
            divided = angles / factors.array
        if not np.isfinite(divided).all():
            raise TensorFileError(f"{what}: {_FREQUENCIES!r} has zeros, or what is no number", fix="Fetch it again.")
        return replace(attention, rotary=Rotary(tuple(divided.tolist()), attention.rotary.scale))

    return replace(architecture, layers=tuple(map(slower, architecture.layers)))


def _turned(weights: Mapping[str, Kept], architecture: Architecture) -> list[tuple[str, Kept, int]]:
    """What these files have in another order of rows: queries and keys, with how many heads they have."""
    heads = {"q": architecture.heads, "k": architecture.key_heads}
    return [
        (name, weights[name], count)
        for number in range(len(architecture.layers))
        for word, count in heads.items()
        for suffix in ("weight", "bias")
        if (name := f"{layer(number)}self_attn.{word}_proj.{suffix}") in weights
    ]


def _unturned(kept: Kept, heads: int) -> Kept:
    """Pairs that stand side by side, as halves of each head."""

    def rows(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        pairs = array.reshape(heads, -1, 2, *array.shape[1:])
        return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(array.shape)

    if isinstance(kept, Quantised):
        return kept.of_rows(rows)
    return Weight(kept.dtype, rows(kept.array))
