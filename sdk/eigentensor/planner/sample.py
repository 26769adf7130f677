"""Inputs on which paths are compared: what the author gives, or values as they occur."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.graph.node import Form, Graph, Node, walk
from eigentensor.numerics.conversion import cast
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.model import Variable

Values = NDArray[Any]


@dataclass(frozen=True)
class Sample:
    """Values of all that a graph reads: inputs, weights and states by name, variables by name."""

    tensors: Mapping[str, Values]
    variables: Mapping[str, int]

    @property
    def digest(self) -> str:
        """The same for the same values."""
        hasher = sha256()
        for name, array in sorted(self.tensors.items()):
            hasher.update(repr((name, str(array.dtype), array.shape)).encode() + np.ascontiguousarray(array).tobytes())
        hasher.update(repr(sorted(self.variables.items())).encode())
        return hasher.hexdigest()


def sample_of(graph: Graph, fixed: Mapping[str, Values] | None = None, seed: int = 0) -> Sample:
    """Values for a graph: those of `fixed`, then its own data, else random ones, of floats the normal distribution.

    Integers that number the rows of tables are rows that there are; variables are in the middle of their bounds.
    """
    known = {**graph.data, **(fixed or {})}
    tensors, variables = {}, {}
    rows = _rows(graph)
    for n in walk(*graph.roots):
        if n.op is Form.VARIABLE:
            of: Variable = n.arg
            variables[of.name] = (of.minimum + of.maximum) // 2
        elif n.op in (Form.INPUT, Form.WEIGHT, Form.STATE):
            tensors[n.arg] = known[n.arg] if n.arg in known else _random(n, rows.get(n, 100), seed)
    return Sample(tensors, variables)


def _random(n: Node, most: int, seed: int) -> Values:
    own = int.from_bytes(sha256(f"{seed} {n.arg}".encode()).digest()[:8])
    random = np.random.default_rng(own)
    if n.dtype.is_float:
        return cast(DType.FLOAT32, n.dtype, random.standard_normal(n.shape, np.float32))
    return random.integers(0, 2 if n.dtype is DType.BOOL else most, n.shape).astype(STORAGE[n.dtype])


def _rows(graph: Graph) -> dict[Node, int]:
    """For integers that number rows of tables, how many rows the smallest has."""
    rows: dict[Node, int] = {}
    for n in walk(*graph.roots):
        for below in walk(n.src[1]) if n.op is Form.GATHER else ():
            if below.op in (Form.INPUT, Form.STATE) and below.dtype.is_integer:
                rows[below] = min(rows.get(below, 100), n.src[0].shape[0])
    return rows
