"""One block of a transformer, written with operators: a graph that `eigentensor optimise` takes."""

import numpy as np

from eigentensor.graph import Graph, GraphBuilder, Tensor

TOKENS, WIDTH = 64, 128


def graph() -> Graph:
    """Attention and a gated network of two layers, with random weights."""
    builder, random = GraphBuilder(), np.random.default_rng(0)

    def weight(name: str, rows: int, columns: int) -> Tensor:
        return builder.weight(name, random.normal(0, rows**-0.5, (rows, columns)).astype(np.float32))

    x = builder.input("x", (TOKENS, WIDTH))
    query, key, value = (x @ weight(name, WIDTH, WIDTH) for name in ("query", "key", "value"))
    x = x + (query @ key.T * WIDTH**-0.5).softmax() @ value
    x = x + (x @ weight("up", WIDTH, 4 * WIDTH)).gelu() @ weight("down", 4 * WIDTH, WIDTH)
    return builder.graph(x)
