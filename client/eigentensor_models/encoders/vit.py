"""ViT: images → what they show, or a vector for each of their squares."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tinygrad import Tensor

from eigentensor_models.encoders.common import layers
from eigentensor_models.encoders.images import Squares, read_squares
from eigentensor_models.encoders.layers import Layers, Names, Parameters, Shapes, encoded
from eigentensor_models.options import Options

_NAMES = Names(
    query="attention.attention.query", key="attention.attention.key", value="attention.attention.value",
    out="attention.output.dense", attention_norm="layernorm_before",
    up="intermediate.dense", down="output.dense", hidden_norm="layernorm_after",
)  # fmt: skip
_CLASSIFIER = "ViTForImageClassification"


@dataclass(frozen=True, slots=True)
class ViT:
    """Images → scores of `labels`, or, without labels, vectors of all squares behind one of the whole image."""

    squares: Squares
    labels: int
    layers: Layers
    prefix: str = "vit."
    context: None = None
    vocabulary: int = 0

    def shapes(self) -> Shapes:
        """Of all tensors."""
        width, at = self.layers.width, "embeddings.patch_embeddings.projection"
        named: Shapes = {
            "embeddings.cls_token": (1, 1, width),
            "embeddings.position_embeddings": (1, 1 + self.squares.count, width),
            f"{at}.weight": self.squares.shape(width),
            f"{at}.bias": (width,),
            "layernorm.weight": (width,),
            "layernorm.bias": (width,),
        }
        if self.labels:
            named |= {"classifier.weight": (self.labels, width), "classifier.bias": (self.labels,)}
        return named | self.layers.shapes()

    def inputs(self, rows: int, length: int) -> dict[str, Any]:
        """`pixel_values`, float32 (rows, channels, size, size)."""
        return self.squares.inputs(rows)

    def __call__(self, tensors: Mapping[str, Tensor], **inputs: Tensor) -> Tensor:
        """Scores (rows, labels), or vectors (rows, 1 + squares, width)."""
        pixels, parameters = inputs["pixel_values"], Parameters(tensors)
        at = "embeddings.patch_embeddings.projection"
        x = self.squares.vectors(pixels, parameters[f"{at}.weight"]) + parameters[f"{at}.bias"]
        whole = parameters["embeddings.cls_token"].expand(pixels.shape[0], 1, self.layers.width)
        x = whole.cat(x, dim=1) + parameters["embeddings.position_embeddings"]
        x = parameters.norm(encoded(x, None, self.layers, parameters), "layernorm", self.layers.epsilon)
        return parameters.product(x[:, 0], "classifier") if self.labels else x


def read(options: Options) -> ViT:
    """A model of labels has as many as `id2label` names."""
    kind = options.words_of("architectures", "ViTModel", _CLASSIFIER)
    labels = options.labels() if kind == _CLASSIFIER else 0
    options.ignore("encoder_stride", "pooler_act", "pooler_output_size")
    made = layers(options, "encoder.layer.", _NAMES, 1e-12, "gelu", norms_first=True)
    if not options.flag("qkv_bias", True):
        made = replace(made, unbiased=frozenset((_NAMES.query, _NAMES.key, _NAMES.value)))
    return ViT(read_squares(options, 16), labels, made)
