"""Phi-3 and Phi-4-mini: Llama, with queries, keys and values in one matrix, gate and up in another."""

from eigentensor_models.architecture import Architecture, Attention
from eigentensor_models.families.common import count, sizes
from eigentensor_models.options import Options
from eigentensor_models.rotary import Turning, rotary


def read(options: Options) -> Architecture:
    """With LongRoPE texts are at most as long as the first context, for which its short factors are."""
    options.only("hidden_act", "silu")
    options.ignore("resid_pdrop", "embd_pdrop")
    options.only("attention_bias", False)
    known = sizes(options, 1e-5)
    first = options.whole("original_max_position_embeddings", known["context"])
    parameters = options.room("rope_parameters") or options.room("rope_scaling") or Options({}, options.what)
    options.ignore("rope_scaling")
    base, part = options.number("rope_theta", 10_000.0), options.number("partial_rotary_factor", 1.0)
    is_long = parameters.has("long_factor")
    embedded = rotary(parameters, Turning(known["head_size"], known["context"], first), base, part)
    window = options.whole("sliding_window") if options.has("sliding_window") else None
    known["context"] = min(known["context"], first) if is_long else known["context"]
    return Architecture(
        **known,
        layers=(Attention(embedded, window),) * count(options),
        tied=options.flag("tie_word_embeddings"),
        packed=True,
    )
