"""Graphs of whole tensors: what an author writes, and what is searched for the fastest program.

`GraphBuilder` names what goes in; `Tensor` works like an array of NumPy. Nothing here imports tinygrad.
"""

from eigentensor.graph.builder import GraphBuilder
from eigentensor.graph.node import Graph
from eigentensor.graph.tensor import (
    Tensor,
    arange,
    concat,
    full,
    matmul,
    maximum,
    minimum,
    ones,
    stack,
    tensor,
    where,
    zeros,
)

__all__ = [
    "Graph", "GraphBuilder", "Tensor", "arange", "concat", "full", "matmul", "maximum", "minimum", "ones", "stack",
    "tensor", "where", "zeros",
]  # fmt: skip
