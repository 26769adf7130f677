"""Mistral 7B: Llama with a window for all layers, or none."""

from eigentensor_models.architecture import Architecture, Attention
from eigentensor_models.families.common import count, sizes, turning
from eigentensor_models.options import Options


def read(options: Options, base: float = 10_000.0, epsilon: float = 1e-6) -> Architecture:
    """`sliding_window` is null in later versions: then all layers attend to all positions."""
    options.only("hidden_act", "silu")
    known = sizes(options, epsilon)
    window = options.whole("sliding_window") if options.has("sliding_window") else None
    one = Attention(turning(options, known, base), window)
    return Architecture(**known, layers=(one,) * count(options), tied=options.flag("tie_word_embeddings"))
