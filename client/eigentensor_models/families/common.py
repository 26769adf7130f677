"""What all families' configurations have in common."""

from typing import Any

from eigentensor_models.architecture import Attention, Experts, Rotary
from eigentensor_models.options import Options
from eigentensor_models.rotary import Turning, rotary

LARGEST = 1 << 16  #: elements of a head
FULL, SLIDING = "full_attention", "sliding_attention"
#: Options that change nothing that a trained model computes.
IDLE = (
    "architectures", "auto_map", "_name_or_path", "transformers_version", "dtype", "torch_dtype", "use_cache",
    "cache_implementation", "initializer_range", "attention_dropout", "pretraining_tp", "is_decoder", "return_dict",
    "bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "sep_token_id", "cls_token_id", "mask_token_id",
    "problem_type", "id2label", "label2id", "output_attentions", "output_hidden_states", "chunk_size_feed_forward",
    "_attn_implementation_autoset", "use_bfloat16", "task_specific_params",
)  # fmt: skip


def sizes(options: Options, epsilon: float = 1e-6) -> dict[str, Any]:
    """The fields of an architecture that every configuration has, under the same names. Raises ConfigError."""
    options.ignore(*IDLE)
    options.only("is_encoder_decoder", False)
    options.only("add_cross_attention", False)
    width, heads = options.whole("hidden_size"), options.whole("num_attention_heads")
    key_heads = options.whole("num_key_value_heads", heads)
    if not options.has("head_dim") and width % heads:
        raise options.wrong(f"{width} cannot be cut into {heads} heads", "Look at hidden_size.")
    if heads % key_heads:
        raise options.wrong(f"{heads} heads cannot share {key_heads} of keys", "Look at num_key_value_heads.")
    size = options.whole("head_dim", width // heads)
    if size > LARGEST:
        raise options.wrong(f"a head has {size} elements", "Look at head_dim.")
    return {
        "vocabulary": options.whole("vocab_size"),
        "width": width,
        "heads": heads,
        "key_heads": key_heads,
        "head_size": size,
        "hidden": options.whole("intermediate_size"),
        "epsilon": options.number("rms_norm_eps", epsilon),
        "context": options.whole("max_position_embeddings"),
    }


def count(options: Options) -> int:
    """How many layers there are: at most 1,024."""
    number = options.whole("num_hidden_layers")
    if number > 1024:
        raise options.wrong(f"it has {number} layers", "Look at num_hidden_layers.")
    return number


def turning(options: Options, known: dict[str, Any], base: float = 10_000.0) -> Rotary:
    """The rotary embedding of all layers, as new and old configurations write it."""
    parameters = options.room("rope_parameters") or options.room("rope_scaling") or Options({}, options.what)
    default = options.number("rope_theta", base)
    return rotary(parameters, Turning(known["head_size"], known["context"]), default)


def kinds(options: Options, number: int, usual: list[str]) -> list[str]:
    """For each layer whether it attends to all positions or to a window: `layer_types`, or what is usual."""
    layers = options.words("layer_types") or usual
    if len(layers) != number:
        raise options.wrong(f"layer_types has {len(layers)} of {number} layers", "Look at that line.")
    for kind in layers:
        if kind not in (FULL, SLIDING):
            raise options.unknown("layer_types", kind)
    return layers


def attended(layers: list[str], by_kind: dict[str, Attention]) -> tuple[Attention, ...]:
    """The attention of each layer."""
    return tuple(by_kind[kind] for kind in layers)


def late_windows(options: Options, embedded: Rotary) -> tuple[Attention, ...]:
    """Layers as Qwen has them: the first ones attend to all, those from `max_window_layers` on to a window, if one is
    used at all."""
    number, used = count(options), options.flag("use_sliding_window")
    window = options.whole("sliding_window", 4096) if options.has("sliding_window") and used else None
    options.ignore("sliding_window")
    first = options.whole("max_window_layers", 28, least=0)
    usual = [SLIDING if window is not None and n >= first else FULL for n in range(number)]
    return attended(
        kinds(options, number, usual),
        {FULL: Attention(embedded), SLIDING: Attention(embedded, window)},
    )


def experts(options: Options, number: int, chosen: int, hidden: int) -> Experts:
    """So many experts, of which each token takes `num_experts_per_tok`, or as many as is usual."""
    options.ignore("output_router_logits", "router_aux_loss_coef")
    few = options.whole("num_experts_per_tok", chosen)
    if few > number or number > 1024:
        raise options.wrong(f"{few} of {number} experts cannot be chosen", "Look at num_experts_per_tok.")
    return Experts(number, few, hidden)
