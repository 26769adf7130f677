"""The program that encodes: texts or images, some at once, become vectors."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tinygrad import Tensor

from eigentensor.capture import GraphProgram, capture
from eigentensor.errors import BindingError, ConfigError
from eigentensor_models.encoders import encoder_of
from eigentensor_models.encoders.common import Encoder
from eigentensor_models.matrices import DEVICE, DTYPES, stand_in
from eigentensor_models.quantised import Kept, Weight
from eigentensor_models.text import Text, read_text
from eigentensor_models.weights import held_to, read_folder

LENGTH = 256  #: tokens that a text may have unless another number is wanted, or the model's folder says fewer
_OLD = {".gamma": ".weight", ".beta": ".bias"}  # names that norms had


@dataclass(frozen=True, slots=True)
class Encoding:
    """A program that encodes, and what makes tokens of texts, if it reads any."""

    graph: GraphProgram
    text: Text | None


def encoding(
    folder: Path, values: Mapping[str, Any], part: str | None = None, context: int | None = None, rows: int = 1
) -> Encoding:
    """The encoder in a folder, of which `values` is the configuration, for so many rows at once, texts of at most
    `context` tokens.

    Raises ConfigError and TensorFileError for what is not known or malformed, BindingError for a part that there is
    not, and a context or a number of rows for which it was not made.
    """
    encoder, usual = encoder_of(values, folder, part)
    weights = weights_of(encoder, folder)
    length = _length(encoder, context, usual)
    if not 1 <= rows <= 4096:
        raise BindingError(f"{rows} rows at once", fix="Choose 1 to 4096 with --batch.")
    text = None
    if encoder.context is not None:
        text = read_text(folder)
        if text.size > encoder.vocabulary:
            raise ConfigError(
                f"{folder}: the tokenizer has {text.size} tokens, the network {encoder.vocabulary}",
                fix="Take both of the same model.",
            )
    return Encoding(encoded(encoder, weights, rows, length), text)


def encoded(encoder: Encoder, weights: Mapping[str, Kept], rows: int, length: int) -> GraphProgram:
    """The program of an encoder; its weights are mapped, not read."""
    parts = {name: part for name, kept in weights.items() for part in kept.parts(name).values()}
    stand_ins = {name: stand_in(part.shape, DTYPES[part.dtype]) for name, part in parts.items()}
    examples = {name: Tensor(array, device=DEVICE) for name, array in encoder.inputs(rows, length).items()}
    graph = capture(lambda **inputs: encoder(stand_ins, **inputs), examples, stand_ins)
    return replace(graph, weights={name: parts[name].array for name in graph.weights})


def weights_of(encoder: Encoder, folder: Path) -> dict[str, Kept]:
    """The encoder's tensors among those of a folder, which may have more than it: a decoder, heads for other uses.

    Raises TensorFileError for tensors that do not fit it.
    """
    shapes = encoder.shapes()
    rooms = {name.partition(".")[0] for name in shapes}
    named: dict[str, Weight] = {}
    for name, weight in read_folder(folder).items():
        for old, new in _OLD.items():
            name = f"{name.removesuffix(old)}{new}" if name.endswith(old) else name
        name = name.removeprefix(encoder.prefix)
        if name.partition(".")[0] in rooms:
            named[name] = weight
    return held_to(named, shapes, str(folder))


def _length(encoder: Encoder, context: int | None, usual: int | None) -> int:
    if encoder.context is None:
        if context is not None:
            raise BindingError("a context: this model reads no texts", fix="Leave --context out.")
        return 0
    chosen = min(usual or LENGTH, LENGTH, encoder.context) if context is None else context
    if not 2 <= chosen <= encoder.context:
        raise BindingError(
            f"a context of {chosen} tokens: the model was made for 2 to {encoder.context}",
            fix="Choose a shorter one with --context.",
        )
    return chosen
