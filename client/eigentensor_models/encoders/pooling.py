"""Vectors of texts: how those of their tokens become one, as sentence-transformers' `modules.json` says it."""

from dataclasses import dataclass
from pathlib import Path

from tinygrad import Tensor

from eigentensor.errors import ConfigError
from eigentensor_models.options import Options, read_list, read_object

MODULES = "modules.json"
_WAYS = {"cls_token": "first", "mean_tokens": "mean", "max_tokens": "max", "mean_sqrt_len_tokens": "root"}
_SHORT = {"cls": "first", "mean": "mean", "max": "max", "mean_sqrt_len_tokens": "root"}  # of later versions


@dataclass(frozen=True, slots=True)
class Pooling:
    """The `first` token's vector, the `mean` of all, their `max`, or their sum over the `root` of their number; with
    length 1, if `normalise`."""

    way: str = "mean"
    normalise: bool = False

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        """(rows, length, width) of tokens where `mask` (rows, length) is not zero → (rows, width)."""
        there = (mask > 0).unsqueeze(-1)
        if self.way == "first":
            vectors = x[:, 0]
        elif self.way == "max":
            vectors = there.where(x, -1e9).max(1)
        else:
            count = there.sum(1).maximum(1).float()
            vectors = there.where(x, 0).sum(1) / (count.sqrt() if self.way == "root" else count)
        return unit(vectors) if self.normalise else vectors


def unit(vectors: Tensor) -> Tensor:
    """Vectors (…, width) of length 1."""
    return vectors / vectors.square().sum(-1, keepdim=True).sqrt().maximum(1e-12)


def read_pooling(folder: Path) -> tuple[Pooling, int | None]:
    """How a folder's vectors are pooled, and how many tokens its texts should have at most, where it says so.

    Raises ConfigError for modules, or ways of pooling, that are not known.
    """
    config = folder / "sentence_bert_config.json"
    length = Options(read_object(config), str(config)).whole("max_seq_length", 0, 0) if config.is_file() else None
    path = folder / MODULES
    if not path.is_file():
        return Pooling(), length or None
    modules = [Options(one, str(path)) for one in read_list(path) if isinstance(one, dict)]
    kinds = [one.word("type").rpartition(".")[2] for one in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise ConfigError(
            f"{path}: the modules {', '.join(kinds)[:200] or 'none'} are not known here",
            fix="Known are Transformer, Pooling and Normalize, in this order.",
        )
    place = modules[1].word("path")
    if Path(place).name != place:
        raise ConfigError(f"{path}: Pooling is said to be in {place[:80]!r}", fix="Name a folder beside it.")
    way = _way(Options(read_object(folder / place / "config.json"), str(folder / place / "config.json")))
    return Pooling(way, kinds[-1] == "Normalize"), length or None


def _way(options: Options) -> str:
    options.ignore("word_embedding_dimension", "embedding_dimension", "include_prompt")
    if options.has("pooling_mode"):
        ways = [_SHORT[options.chosen("pooling_mode", "mean", *_SHORT)]]
    else:
        for name in ("weightedmean_tokens", "lasttoken"):
            options.only(f"pooling_mode_{name}", False)
        ways = [way for name, way in _WAYS.items() if options.flag(f"pooling_mode_{name}", name == "mean_tokens")]
    options.close()
    if len(ways) != 1:
        raise options.wrong(f"it has {len(ways)} ways of pooling", "One is known at a time.")
    return ways[0]
