"""Gemma 2: every other layer has a window; scores are capped; what a layer adds is normalised, too."""

from typing import Any

from eigentensor_models.architecture import Architecture, Attention
from eigentensor_models.families.common import FULL, SLIDING, attended, count, kinds, sizes, turning
from eigentensor_models.options import Options

TANH = ("gelu_pytorch_tanh", "gelu_new")  # names of the same function


def read(options: Options) -> Architecture:
    """Norms multiply by one plus their weights, words by the root of the width."""
    activation(options)
    known = sizes(options)
    embedded, number = turning(options, known), count(options)
    window = options.whole("sliding_window", 4096)
    usual = [(SLIDING, FULL)[n % 2] for n in range(number)]
    layers = attended(kinds(options, number, usual), {FULL: Attention(embedded), SLIDING: Attention(embedded, window)})
    return Architecture(**known, **capped(options, 50.0, 30.0), **gemma(options, known["width"]), layers=layers)


def activation(options: Options) -> None:
    """Gemma's is GELU by tanh, under two names in two places; only both together say another one."""
    options.only("hidden_activation", TANH[0], *TANH)
    options.ignore("hidden_act")  # which is not looked at where the other is
    options.only("use_bidirectional_attention", False)


def gemma(options: Options, width: int) -> dict[str, Any]:
    """What Gemma 2 and 3 have in common."""
    biased = options.flag("attention_bias")
    return {
        "activation": "gelu",
        "tied": options.flag("tie_word_embeddings", True),
        "query_bias": biased,
        "output_bias": biased,
        "after_norms": True,
        "offset": 1.0,
        "score_scale": options.number("query_pre_attn_scalar", 256.0) ** -0.5,
        "word_scale": width**0.5,
    }


def capped(options: Options, scores: float | None, logits: float | None) -> dict[str, Any]:
    """The largest that scores of attention and of words come to, where the configuration names some."""
    named = {"score_cap": ("attn_logit_softcapping", scores), "logit_cap": ("final_logit_softcapping", logits)}
    return {
        field: options.number(name, usual) if usual is not None or options.has(name) else None
        for field, (name, usual) in named.items()
    }
