"""Graph files come back as they were, and what is malformed is refused."""

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from eigentensor.errors import GraphFileError
from eigentensor.graph import GraphBuilder, arange, where
from eigentensor.graph.codec import decode, encode
from eigentensor.graph.lower import lower
from eigentensor.graph.node import Graph, walk
from eigentensor.graph.validity import breach
from eigentensor.program.ops import DType
from eigentensor.store.graphs import load_graph, save_graph
from support.programs import random_graphs


def example() -> Graph:
    builder = GraphBuilder()
    cache, new = builder.state("cache", np.zeros((4, 2), np.float32)), builder.input("new", 2)
    table = builder.weight("table", np.arange(10, dtype=np.uint16).reshape(5, 2), dtype=DType.BFLOAT16)
    position = builder.variable("position", 0, 3, 1)
    rows = where((arange(4) == position)[:, None], new, cache)
    builder.assign("cache", rows)
    taken = table.take(arange(4) % 3).astype("float32") + np.array([0.5, -0.0], np.float32)
    return builder.graph({"y": (rows @ taken.T).gelu().softmax() ** 1.5, "z": rows.pad([(1, 0), (0, 1)])[::-1]})


def test_a_graph_comes_back_as_it_was(tmp_path: Path) -> None:
    graph = example()
    save_graph(tmp_path / "model.graph", graph)
    loaded = load_graph(tmp_path / "model.graph")
    assert loaded.outputs == graph.outputs
    assert loaded.states == graph.states
    assert {name: array.tobytes() for name, array in loaded.data.items()} == {
        name: array.tobytes() for name, array in graph.data.items()
    }
    assert lower(loaded).uuid == lower(graph).uuid
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.graph", "model.safetensors"]


def test_random_graphs_are_valid_and_come_back() -> None:
    for seed in range(100):
        graph, _ = random_graphs.graph(Random(seed))
        assert not [fault for n in walk(*graph.roots) if (fault := breach(n))]
        assert decode(encode(graph)).outputs == graph.outputs


def malformed() -> dict[str, Any]:
    """Texts that are no graph, as changes of one that is."""
    x = {"op": "INPUT", "dtype": "float32", "shape": [2, 3], "arg": "x"}

    count = {"op": "INPUT", "dtype": "int32", "shape": [], "arg": "count"}
    number = {"op": "CONST", "dtype": "int32", "shape": [], "arg": 2}

    def of(*nodes: Any, outputs: Any = None, **fields: Any) -> dict[str, Any]:
        outputs = {"y": len(nodes) - 1} if outputs is None else outputs
        return {"eigentensor.graph": 1, "nodes": list(nodes), "outputs": outputs, "states": {}, **fields}

    return {
        "another version": of(x, **{"eigentensor.graph": 2}),
        "an unknown field": of(x, more=1),
        "no output": of(x, outputs={}),
        "an output that is not there": of(x, outputs={"y": 1}),
        "an operand that comes later": of(x, {"op": "SQRT", "src": [1]}),
        "an operand that is true": of(x, x, {"op": "SQRT", "src": [True]}),
        "no operand": of(x, {"op": "SQRT", "src": []}),
        "an unknown operation": of(x, {"op": "EVAL", "src": [0]}),
        "an unknown field of a node": of(x, {"op": "SQRT", "src": [0], "code": "1"}),
        "an argument too many": of(x, {"op": "SQRT", "src": [0], "arg": 1}),
        "other shapes": of(x, {**x, "shape": [3]}, {"op": "ADD", "src": [0, 1]}),
        "other types": of(x, {**x, "dtype": "int32"}, {"op": "ADD", "src": [0, 1]}),
        "bits of floats": of(x, {"op": "AND", "src": [0, 0]}),
        "an index": of({**x, "dtype": "index"}),
        "a range": of({"op": "RANGE", "src": []}),
        "a fused sum": of(x, {"op": "REDUCE_MULACC", "src": [0], "arg": [0]}),
        "an axis that is not there": of(x, {"op": "REDUCE_ADD", "src": [0], "arg": [2]}),
        "an axis twice": of(x, {"op": "REDUCE_ADD", "src": [0], "arg": [0, 0]}),
        "a sum up to an input": of(x, count, {"op": "REDUCE_ADD", "src": [0, 1], "arg": [0]}),
        "a sum up to a float": of(x, {**number, "dtype": "float32"}, {"op": "REDUCE_ADD", "src": [0, 1], "arg": [0]}),
        "a sum with a bound missing": of(x, number, {"op": "REDUCE_ADD", "src": [0, 1], "arg": [0, 1]}),
        "a permutation that repeats": of(x, {"op": "PERMUTE", "src": [0], "arg": [0, 0]}),
        "a reshape of more": of(x, {"op": "RESHAPE", "src": [0], "arg": [7]}),
        "an extent with a fraction": of(x, {"op": "RESHAPE", "src": [0], "arg": [6.0]}),
        "an axis that is true": of({**x, "op": "COUNTER", "arg": True}),
        "a negative extent": of(x, {"op": "RESHAPE", "src": [0], "arg": [-2, -3]}),
        "a part outside": of(x, {"op": "SHRINK", "src": [0], "arg": [[0, 3], [0, 3]]}),
        "a part from behind": of(x, {"op": "SHRINK", "src": [0], "arg": [[-1, 1], [0, 3]]}),
        "a negative width": of(x, {"op": "PAD", "src": [0], "arg": [[-1, 0], [0, 0]]}),
        "an attribute as a function": of(x, {"op": "FUNCTION", "src": [0], "arg": "__init__"}),
        "an unknown function": of(x, {"op": "FUNCTION", "src": [0], "arg": "system"}),
        "rows by a float": of(x, {"op": "GATHER", "src": [0, 0]}),
        "too many elements": of({**x, "shape": [1 << 20, 1 << 20]}),
        "empty beside too many": of({**x, "shape": [0, 1 << 20, 1 << 20]}),
        "too many axes": of({**x, "shape": [1] * 40}),
        "no name": of({**x, "arg": "a/b"}),
        "a large constant": of({"op": "CONST", "dtype": "uint8", "shape": [], "arg": 256}),
        "a fraction as bits": of({"op": "CONST", "dtype": "float32", "shape": [], "arg": 0.5}),
        "bytes missing": of({"op": "DATA", "dtype": "float32", "shape": [1], "arg": "AAA="}),
        "a bool of two": of({"op": "DATA", "dtype": "bool", "shape": [1], "arg": "Ag=="}),
        "a variable upside down": of({"op": "VARIABLE", "arg": ["v", 3, 0, 0]}),
        "a cast to nothing": of(x, {"op": "CAST", "src": [0], "arg": "float64"}),
        "a list": [],
        "a number": 1,
    }


@pytest.mark.parametrize("name", malformed())
def test_what_is_no_graph_is_refused(name: str) -> None:
    with pytest.raises(GraphFileError, match="no graph") as raised:
        decode(json.dumps(malformed()[name]).encode())
    assert raised.value.fix


def test_texts_that_are_no_json_are_refused() -> None:
    for text in (b"", b"\xff", b"[" * 100_000, b'{"nodes":1,"nodes":2}', encode(example())[:-9], b"1" * 10_000):
        with pytest.raises(GraphFileError):
            decode(text)


def test_a_file_that_is_not_there_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(GraphFileError, match="cannot read"):
        load_graph(tmp_path / "none.graph")
