"""Text from a program that writes tokens: what such programs take, and a text that goes on from execution to execution.

A program that writes has the inputs `prompt`, int32 (context + 1), `temperature` and `margin`, float32 (), `seed`,
uint32 (2), and perhaps `top_k`, int32 (), and `top_p`, float32 (); its variable `position`, 0 to context - 1 by 1, is
that of the token that it reads. Its states hold the tokens so far, all END at first. Repeated n times it writes n
tokens; one that the prompt has is taken from there instead (-1: it has none). Its first output is all tokens, int32
(context + 1).

Beside it there may be a program that reads, of the same inputs, states and outputs: its `position` grows by as many
positions as it reads at once, a chunk, and begins at multiples of that. It reads the token at its position, and those
of the prompt behind it that stand in the chunk; the token after the last of these is written as the other program
writes it. `reading` says which positions of a text it has; sums may be cut otherwise in it, so its states need not have
the bits that the other program would leave. A state whose name begins with `recent.` has the last positions alone; the
others have what belongs to each position in a place of its own, where nobody looks before that position is read.
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
RECENT = "recent."  #: begins the names of states that forget
FEW = 8  #: positions that are read one by one: a chunk takes about as long


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
    """One execution: what it is given, and which of the tokens that it returns are new. `last` is the place of the last
    token that is there when it ends, and the position of the next step; a repeat reads `stride` positions: more than
    one are read by the program that reads."""

    inputs: Arrays
    variables: Mapping[str, int]
    repeat: int
    first: int
    last: int
    stride: int = 1

    def new(self, tokens: np.ndarray[Any, Any]) -> list[int]:
        """The tokens that it wrote after those that it was given, out of all tokens."""
        written: list[int] = tokens[self.first : self.last + 1].tolist()
        return written

    def part(self, done: int, most: int) -> "Step":
        """What is left of it when so many repeats are done, of that at most `most` repeats: all parts, one after the
        other, do what it does."""
        position, repeat = self.variables["position"] + done * self.stride, min(most, self.repeat - done)
        last = min(self.last, position + repeat * self.stride)
        return replace(self, variables={"position": position}, repeat=repeat, last=last)


def step(
    context: int,
    position: int,
    tokens: Sequence[int],
    count: int,
    sampling: Sampling,
    names: Collection[str] = SAMPLED,
) -> Step:
    """The execution that reads what is given at a position of a text, and writes `count` tokens after it. `names` are
    inputs that the program has. Raises BindingError if the context has no room for them."""
    repeat = len(tokens) + count
    if position + repeat > context:
        what = f"{repeat} tokens after {position} are more than the context of {context}"
        raise BindingError(what, fix="Write fewer, or begin a new text.")
    row = np.full(context + 1, -1, np.int32)
    row[position + 1 : position + 1 + len(tokens)] = tokens
    given = {"prompt": row, **sampling.inputs(names)}
    return Step(given, {"position": position}, repeat, position + 1 + len(tokens), position + repeat)


def reading(
    context: int, prompt: Sequence[int], position: int, chunk: int, sampling: Sampling, names: Collection[str] = SAMPLED
) -> Step | None:
    """The execution of the program that reads, for a text that begins with `prompt`, from a position on that is a
    multiple of `chunk`; None if all that is left is read one by one.

    Positions up to the prompt's last token are read in chunks, the last one with what is left, unless that is fewer
    than `FEW` positions. If all are read, the next token is written. So where a text is cut follows from the length of
    its prompt alone, and its bits do not depend on where the reading began. Raises BindingError as `step`.
    """
    left = len(prompt) + 1 - position
    if len(prompt) >= context:
        what = f"a prompt of {len(prompt)} tokens leaves no room in the context of {context}"
        raise BindingError(what, fix="Send a shorter one.")
    repeat, rest = divmod(left, chunk)
    repeat += rest >= FEW
    if repeat == 0 or chunk == 1:
        return None
    row = np.full(context + 1, -1, np.int32)
    row[1 : len(prompt) + 1] = prompt
    given = {"prompt": row, **sampling.inputs(names)}
    last = min(position + repeat * chunk, len(prompt) + 1)
    return Step(given, {"position": position}, repeat, len(prompt) + 1, last, chunk)


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
