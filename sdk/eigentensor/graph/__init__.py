"""Graphs of whole tensors: what an author writes, and what is searched for the fastest program.

`GraphBuilder` names what goes in; `Tensor` works like an array of NumPy. Nothing here imports tinygrad.
"""

from eigentensor.graph.builder import GraphBuilder
from eigentensor.graph.creation import arange, concat, full, ones, stack, tensor, zeros
from eigentensor.graph.node import Graph
from eigentensor.graph.tensor import Tensor, matmul, maximum, minimum, where

__all__ = [
    "Graph", "GraphBuilder", "Tensor", "arange", "concat", "full", "matmul", "maximum", "minimum", "ones", "stack",
    "tensor", "where", "zeros",
]  # fmt: skip
