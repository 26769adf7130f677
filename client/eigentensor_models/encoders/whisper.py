"""Whisper's encoder: what is heard in half a minute → a vector for each fiftieth of a second."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tinygrad import Tensor

from eigentensor_models.encoders.common import layers
from eigentensor_models.encoders.layers import Layers, Names, Parameters, Shapes, active, encoded
from eigentensor_models.options import Options

_NAMES = Names(
    query="self_attn.q_proj", key="self_attn.k_proj", value="self_attn.v_proj", out="self_attn.out_proj",
    attention_norm="self_attn_layer_norm", up="fc1", down="fc2", hidden_norm="final_layer_norm",
)  # fmt: skip
#: Of the decoder, of training, and of texts that are written.
_IDLE = (
    "decoder_attention_heads", "decoder_layers", "decoder_ffn_dim", "decoder_layerdrop", "encoder_layerdrop",
    "activation_dropout", "init_std", "max_target_positions", "vocab_size", "use_weighted_layer_sum",
    "classifier_proj_size", "apply_spec_augment", "mask_time_prob", "mask_time_length", "mask_time_min_masks",
    "mask_feature_prob", "mask_feature_length", "mask_feature_min_masks", "median_filter_width", "alignment_heads",
    "forced_decoder_ids", "num_hidden_layers", "is_encoder_decoder", "begin_suppress_tokens", "suppress_tokens",
    "max_length", "lang_ids", "suppress_ids", "begin_suppress_ids",
)  # fmt: skip
_SAME = {"d_model": "hidden_size", "encoder_layers": "num_hidden_layers", "activation_function": "hidden_act",
         "encoder_attention_heads": "num_attention_heads", "encoder_ffn_dim": "intermediate_size"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Whisper:
    """Spectra → vectors."""

    bands: int
    places: int
    layers: Layers
    prefix: str = "model."
    context: None = None
    vocabulary: int = 0

    def shapes(self) -> Shapes:
        """Of all tensors."""
        width = self.layers.width
        named: Shapes = {
            "encoder.conv1.weight": (width, self.bands, 3),
            "encoder.conv2.weight": (width, width, 3),
            "encoder.embed_positions.weight": (self.places, width),
        }
        vectors = ("conv1.bias", "conv2.bias", "layer_norm.weight", "layer_norm.bias")
        return named | {f"encoder.{name}": (width,) for name in vectors} | self.layers.shapes()

    def inputs(self, rows: int, length: int) -> dict[str, Any]:
        """`input_features`, float32 (rows, bands, 2 × places), as transformers' extractor makes them."""
        return {"input_features": np.zeros((rows, self.bands, 2 * self.places), np.float32)}

    def __call__(self, tensors: Mapping[str, Tensor], **inputs: Tensor) -> Tensor:
        """(rows, places, width)."""
        x, parameters = inputs["input_features"], Parameters(tensors)
        for name, stride in (("encoder.conv1", 1), ("encoder.conv2", 2)):
            moved = x.conv2d(parameters[f"{name}.weight"], parameters[f"{name}.bias"], stride=stride, padding=1)
            x = active(moved, "gelu").contiguous()
        x = x.transpose(1, 2) + parameters["encoder.embed_positions.weight"]
        x = encoded(x, None, self.layers, parameters)
        return parameters.norm(x, "encoder.layer_norm", self.layers.epsilon)


def read(options: Options) -> Whisper:
    """Keys have no bias; words are not scaled, since none are read."""
    options.words_of("architectures", "WhisperForConditionalGeneration", "WhisperModel")
    options.ignore(*_IDLE, "scale_embedding")
    options.rename(_SAME)
    made = layers(options, "encoder.layers.", _NAMES, 1e-5, "gelu", norms_first=True)
    made = replace(made, unbiased=frozenset((_NAMES.key,)))
    return Whisper(options.whole("num_mel_bins", 80), options.whole("max_source_positions", 1500), made)
