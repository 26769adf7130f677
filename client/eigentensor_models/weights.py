"""A model's weights in safetensors files, one or several with an index; held to the shapes of its architecture."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from eigentensor.errors import TensorFileError
from eigentensor.numerics.dtypes import DType
from eigentensor.store.headers import read_header
from eigentensor.store.tensors import load_safetensors
from eigentensor_models.options import read_object
from eigentensor_models.quantised import Kept, Weight

INDEX, WHOLE = "model.safetensors.index.json", "model.safetensors"
FILES = 4096  #: at most, that a model consists of
_FLOATS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
#: Tensors that old files have beside the weights: they follow from the configuration.
_IDLE = ("rotary_emb.inv_freq", "attn.masked_bias", "position_ids")


def read_folder(folder: Path) -> dict[str, Weight]:
    """The floats in a folder's files by name. Raises TensorFileError for files that are missing, malformed, or not what
    the index says."""
    weights: dict[str, Weight] = {}
    for path, names in _files(folder).items():
        if not path.is_file():
            raise TensorFileError(f"{path} is missing", fix="Fetch all files of the model.")
        entries, arrays = read_header(path), load_safetensors(path)
        if names is not None and (differs := names ^ entries.keys()):
            raise TensorFileError(
                f"{path.name} and the index do not have the same tensors, {sorted(differs)[0]!r} for one",
                fix="Fetch both again.",
            )
        for name, entry in entries.items():
            if name.endswith(_IDLE):
                continue
            if entry.dtype not in _FLOATS:
                kind = entry.dtype.name.lower()
                raise TensorFileError(
                    f"{path.name}: {name!r} has elements of {kind}, a quantisation that is not known",
                    fix="Take the model in float32, float16 or bfloat16, or a GGUF file of it.",
                )
            weights[name] = Weight(entry.dtype, arrays[name])
    return weights


def together(parts: Sequence[Weight], name: str) -> Weight:
    """Tensors of one dtype and shape as one with an axis before: copied into a file without a name, not into memory.

    Raises TensorFileError where the disk has no room for it.
    """
    first = parts[0]
    try:
        with tempfile.TemporaryFile() as file:
            os.posix_fallocate(file.fileno(), 0, len(parts) * first.array.nbytes)  # or writing might end this process
            whole = np.memmap(file, first.array.dtype, "r+", shape=(len(parts), *first.shape))
    except OSError as error:
        raise TensorFileError(
            f"the experts' {name!r} find no room in {tempfile.gettempdir()}: {error.strerror}",
            fix="Make room, or name another folder in $TMPDIR.",
        ) from None
    for number, part in enumerate(parts):
        whole[number] = part.array
    whole.flags.writeable = False
    return Weight(first.dtype, whole)


def held_to(weights: Mapping[str, Kept], shapes: Mapping[str, tuple[int, ...]], what: str) -> dict[str, Kept]:
    """The weights of these names and shapes. Raises TensorFileError for one that is missing, of another shape, or left
    over; a matrix of scores is left out where the architecture has none."""
    for name, shape in shapes.items():
        if name not in weights:
            raise TensorFileError(f"{what} has no tensor {name!r}", fix="Fetch all files of the model.")
        if weights[name].shape != shape:
            raise TensorFileError(
                f"{what}: {name!r} has the shape {weights[name].shape}, the configuration says {shape}",
                fix="Take configuration and weights of the same model.",
            )
    left = sorted(weights.keys() - shapes.keys() - {"lm_head.weight"})
    if left:
        raise TensorFileError(
            f"{what} has a tensor {left[0]!r}, for which its configuration has no place",
            fix="Take configuration and weights of the same model.",
        )
    return {name: weights[name] for name in shapes}


def _files(folder: Path) -> dict[Path, set[str] | None]:
    """The files, and the tensors that each should have, where an index says it."""
    index = folder / INDEX
    if not index.is_file():
        return {folder / WHOLE: None}
    places = read_object(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise TensorFileError(f"{index} has no weight_map", fix="Fetch it again.")
    files: dict[Path, set[str] | None] = {}
    by_file: dict[str, set[str]] = {}
    for name, file in places.items():
        if not isinstance(file, str) or Path(file).name != file or not file.endswith(".safetensors"):
            raise TensorFileError(f"{index}: {name!r} is said to be in {file!r}", fix="Name files beside the index.")
        by_file.setdefault(file, set()).add(name)
    if len(by_file) > FILES:
        raise TensorFileError(f"{index} names {len(by_file)} files", fix=f"A model has at most {FILES}.")
    files |= {folder / file: names for file, names in by_file.items()}
    return files
