"""Families of decoders: a page each says what its configuration means."""

from collections.abc import Callable, Mapping
from typing import Any

from eigentensor.errors import ConfigError
from eigentensor_models.architecture import Architecture
from eigentensor_models.families import gemma2, gemma3, llama, mistral, mixtral, phi3, qwen2, qwen3, qwen3_moe
from eigentensor_models.options import Options

FAMILIES: Mapping[str, Callable[[Options], Architecture]] = {
    "gemma2": gemma2.read,
    "gemma3_text": gemma3.read,
    "llama": llama.read,
    "mistral": mistral.read,
    "mixtral": mixtral.read,
    "phi3": phi3.read,
    "qwen2": qwen2.read,
    "qwen3": qwen3.read,
    "qwen3_moe": qwen3_moe.read,
}  #: by `model_type` of config.json


def architecture_of(values: Mapping[str, Any], what: str = "config.json") -> Architecture:
    """The architecture that a configuration describes. Raises ConfigError, which names what is not known."""
    options = Options(values, what)
    family = options.word("model_type")
    if family not in FAMILIES:
        raise ConfigError(
            f"{what}: models of kind {family[:80]!r} are not known here",
            fix=f"Known are {', '.join(sorted(FAMILIES))}; or capture a function of its tensors.",
        )
    architecture = FAMILIES[family](options)
    options.close()
    return architecture
