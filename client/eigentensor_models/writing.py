"""The programs of a model: one reads the token at a position and writes the next one, one reads a chunk of tokens at
once (`eigentensor_client.writing`)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from tinygrad import Tensor, UOp, dtypes

from eigentensor.capture import GraphProgram, capture
from eigentensor.errors import BindingError
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.model import Program, Role
from eigentensor_client.writing import LIMITS, SAMPLED, Sampling
from eigentensor_models.decoder import Cache, Decoder, Place
from eigentensor_models.early import NOBODY, Early
from eigentensor_models.folder import Network
from eigentensor_models.known import get, key_of, put
from eigentensor_models.matrices import DEVICE, DTYPES, matrix_of, stand_in
from eigentensor_models.quantised import Kept, Quantised
from eigentensor_models.sampling import allowed, sampled

#: Tokens that are read at once, at most.
CHUNK = 64
APART = 512  #: positions: rows of so many, or of multiples, would share the same lines of a processor's cache


class Writer:
    """A decoder at work. Position 0 stands before the text: no other one sees it."""

    def __init__(self, decoder: Decoder, context: int) -> None:
        """`context` tokens are the longest text."""
        self.decoder, self.context, self.chunk = decoder, context, min(CHUNK, context)
        self.length = -(-context // self.chunk) * self.chunk  # so that each chunk is whole
        if self.length % APART == 0:
            self.length += self.chunk
        self.cache = Cache(decoder.architecture, self.length, self.chunk)
        self.tokens = stand_in((context + 1,), dtypes.int32)

    def states(self) -> dict[str, Tensor]:
        """What it changes."""
        return {"tokens": self.tokens, **self.cache.states()}

    def write(
        self, prompt: Tensor, position: UOp, temperature: Tensor, top_k: Tensor, top_p: Tensor, **drawn: Tensor
    ) -> Tensor:
        """All tokens so far and the next one, which is the prompt's where it has one: not less than zero."""
        places = Tensor.arange(self.context + 1)
        here = places[position : position + 1]
        token = self.tokens[position : position + 1]
        scores = self.decoder.scores(self._decoded(token, Place(position, 1, self.length))).flatten()
        among = allowed(scores, temperature, top_k, top_p)
        new = sampled(scores, temperature, position=here.cast(dtypes.uint32), among=among, **drawn)
        following = (prompt < 0).where(new, prompt)
        return self.tokens.assign((places == here + 1).where(following, self.tokens))

    def read(
        self, prompt: Tensor, position: UOp, temperature: Tensor, top_k: Tensor, top_p: Tensor, **drawn: Tensor
    ) -> Tensor:
        """The same of a chunk: of the token at a position and those of the prompt that follow it there."""
        places = Tensor.arange(self.context + 1)
        here = places[position : position + 1]
        padding = ((0, self.length - self.context),)
        row = prompt.pad(padding, value=-1)[position : position + self.chunk]
        tokens = self.tokens.pad(padding)[position : position + self.chunk]
        is_first = Tensor.arange(self.chunk) == 0
        are = is_first | (row >= 0)
        x = self._decoded(
            (row >= 0).where(row, is_first.where(tokens, 0)), Place(position, self.chunk, self.length, are=are)
        )
        last = are.cast(dtypes.int32).sum().reshape(1) - 1
        scores = self.decoder.scores(x[0][last]).flatten()
        among = allowed(scores, temperature, top_k, top_p)
        new = sampled(scores, temperature, position=(here + last).cast(dtypes.uint32), among=among, **drawn)
        following = (prompt < 0).where(new, prompt)
        is_new = (places > here) & (places <= here + last + 1)
        return self.tokens.assign(is_new.where(following, self.tokens))

    def scored(self, tokens: Tensor, position: UOp) -> Tensor:
        """The scores (vocabulary,) of what follows a token (1,) at a position, or (chunk, vocabulary) of those that
        follow each of a chunk (chunk,)."""
        count = int(tokens.shape[0])
        scores = self.decoder.scores(self._decoded(tokens, Place(position, count, self.length)))
        return scores.flatten() if count == 1 else scores[0]

    def _decoded(self, tokens: Tensor, place: Place) -> Tensor:
        return self.decoder(tokens, place, self.cache)


@dataclass(frozen=True, slots=True)
class Programs:
    """The program that writes, a token with each repeat, and the one that reads, a chunk with each repeat: of the same
    inputs, weights and states."""

    writer: GraphProgram
    reader: GraphProgram


