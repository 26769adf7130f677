"""A model's folder: `config.json`, `*.safetensors`, and what its texts are made of."""

from dataclasses import dataclass
from pathlib import Path

from eigentensor_models.architecture import Architecture
from eigentensor_models.families import architecture_of
from eigentensor_models.options import read_object
from eigentensor_models.quantised import Kept
from eigentensor_models.weights import held_to, read_folder

CONFIG = "config.json"


@dataclass(frozen=True, slots=True)
class Network:
    """An architecture with its weights, by the names of the architecture's tensors."""

    architecture: Architecture
    weights: dict[str, Kept]


def read_network(folder: Path) -> Network:
    """Raises ConfigError for a configuration that is not known, TensorFileError for weights that do not fit it."""
    architecture = architecture_of(read_object(folder / CONFIG), str(folder / CONFIG))
    return Network(architecture, held_to(read_folder(folder), architecture.shapes(), str(folder)))
