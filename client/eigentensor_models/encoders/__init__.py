"""Encoders: a page each says what a family's configuration means, and what it computes."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from eigentensor.errors import BindingError
from eigentensor_models.encoders import bert, clip, vit, whisper
from eigentensor_models.encoders.common import Encoder
from eigentensor_models.encoders.pooling import Pooling, read_pooling
from eigentensor_models.options import Options

_TEXTS: Mapping[str, Callable[[Options, Pooling], Encoder]] = {
    "bert": bert.read,
    "roberta": bert.read_roberta,
    "xlm-roberta": bert.read_xlm_roberta,
}
_OTHERS: Mapping[str, Callable[[Options], Encoder]] = {"vit": vit.read, "whisper": whisper.read}
_CLIP: Mapping[str, Callable[[Options], Encoder]] = {"text": clip.read_text, "image": clip.read_image}
ENCODERS = ("clip", *_TEXTS, *_OTHERS)  #: values of `model_type`


def encoder_of(values: Mapping[str, Any], folder: Path, part: str | None = None) -> tuple[Encoder, int | None]:
    """The encoder that a configuration, of one of ENCODERS, describes, and how many tokens its folder says that texts
    should have at most. `part` is the half of one that has two.

    Raises ConfigError, which names what is not known; BindingError for a part that there is not.
    """
    options, length = Options(values, str(folder / "config.json")), None
    kind = options.word("model_type")
    if (part is None) == (kind == "clip") or (part is not None and part not in _CLIP):
        parts = f"one of {', '.join(_CLIP)}" if kind == "clip" else "none, since it is whole"
        raise BindingError(f"{folder}: the part {part or 'is not named'}", fix=f"Name {parts}: --part.")
    if kind in _TEXTS:
        pooling, length = read_pooling(folder)
        made = _TEXTS[kind](options, pooling)
    else:
        made = _CLIP[part](options) if part is not None else _OTHERS[kind](options)
    options.close()
    return made, length