def programs(network: Network, context: int, *, integer: bool = False, early: Early = NOBODY) -> Programs:
    """The programs of a model for texts of so many tokens; its weights are mapped, or made as they lie in a program.
    What was captured on this machine before is not captured again. With `integer`, quantised matrices are multiplied
    with integers. `early` is told of the weights before, and of each program as soon as it is there.

    Raises BindingError for a context that the model was not made for, or integers that it does not have.
    """
    source = _Source(network, context, integer=integer)
    arrays, dtypes = ({of: getattr(w, kind) for of, w in source.parts.items()} for kind in ("array", "dtype"))
    early.weights(arrays, dtypes)
    inputs = {"prompt": np.full(context + 1, -1, np.int32), **Sampling().inputs((*SAMPLED, *LIMITS))}
    writer = source.program("write", inputs, 1)
    early.program(writer.program)
    reader = source.program("read", inputs, min(CHUNK, context))
    early.program(reader.program)
    return Programs(writer, reader)


def scoring(network: Network, context: int, count: int = 1, *, integer: bool = False) -> GraphProgram:
    """The program that scores what follows a token, or each of a chunk of `count`; its states are keys and values."""
    return _Source(network, context, integer=integer).program("scored", {"tokens": np.zeros(count, np.int32)}, count)


class _Source:
    """What programs of a network are made of: its matrices as they lie in a program, and a writer over tensors that
    stand for them."""

    def __init__(self, network: Network, context: int, *, integer: bool) -> None:
        """Raises BindingError, as `programs`."""
        self.architecture, self.context = network.architecture, context
        if not 2 <= context <= self.architecture.context:
            raise BindingError(
                f"a context of {context} tokens: the model was made for 2 to {self.architecture.context}",
                fix="Choose a shorter one with --context.",
            )
        if integer and not any(isinstance(kept, Quantised) for kept in network.weights.values()):
            raise BindingError(
                "the model has no quantised matrix to multiply with integers",
                fix="Leave --integer out, or take a GGUF file of the model with blocks, such as Q8_0.",
            )
        self.kept = {name: _for_integers(kept) if integer else kept for name, kept in network.weights.items()}
        self.parts = {part: weight for name, kept in self.kept.items() for part, weight in kept.parts(name).items()}

    def program(self, name: str, inputs: Mapping[str, Any], stride: int) -> GraphProgram:
        """That of a method of `Writer`, of which a repeat moves by so many positions."""
        shapes = {part: (weight.dtype, weight.shape) for part, weight in self.parts.items()}
        given = {of: (array.dtype, array.shape) for of, array in inputs.items()}
        kinds = {of: (kept.kind, kept.beside) for of, kept in self.kept.items() if isinstance(kept, Quantised)}
        key = key_of(name, self.architecture, self.context, shapes, given, kinds, stride)
        if (program := get(key)) is None:
            program = self._captured(name, inputs, stride)
            put(key, program)
        states = {b.name: np.zeros(b.shape, STORAGE[b.dtype]) for b in program.buffers if b.role is Role.STATE}
        return GraphProgram(program, {of: self.parts[of].array for of in program.named(Role.WEIGHT)}, states)

    def _captured(self, name: str, inputs: Mapping[str, Any], stride: int) -> Program:
        repeats = -(-self.context // stride)
        variables = {"position": (0, (repeats - 1) * stride, stride)}
        tensors = {**self._weights, **self._writer.states()}
        function = getattr(self._writer, name)
        examples = {of: Tensor(array, device=DEVICE) for of, array in inputs.items()}
        return capture(function, examples, tensors, variables=variables, max_repeat=repeats).program

    @cached_property
    def _weights(self) -> dict[str, Tensor]:
        """What stands for the weights."""
        return {name: stand_in(w.shape, DTYPES[w.dtype]) for name, w in self.parts.items()}

    @cached_property
    def _writer(self) -> Writer:
        matrices = {of: matrix_of(of, kept, self._weights) for of, kept in self.kept.items() if len(kept.shape) > 1}
        vectors = {of: self._weights[of] for of, kept in self.kept.items() if len(kept.shape) == 1}
        return Writer(Decoder(self.architecture, matrices, vectors), self.context)


def _for_integers(kept: Kept) -> Kept:
    """Rows of a matrix lie side by side; several matrices in one are multiplied out."""
    return replace(kept, beside=True) if isinstance(kept, Quantised) and len(kept.shape) == 2 else kept
