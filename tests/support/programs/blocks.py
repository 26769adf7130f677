"""Products with matrices in blocks of integers, as programs."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor

from eigentensor.capture import GraphProgram, capture
from eigentensor_models.matrices import matrix_of
from eigentensor_models.quantised import KINDS
from support.vectors.gguf_blocks import blocks

ROWS, COLUMNS = 20, 256


def by_integers(kind: str) -> tuple[GraphProgram, dict[str, npt.NDArray[Any]]]:
    """One row times a matrix of a kind, its rows side by side; and the row."""
    kept = KINDS[kind].split(blocks(kind, ROWS, COLUMNS).reshape(-1), (ROWS, COLUMNS))
    kept = replace(kept, beside=True)
    fields = {name: Tensor(part.array) for name, part in kept.parts("it").items()}
    matrix = matrix_of("it", kept, fields)
    inputs = {"x": np.random.default_rng(1).standard_normal((1, COLUMNS)).astype(np.float32)}
    return capture(lambda x: matrix.product(x), inputs, fields, fingerprint=False), inputs
