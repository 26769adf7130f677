"""Mixtral: Mistral, with experts that each token chooses two of."""

from dataclasses import replace

from eigentensor_models.architecture import Architecture
from eigentensor_models.families import mistral
from eigentensor_models.families.common import experts
from eigentensor_models.options import Options


def read(options: Options) -> Architecture:
    """All layers have experts, as wide as `intermediate_size`."""
    options.ignore("router_jitter_noise")  # while it was trained
    count = options.whole("num_local_experts", options.whole("num_experts", 8))
    architecture = mistral.read(options, base=1e6, epsilon=1e-5)
    return replace(architecture, experts=experts(options, count, 2, architecture.hidden))
