"""Graphs that are planned in tests and benchmarks."""

import numpy as np

from eigentensor.graph import Graph, GraphBuilder, Tensor, arange, where


def decoder(layers: int, tokens: int = 8, width: int = 32, vocabulary: int = 24) -> Graph:
    """A causal transformer of equal blocks with their own random weights."""
    builder, random = GraphBuilder(), np.random.default_rng(layers)

    def weight(name: str, rows: int, columns: int) -> Tensor:
        return builder.weight(name, random.normal(0, rows**-0.5, (rows, columns)).astype(np.float32))

    x = builder.input("x", (tokens, width))
    past = arange(tokens).reshape(1, tokens) <= arange(tokens).reshape(tokens, 1)
    for layer in range(layers):
        normed = x.layernorm()
        query, key, value = (normed @ weight(f"{layer}.{name}", width, width) for name in ("query", "key", "value"))
        scores = where(past, query @ key.T * width**-0.5, -1e9)
        x = x + scores.softmax() @ value @ weight(f"{layer}.out", width, width)
        x = x + (x.layernorm() @ weight(f"{layer}.up", width, 4 * width)).gelu() @ weight(
            f"{layer}.down", 4 * width, width
        )
    return builder.graph(x.layernorm() @ weight("head", width, vocabulary))


def tanh_of_a_sum(rows: int = 32, columns: int = 32) -> Graph:
    builder = GraphBuilder()
    return builder.graph((builder.input("x", (rows, columns)) + builder.input("y", (rows, columns))).tanh())


def fifty_sums(size: int = 256) -> Graph:
    """Fifty additions one after the other, of tensors that are used again and again; each is stored by itself."""
    builder = GraphBuilder()
    x, y = (builder.input(name, (size, size)) for name in "xy")
    total = x
    for number in range(50):
        total = (total + (y if number % 2 else x)).contiguous()
    return builder.graph(total)
