"""Gemma 3's text models: five layers with a window for one that sees all, each kind with its own rotary embedding."""

from eigentensor_models.architecture import Architecture, Attention
from eigentensor_models.families.common import FULL, SLIDING, attended, count, kinds, sizes
from eigentensor_models.families.gemma2 import activation, capped, gemma
from eigentensor_models.options import Options
from eigentensor_models.rotary import Turning, rotary


def read(options: Options) -> Architecture:
    """As Gemma 2, with norms of queries and keys; scores of attention are not capped."""
    activation(options)
    options.only("attn_logit_softcapping", None)
    known = sizes(options)
    number, every = count(options), options.whole("sliding_window_pattern", options.whole("_sliding_window_pattern", 6))
    window = options.whole("sliding_window", 4096)
    size = Turning(known["head_size"], known["context"])
    both = options.room("rope_parameters") or Options({}, options.what)
    whole = both.room(FULL) or options.room("rope_scaling") or Options({}, options.what)
    near = both.room(SLIDING) or Options({}, options.what)
    both.close()
    by_kind = {
        FULL: Attention(rotary(whole, size, options.number("rope_theta", 1e6))),
        SLIDING: Attention(rotary(near, size, options.number("rope_local_base_freq", 1e4)), window),
    }
    usual = [FULL if (n + 1) % every == 0 else SLIDING for n in range(number)]
    layers = attended(kinds(options, number, usual), by_kind)
    return Architecture(
        **known, **capped(options, None, None), **gemma(options, known["width"]), layers=layers, head_norms=True
    )
