"""Qwen 3: queries and keys are normalised, head by head, before they turn."""

from eigentensor_models.architecture import Architecture
from eigentensor_models.families.common import late_windows, sizes, turning
from eigentensor_models.options import Options


def read(options: Options) -> Architecture:
    """A head's size is said apart from the width: 128 unless it is."""
    options.only("hidden_act", "silu")
    if not options.has("head_dim"):
        raise options.wrong("head_dim is missing", "Fetch the file again.")
    known = sizes(options)
    biased = options.flag("attention_bias")
    return Architecture(
        **known,
        layers=late_windows(options, turning(options, known)),
        tied=options.flag("tie_word_embeddings"),
        query_bias=biased,
        output_bias=biased,
        head_norms=True,
    )
