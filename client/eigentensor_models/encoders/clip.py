"""CLIP: texts and images → vectors of one space, each by an encoder of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tinygrad import Tensor

from eigentensor_models.encoders.common import layers
from eigentensor_models.encoders.images import Squares, read_squares
from eigentensor_models.encoders.layers import Layers, Names, Parameters, Shapes, among, encoded
from eigentensor_models.encoders.pooling import unit
from eigentensor_models.options import Options

PARTS = ("text", "image")
_NAMES = Names(
    query="self_attn.q_proj", key="self_attn.k_proj", value="self_attn.v_proj", out="self_attn.out_proj",
    attention_norm="layer_norm1", up="mlp.fc1", down="mlp.fc2", hidden_norm="layer_norm2",
)  # fmt: skip
_LARGEST = 2  # `eos_token_id` of files that mean the token with the largest number


@dataclass(frozen=True, slots=True)
class ClipText:
    """Texts → vectors of length 1."""

    vocabulary: int
    context: int
    end: int
    projected: int
    layers: Layers
    prefix: str = "text_model."

    def shapes(self) -> Shapes:
        """Of all tensors."""
        width = self.layers.width
        named: Shapes = {
            "embeddings.token_embedding.weight": (self.vocabulary, width),
            "embeddings.position_embedding.weight": (self.context, width),
            "final_layer_norm.weight": (width,),
            "final_layer_norm.bias": (width,),
            "text_projection.weight": (self.projected, width),
        }
        return named | self.layers.shapes()

    def inputs(self, rows: int, length: int) -> dict[str, Any]:
        """`tokens`, from the left on, and `mask`, 1 where there is one."""
        return {"tokens": np.zeros((rows, length), np.int32), "mask": np.ones((rows, length), np.float32)}

    def __call__(self, tensors: Mapping[str, Tensor], **inputs: Tensor) -> Tensor:
        """The vector at the first token that ends a text, (rows, width): nobody sees what follows it."""
        tokens, mask, parameters = inputs["tokens"], inputs["mask"], Parameters(tensors)
        length = tokens.shape[1]
        x = parameters.rows("embeddings.token_embedding", tokens)
        x = x + parameters["embeddings.position_embedding.weight"][:length]
        places = Tensor.arange(length)
        x = encoded(x, among(mask) & (places.reshape(-1, 1) >= places), self.layers, parameters)
        x = parameters.norm(x, "final_layer_norm", self.layers.epsilon)
        ends = tokens == (tokens.max(1, keepdim=True) if self.end == _LARGEST else self.end)
        first = ends.where(places, length).min(1, keepdim=True) % length  # the first token, where nothing ends it
        last = (places == first).unsqueeze(-1).where(x, 0).sum(1)
        return unit(parameters.product(last, "text_projection"))


@dataclass(frozen=True, slots=True)
class ClipImage:
    """Images → vectors of length 1."""

    squares: Squares
    projected: int
    layers: Layers
    prefix: str = "vision_model."
    context: None = None
    vocabulary: int = 0

    def shapes(self) -> Shapes:
        """Of all tensors."""
        width = self.layers.width
        named: Shapes = {
            "embeddings.class_embedding": (width,),
            "embeddings.patch_embedding.weight": self.squares.shape(width),
            "embeddings.position_embedding.weight": (1 + self.squares.count, width),
            "visual_projection.weight": (self.projected, width),
        }
        norms = ("pre_layrnorm", "post_layernorm")  # the first is misspelt in all files
        named |= {f"{norm}.{word}": (width,) for norm in norms for word in ("weight", "bias")}
        return named | self.layers.shapes()

    def inputs(self, rows: int, length: int) -> dict[str, Any]:
        """`pixel_values`, float32 (rows, channels, size, size)."""
        return self.squares.inputs(rows)

    def __call__(self, tensors: Mapping[str, Tensor], **inputs: Tensor) -> Tensor:
        """The vector of the whole image, (rows, width)."""
        pixels, parameters, epsilon = inputs["pixel_values"], Parameters(tensors), self.layers.epsilon
        x = self.squares.vectors(pixels, parameters["embeddings.patch_embedding.weight"])
        whole = parameters["embeddings.class_embedding"].reshape(1, 1, -1).expand(pixels.shape[0], 1, -1)
        x = whole.cat(x, dim=1) + parameters["embeddings.position_embedding.weight"]
        x = encoded(parameters.norm(x, "pre_layrnorm", epsilon), None, self.layers, parameters)
        return unit(parameters.product(parameters.norm(x[:, 0], "post_layernorm", epsilon), "visual_projection"))


def read_text(options: Options) -> ClipText:
    """The half that reads texts."""
    part, projected = _half(options, "text_config", "vision_config")
    context, end = part.whole("max_position_embeddings", 77), part.whole("eos_token_id", 49407, least=0)
    made = layers(part, "encoder.layers.", _NAMES, 1e-5, "quick_gelu", norms_first=True)
    clip = ClipText(part.whole("vocab_size", 49408), context, end, projected, made)
    part.close()
    return clip


def read_image(options: Options) -> ClipImage:
    """The half that sees images."""
    part, projected = _half(options, "vision_config", "text_config")
    made = layers(part, "encoder.layers.", _NAMES, 1e-5, "quick_gelu", norms_first=True)
    clip = ClipImage(read_squares(part, 32), projected, made)
    part.close()
    return clip


def _half(options: Options, name: str, other: str) -> tuple[Options, int]:
    """What is said of one half, and how wide vectors of both are."""
    options.words_of("architectures", "CLIPModel")
    options.ignore(other, f"{other}_dict", f"{name}_dict", "logit_scale_init_value", "initializer_factor")
    options.ignore("_commit_hash", "transformers_version", "dtype", "torch_dtype", "_name_or_path")
    part = options.room(name)
    if part is None:
        raise options.wrong(f"{name} is missing", "Fetch the file again.")
    part.ignore("projection_dim")  # that of both holds
    return part, options.whole("projection_dim", 512)
