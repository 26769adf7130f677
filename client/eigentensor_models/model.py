"""A model as people have it → the programs that write and read, or the one that encodes, and its text."""

from dataclasses import dataclass
from pathlib import Path

from eigentensor.errors import BindingError, ConfigError
from eigentensor.extras import require
from eigentensor_models import gguf
from eigentensor_models.early import NOBODY, Early
from eigentensor_models.encoders import ENCODERS
from eigentensor_models.encoding import Encoding, encoding
from eigentensor_models.families import FAMILIES
from eigentensor_models.folder import CONFIG, read_network
from eigentensor_models.gguf_network import network_of
from eigentensor_models.gguf_text import text_of
from eigentensor_models.options import Options, read_object
from eigentensor_models.text import Text, ends_of, read_text
from eigentensor_models.writing import Programs, programs

CONTEXT = 1024  #: tokens that a text may have unless another number is wanted, or the model was made for fewer


@dataclass(frozen=True, slots=True)
class Model:
    """Programs that write and read tokens, what makes text of them, and the tokens that end an answer."""

    programs: Programs
    text: Text
    ends: tuple[int, ...]
    context: int


def is_model(name: str) -> bool:
    """Whether what is named is to be a model: a folder, or a GGUF file."""
    return Path(name).suffix == ".gguf" or Path(name).is_dir()


def load(
    path: Path,
    context: int | None = None,
    part: str | None = None,
    rows: int | None = None,
    *,
    integer: bool = False,
    early: Early = NOBODY,
) -> Model | Encoding:
    """The model in a folder, or in a GGUF file, for texts of so many tokens. With `integer`, its quantised matrices are
    multiplied with integers. Of an encoder, `part` is the half of one that has two, and `rows` how many texts or images
    it encodes at once, one unless it is said. `early` is told of the weights and programs of one that writes, of each
    as soon as it is there.

    Raises ConfigError for a configuration, tokenizer or template that is not known or malformed, TensorFileError for
    weights that are, BindingError for a context that the model was not made for, or a part or integers that it does not
    have.
    """
    require("models")
    if path.suffix != ".gguf":
        values = read_object(path / CONFIG)
        family = Options(values, str(path / CONFIG)).word("model_type")
        if family in ENCODERS:
            if integer:
                raise BindingError(f"{path} has no quantised matrix", fix="Leave --integer out.")
            return encoding(path, values, part, context, 1 if rows is None else rows)
        if family not in FAMILIES:
            raise ConfigError(
                f"{path / CONFIG}: models of kind {family[:80]!r} are not known here",
                fix=f"Known are {', '.join(sorted({*FAMILIES, *ENCODERS}))}; or capture a function of its tensors.",
            )
    if part is not None or rows is not None:
        raise BindingError(f"{path} writes, one text at a time", fix="Leave --part and --batch out.")
    if path.suffix == ".gguf":
        file = gguf.read(path)
        network, (text, ends) = network_of(file, path.name), text_of(file.metadata, path.name)
    else:
        network, text = read_network(path), read_text(path)
        ends = ends_of(path, text)
    if text.size > network.architecture.vocabulary:
        raise ConfigError(
            f"{path}: the tokenizer has {text.size} tokens, the network {network.architecture.vocabulary}",
            fix="Take both of the same model.",
        )
    if text.template is not None:
        _try(text, path)
    chosen = min(CONTEXT, network.architecture.context) if context is None else context
    return Model(programs(network, chosen, integer=integer, early=early), text, tuple(ends), chosen)


def _try(text: Text, path: Path) -> None:
    """Raises ConfigError for a template that takes not even one message."""
    try:
        text.chat([{"role": "user", "content": "x"}])
    except BindingError as error:
        raise ConfigError(f"{path}: {error.what}", fix="Correct its chat_template.") from None
