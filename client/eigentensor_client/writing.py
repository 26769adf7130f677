"""Text from a program that writes tokens: what such programs take, and a text that goes on from execution to execution.

A program that writes has the inputs `prompt`, int32 (context + 1), `temperature` and `margin`, float32 (), `seed`,
uint32 (2), and perhaps `top_k`, int32 (), and `top_p`, float32 (); its variable `position`, 0 to context - 1 by 1, is
that of the token that it reads. Its states hold the tokens so far, all END at first. Repeated n times it writes n
tokens; one that the prompt has is taken from there instead (-1: it has none). Its first output is all tokens, int32
(context + 1).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from eigentensor.errors import BindingError
from eigentensor_client.tokenizer import Tokenizer

Arrays = Mapping[str, np.ndarray[Any, Any]]
SEEDS = 1 << 64  #: so many there are
SAMPLED = ("temperature", "margin", "seed")  #: inputs that each such program has
LIMITS = ("top_k", "top_p")  #: inputs that it may have


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen. Temperature 0 takes the likeliest; of all others only those are drawn that are at least
    `least` times as likely as it, are among the `top_k` likeliest (0: all), and of these among the fewest that are
    `top_p` likely together. The seed says which ones: the same seed, the same text."""

    temperature: float = 0.0
    least: float = 0.0
    seed: int = 0
    top_k: int = 0
    top_p: float = 1.0

    def limits(self) -> list[str]:
        """Those of `LIMITS` that leave tokens out."""
        return [name for name, is_one in zip(LIMITS, (self.top_k > 0, self.top_p < 1), strict=True) if is_one]

    def inputs(self, names: Collection[str] = SAMPLED) -> Arrays:
        """The inputs for it of a program that has these, by name. Raises BindingError for what that does not sample."""
        margin = -self.temperature * math.log(self.least) if self.least else math.inf
        limits = {"top_k": np.array(self.top_k, np.int32), "top_p": np.array(self.top_p, np.float32)}
        for name in self.limits():
            if name not in names:
                raise BindingError(f"the program has no input `{name}`", fix="Sample without it.")
        return {
            "temperature": np.array(self.temperature, np.float32),
            "margin": np.array(margin, np.float32),
            "seed": np.array([self.seed & 0xFFFFFFFF, self.seed >> 32], np.uint32),
            **{name: value for name, value in limits.items() if name in names},
        }


@dataclass(frozen=True)
class Step:
    """One execution: what it is given, and which of the tokens that it returns are new."""

    inputs: Arrays
    variables: Mapping[str, int]
    repeat: int
    first: int

    def new(self, tokens: np.ndarray[Any, Any]) -> list[int]:
        """The tokens that it wrote after those that it was given, out of all tokens."""
        written: list[int] = tokens[self.first : self.variables["position"] + self.repeat + 1].tolist()
        return written

    def part(self, done: int, most: int) -> "Step":
        """What is left of it when so many repeats are done, of that at most `most` repeats: all parts, one after the
        other, do what it does."""
        position = self.variables["position"] + done
        return replace(self, variables={"position": position}, repeat=min(most, self.repeat - done))

    def before(self, tokens: np.ndarray[Any, Any]) -> "Step":
        """The execution that reads from the beginning of the text what was written before this one: out of all `tokens`
        so far. Its states are the same, bit by bit, as those that this one goes on from. There is something before."""
        position = self.variables["position"]
        row = np.full_like(self.inputs["prompt"], -1)
        row[1 : position + 1] = tokens[1 : position + 1]
        return Step({**self.inputs, "prompt": row}, {"position": 0}, position, position + 1)


def step(
    context: int,
    position: int,
    tokens: Sequence[int],
    count: int,
    sampling: Sampling,
    names: Collection[str] = SAMPLED,
) -> Step:
    """The execution that reads what is given at a position of a text, and writes `count` tokens after it. The text's
    position is later by `repeat`; `names` are inputs that the program has. Raises BindingError if the context has no
    room for them."""
    repeat = len(tokens) + count
    if position + repeat > context:
        what = f"{repeat} tokens after {position} are more than the context of {context}"
        raise BindingError(what, fix="Write fewer, or begin a new text.")
    row = np.full(context + 1, -1, np.int32)
    row[position + 1 : position + 1 + len(tokens)] = tokens
    return Step({"prompt": row, **sampling.inputs(names)}, {"position": position}, repeat, position + 1 + len(tokens))


class Executor(Protocol):
    """Executes the program, each time from the states that it left before, and returns the tokens."""

    def __call__(self, inputs: Arrays, variables: Mapping[str, int], repeat: int) -> np.ndarray[Any, Any]: ...


class Text:
    """A text that is written piece by piece."""

    def __init__(self, pairs: Tokenizer, context: int, execute: Executor, names: Collection[str] = SAMPLED) -> None:
        self.pairs, self.context, self.execute, self.names = pairs, context, execute, names
        self.position = 0

    def write(self, prompt: str, count: int, sampling: Sampling) -> str:
        """The prompt, and `count` tokens after it; one execution. Raises as `step`."""
        known = self.pairs.encode(prompt)
        asked = step(self.context, self.position, known, count, sampling, self.names)
        tokens = self.execute(asked.inputs, asked.variables, asked.repeat)
        self.position += asked.repeat
        return self.pairs.decode([*known, *asked.new(tokens)])
