"""Teaching a decoder a text: a step of training is a program, whose states are the parameters and the optimizer's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from tinygrad import Context, Tensor, UOp, dtypes, nn

from eigentensor.capture import GraphProgram, capture
from eigentensor.runtime import CompiledGraph
from eigentensor_models.sampling import threefry
from language.decoder import Decoder

STEPS = 10_000  #: the most that a program allows
ROUND = 50  # steps that are one execution


@dataclass(frozen=True)
class Batch:
    """What a step reads: rows of so many tokens, and the one after each."""

    rows: int
    length: int


class Teacher:
    """A decoder and what trains it; each step reads other places of the text."""

    def __init__(self, decoder: Decoder, batch: Batch) -> None:
        self.decoder, self.batch = decoder, batch
        self.optimizer = nn.optim.Adam(nn.state.get_parameters(decoder), lr=3e-3)

    def __call__(self, text: Tensor, seed: Tensor, step: UOp) -> Tensor:
        """The loss before the step, in nats per token."""
        rows, number = (Tensor.arange(n, dtype=dtypes.uint32) for n in (self.batch.rows, STEPS))
        first = threefry(seed, number[step : step + 1], rows) % (text.shape[0] - self.batch.length)
        tokens = text[first.cast(dtypes.int32).reshape(-1, 1) + Tensor.arange(self.batch.length + 1)]
        with Context(TRAINING=1):
            self.optimizer.zero_grad()
            loss = self.decoder(tokens[:, :-1]).sparse_categorical_crossentropy(tokens[:, 1:]).backward()
            return loss.realize(*self.optimizer.schedule_step())


def lesson(decoder: Decoder, batch: Batch, text: np.ndarray) -> GraphProgram:
    """The program of a step on a text of int32 tokens; repeated n times it takes n steps."""
    teacher = Teacher(decoder, batch)
    Tensor.realize(*nn.state.get_parameters(teacher))
    inputs = {"text": text, "seed": np.zeros(2, np.uint32)}
    return capture(teacher, inputs, teacher, variables={"step": (0, STEPS - 1, 1)}, max_repeat=STEPS)


def taught(
    decoder: Decoder, batch: Batch, text: np.ndarray, steps: int, progress: Callable[[int, float], None]
) -> Mapping[str, np.ndarray]:
    """The decoder's parameters after so many steps: the same bits everywhere. `progress` is told step and loss at
    times."""
    graph = lesson(decoder, batch, text)
    compiled, states = CompiledGraph(graph.program, graph.weights), graph.states
    inputs = {"text": text, "seed": np.zeros(2, np.uint32)}
    for first in range(0, steps, ROUND):
        repeat = min(ROUND, steps - first)
        results = compiled.run({**inputs, **states}, {"step": first}, repeat)
        states = results.states
        progress(first + repeat, float(results.outputs["output"]))
    return {name: array for name, array in states.items() if name.startswith("decoder.")}
