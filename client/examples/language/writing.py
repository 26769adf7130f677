"""The program that writes: it reads the token at a position and writes the next one."""

import numpy as np

from eigentensor.capture import GraphProgram, capture, capture_graph
from eigentensor.graph import Graph
from eigentensor_client.writing import LIMITS, SAMPLED, Sampling
from language.decoder import Decoder, Writer


def writing(decoder: Decoder, *, limits: bool = False) -> GraphProgram:
    """The program that reads one token and writes the next. Its states are tokens, keys and values; its variable is the
    position of the token that is read; repeated n times it writes n tokens. With `limits` it takes top_k and top_p."""
    writer, inputs, variables = _step(decoder, limits)
    return capture(writer, inputs, writer, variables=variables, max_repeat=decoder.shape.context)


def written_graph(decoder: Decoder, *, limits: bool = False) -> Graph:
    """The same as a graph, which can be planned."""
    writer, inputs, variables = _step(decoder, limits)
    return capture_graph(writer, inputs, writer, variables=variables)


def _step(decoder: Decoder, limits: bool) -> tuple[Writer, dict[str, np.ndarray], dict[str, tuple[int, ...]]]:
    context = decoder.shape.context
    inputs = {
        "prompt": np.full(context + 1, -1, np.int32),
        **Sampling().inputs((*SAMPLED, *LIMITS) if limits else SAMPLED),
    }
    return Writer(decoder), inputs, {"position": (0, context - 1, 1)}
