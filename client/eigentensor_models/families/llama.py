"""Llama 2 and 3, and what is built like it: SmolLM, TinyLlama."""

from eigentensor_models.architecture import Architecture, Attention
from eigentensor_models.families.common import count, sizes, turning
from eigentensor_models.options import Options


def read(options: Options) -> Architecture:
    """All layers attend to all positions; biases where the configuration says so."""
    options.only("hidden_act", "silu")
    known = sizes(options)
    biased = options.flag("attention_bias")
    embedded = turning(options, known)
    options.only("rope_interleaved", False)  # said by SmolLM
    options.ignore("is_llama_config")
    return Architecture(
        **known,
        layers=(Attention(embedded),) * count(options),
        tied=options.flag("tie_word_embeddings"),
        query_bias=biased,
        output_bias=biased,
        hidden_bias=options.flag("mlp_bias"),
    )
