"""The program that writes: it reads the token at a position and writes the next one (`eigentensor_client.writing`)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from tinygrad import Tensor, UOp, dtypes

from eigentensor.capture import GraphProgram, capture
from eigentensor.errors import BindingError
from eigentensor.numerics.dtypes import DType
from eigentensor_client.writing import LIMITS, SAMPLED, Sampling
from eigentensor_models.decoder import Cache, Decoder, Place
from eigentensor_models.folder import Network
from eigentensor_models.matrices import matrix_of
from eigentensor_models.quantised import Quantised, Weight
from eigentensor_models.sampling import allowed, sampled

_DTYPES = {
    DType.FLOAT32: dtypes.float32, DType.FLOAT16: dtypes.float16, DType.BFLOAT16: dtypes.bfloat16,
    DType.INT8: dtypes.int8, DType.UINT8: dtypes.uint8,
}  # fmt: skip


class Writer:
    """A decoder at work. Position 0 stands before the text: no other one sees it."""

    def __init__(self, decoder: Decoder, context: int) -> None:
        """`context` tokens are the longest text."""
        self.decoder, self.length = decoder, context
        self.cache = Cache(decoder.architecture, context)
        self.tokens = Tensor.zeros(context + 1, dtype=dtypes.int32).contiguous().realize()

    def states(self) -> dict[str, Tensor]:
        """What it changes."""
        return {"tokens": self.tokens, **self.cache.states()}

    def write(
        self, prompt: Tensor, position: UOp, temperature: Tensor, top_k: Tensor, top_p: Tensor, **drawn: Tensor
    ) -> Tensor:
        """All tokens so far and the next one, which is the prompt's where it has one: not less than zero."""
        places = Tensor.arange(self.length + 1)
        here = places[position : position + 1]
        token = self.tokens[position : position + 1]
        x = self.decoder(token, Place(position, 1, self.length), self.cache)
        scores = self.decoder.scores(x).flatten()
        among = allowed(scores, temperature, top_k, top_p)
        new = sampled(scores, temperature, position=here.cast(dtypes.uint32), among=among, **drawn)
        following = (prompt < 0).where(new, prompt)
        return self.tokens.assign((places == here + 1).where(following, self.tokens))

    def scored(self, token: Tensor, position: UOp) -> Tensor:
        """The scores (vocabulary,) of what follows the token (1,) at a position."""
        return self.decoder.scores(self.decoder(token, Place(position, 1, self.length), self.cache)).flatten()


def written(network: Network, context: int, *, integer: bool = False) -> GraphProgram:
    """The program that writes, repeated as often as the context has tokens; its weights are mapped, not read. With
    `integer`, quantised matrices are multiplied with integers.

    Raises BindingError for a context that the model was not made for, or integers that it does not have.
    """
    writer, weights = writer_of(network, context, integer=integer)
    inputs = {"prompt": np.full(context + 1, -1, np.int32), **Sampling().inputs((*SAMPLED, *LIMITS))}
    return _captured(writer.write, inputs, writer, weights, network)


def scoring(network: Network, context: int, *, integer: bool = False) -> GraphProgram:
    """The program that scores what follows a token; its states are keys and values."""
    writer, weights = writer_of(network, context, integer=integer)
    return _captured(writer.scored, {"token": np.zeros(1, np.int32)}, writer, weights, network)


def writer_of(network: Network, context: int, *, integer: bool = False) -> tuple[Writer, dict[str, Tensor]]:
    """A writer over tensors that stand for the weights, and these by name."""
    architecture = network.architecture
    if not 2 <= context <= architecture.context:
        raise BindingError(
            f"a context of {context} tokens: the model was made for 2 to {architecture.context}",
            fix="Choose a shorter one with --context.",
        )
    if integer and not any(isinstance(kept, Quantised) for kept in network.weights.values()):
        raise BindingError(
            "the model has no quantised matrix to multiply with integers",
            fix="Leave --integer out, or take a GGUF file of the model with blocks, such as Q8_0.",
        )
    stand_ins = {name: Tensor.empty(*w.shape, dtype=_DTYPES[w.dtype]) for name, w in _parts(network).items()}
    matrices = {
        name: matrix_of(name, kept, stand_ins, integer=integer)
        for name, kept in network.weights.items()
        if len(kept.shape) == 2
    }
    vectors = {name: stand_ins[name] for name, kept in network.weights.items() if len(kept.shape) == 1}
    return Writer(Decoder(architecture, matrices, vectors), context), stand_ins


def _captured(
    function: Callable[..., Tensor], inputs: Mapping[str, Any], writer: Writer, weights: dict[str, Tensor], of: Network
) -> GraphProgram:
    variables = {"position": (0, writer.length - 1, 1)}
    tensors = {**weights, **writer.states()}
    graph = capture(function, inputs, tensors, variables=variables, max_repeat=writer.length)
    parts = _parts(of)
    return replace(graph, weights={name: parts[name].array for name in graph.weights})


def _parts(network: Network) -> dict[str, Weight]:
    """The weights of the program."""
    return {part: weight for name, kept in network.weights.items() for part, weight in kept.parts(name).items()}
