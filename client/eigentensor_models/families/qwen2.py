"""Qwen 2 and 2.5: biases of queries, keys and values; late layers may have a window."""

from eigentensor_models.architecture import Architecture
from eigentensor_models.families.common import late_windows, sizes, turning
from eigentensor_models.options import Options


def read(options: Options) -> Architecture:
    """Queries, keys and values always have a bias, what comes out of attention has none."""
    options.only("hidden_act", "silu")
    options.only("use_mrope", False)  # said by text models that were made beside those that see
    known = sizes(options)
    layers = late_windows(options, turning(options, known))
    return Architecture(**known, layers=layers, tied=options.flag("tie_word_embeddings"), query_bias=True)
