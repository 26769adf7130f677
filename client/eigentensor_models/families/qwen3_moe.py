"""Qwen 3 with experts: which layers have them is said by a step, and by those that have none."""

from dataclasses import replace

from eigentensor_models.architecture import Architecture, Attention
from eigentensor_models.families import qwen3
from eigentensor_models.families.common import experts
from eigentensor_models.options import Options


def read(options: Options) -> Architecture:
    """A window is one of all layers. Experts are `moe_intermediate_size` wide; their shares are those among the chosen
    if `norm_topk_prob` says so."""
    count = options.whole("num_local_experts", options.whole("num_experts", 128))
    step, dense = options.whole("decoder_sparse_step", 1), {*(options.wholes("mlp_only_layers") or ())}
    hidden, among_chosen = options.whole("moe_intermediate_size", 768), options.flag("norm_topk_prob")
    window = options.whole("sliding_window", 4096) if options.flag("use_sliding_window") else None
    options.ignore("sliding_window", "max_window_layers")
    architecture = qwen3.read(options)
    layers = tuple(Attention(layer.rotary, window) for layer in architecture.layers)
    without = frozenset(n for n in range(len(layers)) if n in dense or (n + 1) % step)
    chosen = experts(options, count, 8, hidden)
    return replace(architecture, layers=layers, experts=replace(chosen, among_chosen=among_chosen, without=without))
