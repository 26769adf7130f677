"""A model's folder: `config.json`, `*.safetensors`, and what its texts are made of."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from eigentensor.errors import TensorFileError
from eigentensor_models.architecture import Architecture, Experts
from eigentensor_models.families import architecture_of
from eigentensor_models.options import read_object
from eigentensor_models.quantised import Kept, Weight
from eigentensor_models.weights import held_to, read_folder, together

CONFIG = "config.json"
_EXPERT = re.compile(r"(model\.layers\.\d+)\.(?:mlp|block_sparse_moe)\.experts\.(\d+)\.(\w+)\.weight")
_ROUTER = ".block_sparse_moe.gate."
_WORDS = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}  # Mixtral's


@dataclass(frozen=True, slots=True)
class Network:
    """An architecture with its weights, by the names of the architecture's tensors."""

    architecture: Architecture
    weights: dict[str, Kept]


def read_network(folder: Path) -> Network:
    """Raises ConfigError for a configuration that is not known, TensorFileError for weights that do not fit it."""
    architecture = architecture_of(read_object(folder / CONFIG), str(folder / CONFIG))
    weights: Mapping[str, Weight] = read_folder(folder)
    if architecture.experts is not None:
        weights = _together(weights, architecture.experts, architecture.shapes(), str(folder))
    return Network(architecture, held_to(weights, architecture.shapes(), str(folder)))


def _together(
    weights: Mapping[str, Weight], experts: Experts, shapes: Mapping[str, tuple[int, ...]], what: str
) -> dict[str, Weight]:
    """Matrices of all experts as one tensor each, of which a program reads what it chooses; files have them apart."""
    joined: dict[str, Weight] = {}
    apart: dict[str, dict[int, Weight]] = {}
    for name, weight in weights.items():
        matched = _EXPERT.fullmatch(name)
        at, number, word = matched.groups() if matched else ("", "", "")
        whole = f"{at}.mlp.experts.{_WORDS.get(word, word)}.weight"
        if whole in shapes:
            apart.setdefault(whole, {})[int(number)] = weight
        else:
            joined[name.replace(_ROUTER, ".mlp.gate.")] = weight
    for name, parts in apart.items():
        if parts.keys() != set(range(experts.count)):
            raise TensorFileError(
                f"{what}: {name!r} is of {len(parts)} experts, the configuration says {experts.count}",
                fix="Take configuration and weights of the same model.",
            )
        if {part.shape for part in parts.values()} != {shapes[name][1:]} or len({p.dtype for p in parts.values()}) > 1:
            raise TensorFileError(
                f"{what}: experts of {name!r} differ, or have not the shape {shapes[name][1:]}",
                fix="Take configuration and weights of the same model.",
            )
        joined[name] = together([parts[number] for number in range(experts.count)], name)
    return joined
