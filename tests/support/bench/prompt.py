"""Time to the first token of a long prompt: read one by one, in chunks, and where all but its end was read before.

    scripts/bench prompt [--one] [--length TOKENS] [--layers NUMBER] [MODEL …]

MODEL is one of `SHAPES`, with random weights in float32, of which --layers takes the first ones. The clock runs from
the prompt's tokens to the first one that is written; one by one it runs over 32 tokens in the middle, for as many as
there are. `known` has read the prompt up to its last chunk. `step` is a token that follows. All in seconds, medians of
runs in turn; --one gives one thread to each and counts the time of the processor: the figures of a busy
machine. MB are the states.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from eigentensor.numerics.dtypes import DType
from eigentensor.runtime import CompiledGraph
from eigentensor_client import writing
from eigentensor_client.writing import LIMITS, SAMPLED, Sampling
from eigentensor_models.architecture import Architecture, Attention, Rotary
from eigentensor_models.folder import Network
from eigentensor_models.quantised import Weight
from eigentensor_models.writing import programs
from support.bench.pairs import in_turn, say

NAMES = (*SAMPLED, *LIMITS)
SAMPLE = 32  # tokens that are read one by one


def rotary(base: float, size: int) -> Rotary:
    return Rotary(tuple(base ** (-2 * n / size) for n in range(size // 2)))


def gemma() -> Architecture:
    near, far = Attention(rotary(1e4, 256), 512), Attention(rotary(1e6, 256))
    return Architecture(
        vocabulary=262_144, width=640, heads=4, key_heads=1, head_size=256, hidden=2048, epsilon=1e-6, context=32_768,
        layers=(near, near, near, near, near, far) * 3, activation="gelu", tied=True, head_norms=True, after_norms=True,
        offset=1.0, score_scale=1 / 16, word_scale=640**0.5,
    )  # fmt: skip


def qwen() -> Architecture:
    return Architecture(
        vocabulary=151_936, width=1024, heads=16, key_heads=8, head_size=128, hidden=3072, epsilon=1e-6,
        context=40_960, layers=(Attention(rotary(1e6, 128)),) * 28, tied=True, head_norms=True,
    )  # fmt: skip


SHAPES: dict[str, Callable[[], Architecture]] = {"gemma-3-270m": gemma, "qwen3-0.6b": qwen}


def drawn(architecture: Architecture) -> Network:
    """The architecture with random weights."""
    random, kept = np.random.default_rng(0), {}
    for name, shape in architecture.shapes().items():
        kept[name] = Weight(DType.FLOAT32, random.standard_normal(shape, dtype=np.float32) * shape[-1] ** -0.5)
    return Network(architecture, dict(kept))


def measure(name: str, length: int, layers: int | None, *, one: bool) -> None:
    whole = SHAPES[name]()
    architecture = replace(whole, layers=whole.layers[:layers])
    context = -(-(length + 32) // 64) * 64
    both, threads = programs(drawn(architecture), context), 1 if one else 2
    weights, states = both.writer.weights, dict(both.writer.states)
    writer = CompiledGraph(both.writer.program, weights, threads=threads, keep_states=True)
    reader = CompiledGraph(both.reader.program, weights, threads=threads)
    prompt = np.random.default_rng(1).integers(1, architecture.vocabulary, length).tolist()
    sampling, chunk = Sampling(), both.reader.program.variables[0].stride

    def one_by_one() -> Any:
        step = writing.step(context, length // 2, prompt[length // 2 :], 1, sampling, NAMES).part(0, SAMPLE)
        return writer.run({**step.inputs, **states}, step.variables, step.repeat)

    def read(position: int, states: Any) -> Any:
        step = writing.reading(context, prompt, position, chunk, sampling, NAMES)
        assert step is not None
        return reader.run({**step.inputs, **states}, step.variables, step.repeat)

    kept = read(0, states).states
    last = (length - writing.FEW) // chunk * chunk
    following = writing.step(context, length + 1, (), 16, sampling, NAMES)
    ways = {
        "one by one": one_by_one,
        "in chunks": lambda: read(0, states),
        "known": lambda: read(last, kept),
        "step": lambda: writer.run({**following.inputs, **kept}, following.variables, following.repeat),
    }
    times = in_turn(ways, rounds=3, warm=1, clock=time.process_time if one else time.perf_counter)
    size = sum(array.nbytes for array in states.values()) * 1e-6
    slow, fast, known, step = (times[way] for way in ways)
    slow *= (length + 1) / SAMPLE
    say(name, slow, fast, slow / fast, known, step / 16, size)


def main() -> None:
    arguments = argparse.ArgumentParser(usage=__doc__)
    arguments.add_argument("names", nargs="*", default=list(SHAPES))
    arguments.add_argument("--one", action="store_true")
    arguments.add_argument("--length", type=int, default=512)
    arguments.add_argument("--layers", type=int)
    options = arguments.parse_args()
    say("model", "one by one", "in chunks", "times", "known", "step", "MB")
    for name in options.names:
        measure(name, options.length, options.layers, one=options.one)


if __name__ == "__main__":
    main()
