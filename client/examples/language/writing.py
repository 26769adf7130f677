"""Text from a trained decoder: the program that writes a token, and a text that goes on from task to task."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from eigentensor.capture import GraphProgram, capture
from eigentensor.errors import BindingError
from language.byte_pairs import BytePairs
from language.decoder import Decoder, Writer

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen. Temperature 0 takes the likeliest; of all others only those are drawn that are at least
    `least` times as likely as it. The seed says which ones: the same seed, the same text."""

    temperature: float = 0.0
    least: float = 0.0
    seed: int = 0

    def inputs(self) -> Arrays:
        margin = -self.temperature * math.log(self.least) if self.least else math.inf
        return {
            "temperature": np.array(self.temperature, np.float32),
            "margin": np.array(margin, np.float32),
            "seed": np.array([self.seed & 0xFFFFFFFF, self.seed >> 32], np.uint32),
        }


def writing(decoder: Decoder) -> GraphProgram:
    """The program that reads one token and writes the next. Its states are tokens, keys and values; its variable is the
    position of the token that is read; repeated n times it writes n tokens."""
    context = decoder.shape.context
    inputs = {"prompt": np.full(context + 1, -1, np.int32), **Sampling().inputs()}
    writer, variables = Writer(decoder), {"position": (0, context - 1, 1)}
    return capture(writer, inputs, writer, variables=variables, max_repeat=context)


class Executor(Protocol):
    """Executes the program, each time from the states that it left before, and returns the tokens."""

    def __call__(self, inputs: Arrays, variables: Mapping[str, int], repeat: int) -> np.ndarray: ...


class Text:
    """A text that is written piece by piece."""

    def __init__(self, pairs: BytePairs, context: int, execute: Executor) -> None:
        self.pairs, self.context, self.execute = pairs, context, execute
        self.position = 0

    def write(self, prompt: str, count: int, sampling: Sampling) -> str:
        """The prompt, and `count` tokens after it. Raises BindingError if the context has no room for them."""
        given, first = self.pairs.encode(prompt), self.position + 1
        repeat = len(given) + count
        if self.position + repeat > self.context:
            what = f"{repeat} tokens after {self.position} are more than the context of {self.context}"
            raise BindingError(what, fix="Write fewer, or begin a new text.")
        row = np.full(self.context + 1, -1, np.int32)
        row[first : first + len(given)] = given
        inputs = {"prompt": row, **sampling.inputs()}
        tokens = self.execute(inputs, {"position": self.position}, repeat)
        self.position += repeat
        return self.pairs.decode(tokens[first : first + repeat])
