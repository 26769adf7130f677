"""What all encoders' configurations have in common, and what an encoder is."""

from collections.abc import Mapping
from typing import Any, Protocol

from tinygrad import Tensor

from eigentensor_models.encoders.layers import ACTIVATIONS, Layers, Names, Shapes
from eigentensor_models.families import common
from eigentensor_models.options import Options

#: Options that old configurations have of texts that are written, which encoders do not, and of training.
_IDLE = (
    "hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "gradient_checkpointing", "dropout",
    "initializer_factor", "attention_dropout", "tie_word_embeddings", "directionality", "pooler_fc_size",
    "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type",
    "bad_words_ids", "begin_suppress_tokens", "cross_attention_hidden_size",
    "decoder_start_token_id", "diversity_penalty", "do_sample", "early_stopping", "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty", "finetuning_task", "forced_bos_token_id", "forced_eos_token_id",
    "length_penalty", "max_length", "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams",
    "num_return_sequences", "output_past", "output_scores", "prefix", "remove_invalid_values", "repetition_penalty",
    "return_dict_in_generate", "suppress_tokens", "temperature", "tf_legacy_loss", "tie_encoder_decoder",
    "tokenizer_class", "top_k", "top_p", "torchscript", "typical_p", "model_type", "pruned_heads",
)  # fmt: skip


class Encoder(Protocol):
    """A network that encodes: what its files have, what goes in, and what comes out."""

    @property
    def prefix(self) -> str:
        """What the names of its tensors begin with in files that have more than it."""

    @property
    def context(self) -> int | None:
        """How many tokens a text may have; None for what reads no texts."""

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""

    def shapes(self) -> Shapes:
        """The shape of each tensor by its name, without the prefix."""

    def inputs(self, rows: int, length: int) -> dict[str, Any]:
        """Examples of what goes in: so many rows, of so many tokens."""

    def __call__(self, tensors: Mapping[str, Tensor], **inputs: Tensor) -> Tensor:
        """What the inputs come to, float32 (rows, …)."""


def layers(options: Options, at: str, names: Names, epsilon: float, activation: str, *, norms_first: bool) -> Layers:
    """The layers that a configuration describes under the names that most have. Raises ConfigError."""
    for flag in ("is_decoder", "is_encoder_decoder", "add_cross_attention"):
        options.only(flag, False)
    options.ignore(*common.IDLE, *_IDLE)
    width, heads = options.whole("hidden_size"), options.whole("num_attention_heads")
    if width % heads:
        raise options.wrong(f"{width} cannot be cut into {heads} heads", "Look at hidden_size.")
    return Layers(
        at=at,
        names=names,
        count=common.count(options),
        width=width,
        heads=heads,
        hidden=options.whole("intermediate_size"),
        epsilon=options.number("layer_norm_eps", epsilon),
        activation=options.chosen("hidden_act", activation, *ACTIVATIONS),
        norms_first=norms_first,
    )
