"""The program that writes: it reads the token at a position and writes the next one."""

import numpy as np

from eigentensor.capture import GraphProgram, capture
from eigentensor_client.writing import Sampling
from language.decoder import Decoder, Writer


def writing(decoder: Decoder) -> GraphProgram:
    """The program that reads one token and writes the next. Its states are tokens, keys and values; its variable is the
    position of the token that is read; repeated n times it writes n tokens."""
    context = decoder.shape.context
    inputs = {"prompt": np.full(context + 1, -1, np.int32), **Sampling().inputs()}
    writer, variables = Writer(decoder), {"position": (0, context - 1, 1)}
    return capture(writer, inputs, writer, variables=variables, max_repeat=context)
