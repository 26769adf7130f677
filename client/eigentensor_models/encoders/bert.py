"""BERT, and what is built like it: MiniLM, BGE, E5; RoBERTa and XLM-RoBERTa."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tinygrad import Tensor

from eigentensor_models.encoders.common import layers
from eigentensor_models.encoders.layers import Layers, Names, Parameters, Shapes, among, encoded
from eigentensor_models.encoders.pooling import Pooling
from eigentensor_models.options import Options

_NAMES = Names(
    query="attention.self.query", key="attention.self.key", value="attention.self.value",
    out="attention.output.dense", attention_norm="attention.output.LayerNorm",
    up="intermediate.dense", down="output.dense", hidden_norm="output.LayerNorm",
)  # fmt: skip
_HEADS = ("Model", "ForMaskedLM", "ForPreTraining")  # of which the encoder alone is used


@dataclass(frozen=True, slots=True)
class Bert:
    """Texts → a vector each."""

    prefix: str
    vocabulary: int
    context: int
    first: int  # the position of the first token
    kinds: int  # of parts of a text; here there is one part
    layers: Layers
    pooling: Pooling

    def shapes(self) -> Shapes:
        """Of all tensors."""
        rows = {"word": self.vocabulary, "position": self.first + self.context, "token_type": self.kinds}
        named: Shapes = {f"embeddings.{n}_embeddings.weight": (count, self.layers.width) for n, count in rows.items()}
        named |= {f"embeddings.LayerNorm.{word}": (self.layers.width,) for word in ("weight", "bias")}
        return named | self.layers.shapes()

    def inputs(self, rows: int, length: int) -> dict[str, Any]:
        """`tokens`, from the left on, and `mask`, 1 where there is one."""
        return {"tokens": np.zeros((rows, length), np.int32), "mask": np.ones((rows, length), np.float32)}

    def __call__(self, tensors: Mapping[str, Tensor], **inputs: Tensor) -> Tensor:
        """A vector for each text, (rows, width)."""
        tokens, mask, parameters = inputs["tokens"], inputs["mask"], Parameters(tensors)
        places = parameters["embeddings.position_embeddings.weight"][self.first : self.first + tokens.shape[1]]
        x = parameters.rows("embeddings.word_embeddings", tokens) + places
        x = x + parameters["embeddings.token_type_embeddings.weight"][0]
        x = parameters.norm(x, "embeddings.LayerNorm", self.layers.epsilon)
        return self.pooling(encoded(x, among(mask), self.layers, parameters), mask)


def read(options: Options, pooling: Pooling) -> Bert:
    """BERT's positions count from zero."""
    return _read(options, pooling, "bert", "Bert", 0)


def read_roberta(options: Options, pooling: Pooling) -> Bert:
    """RoBERTa's positions count from behind the number of the token that fills up."""
    padding = options.whole("pad_token_id", 1, least=0)
    return _read(options, pooling, "roberta", "Roberta", padding + 1)


def read_xlm_roberta(options: Options, pooling: Pooling) -> Bert:
    """RoBERTa for many languages, under a name of its own."""
    padding = options.whole("pad_token_id", 1, least=0)
    return _read(options, pooling, "roberta", "XLMRoberta", padding + 1)


def _read(options: Options, pooling: Pooling, prefix: str, name: str, first: int) -> Bert:
    options.words_of("architectures", *(f"{name}{head}" for head in _HEADS))
    options.only("position_embedding_type", "absolute")
    made = layers(options, "encoder.layer.", _NAMES, 1e-12, "gelu", norms_first=False)
    positions = options.whole("max_position_embeddings", 512)
    if positions <= first:
        raise options.wrong(f"it has {positions} positions, from {first} on", "Look at max_position_embeddings.")
    return Bert(
        prefix=f"{prefix}.",
        vocabulary=options.whole("vocab_size"),
        context=positions - first,
        first=first,
        kinds=options.whole("type_vocab_size", 2),
        layers=made,
        pooling=pooling,
    )
