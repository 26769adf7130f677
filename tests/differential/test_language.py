"""The language model of the examples writes what a second account of it says, bit by bit what the reference says."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigentensor import reference
from eigentensor.cache import Cache
from eigentensor.capture import GraphProgram, capture
from eigentensor.graph.lower import lower
from eigentensor.merkle import results_root
from eigentensor.planner.measure import Meter
from eigentensor.planner.plan import Planner
from eigentensor.program import Role
from eigentensor.program.binding import Results
from eigentensor.runtime import CompiledGraph
from eigentensor.runtime.build.database import Database
from eigentensor.runtime.cpu import toolchain
from eigentensor_client.writing import Sampling
from eigentensor_models.sampling import threefry
from language.decoder import Shape, drawn
from language.writing import writing, written_graph
from support.programs import numpy_decoder
from support.programs.numpy_decoder import NumpyDecoder

#: Small, with all that there is: windows and a layer without, both rotations, heads that share keys.
TINY = Shape(2, 24, 4, 2, 6, 32, vocabulary=280, context=16, window=5, full_every=2)
PROMPT = [5, 200, 77]


@cache
def small() -> GraphProgram:
    """Weights are drawn by NumPy, so that no norm is left out by being one."""
    graph, random = writing(drawn(TINY), limits=True), np.random.default_rng(3)
    weights = {n: random.normal(0, 0.3, w.shape).astype(np.float32) for n, w in graph.weights.items()}
    return GraphProgram(graph.program, weights, graph.states)


def tensors(graph: GraphProgram, sampling: Sampling) -> dict[str, Any]:
    prompt = np.full(TINY.context + 1, -1, np.int32)
    prompt[1 : 1 + len(PROMPT)] = PROMPT
    return {**graph.weights, **graph.states, "prompt": prompt, **sampling.inputs(graph.program.named(Role.INPUT))}


def recomputed(arrays: dict[str, Any], count: int) -> list[int]:
    weights = {name: array for name, array in arrays.items() if name.startswith("decoder.")}
    seed = int(arrays["seed"][0]), int(arrays["seed"][1])
    choice = float(arrays["temperature"]), float(arrays["margin"])
    limits = int(arrays["top_k"]), float(arrays["top_p"])
    return NumpyDecoder(TINY, weights).written(arrays["prompt"], count, *choice, seed, *limits)


SAMPLINGS = [
    Sampling(), Sampling(0.8, seed=1 << 40 | 3), Sampling(1.3, least=0.2, seed=9), Sampling(1.1, seed=2, top_k=5),
    Sampling(1.0, seed=4, top_p=0.6), Sampling(1.2, least=0.01, seed=5, top_k=20, top_p=0.8),
]  # fmt: skip


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_tokens_are_those_of_the_whole_text_computed_anew_for_each(sampling: Sampling) -> None:
    graph = small()
    arrays = tensors(graph, sampling)
    expected = recomputed(arrays, TINY.context)
    results = reference.execute(graph.program, arrays, {"position": 0}, TINY.context)
    assert results.outputs["output"].tolist() == expected
    assert expected[1:4] == PROMPT
    compiled = CompiledGraph(graph.program).run(arrays, {"position": 0}, TINY.context)
    assert results_root(graph.program, compiled) == results_root(graph.program, results)


def test_steps_taken_one_by_one_are_the_repeat() -> None:
    graph = small()
    arrays = tensors(graph, SAMPLINGS[1])
    compiled = CompiledGraph(graph.program, graph.weights)
    states = {name: arrays.pop(name) for name in graph.states}
    arrays = {name: array for name, array in arrays.items() if name not in graph.weights}
    together = compiled.run({**arrays, **states}, {"position": 0}, TINY.context)
    results = Results({}, states)
    for position in range(TINY.context):
        results = compiled.run({**arrays, **results.states}, {"position": position})
    assert results_root(graph.program, results) == results_root(graph.program, together)


def test_as_a_graph_it_writes_the_same_text_into_the_same_states() -> None:
    graph, captured = lower(written_graph(drawn(TINY), limits=True)).repeatable(4), writing(drawn(TINY), limits=True)
    arrays = {**tensors(captured, SAMPLINGS[-1]), **graph.weights}
    assert {name: array.tobytes() for name, array in graph.weights.items()} == {
        name: array.tobytes() for name, array in captured.weights.items()
    }
    ours, theirs = (reference.execute(of.program, arrays, {"position": 0}, 4) for of in (graph, captured))
    assert ours.outputs["output"].tobytes() == theirs.outputs["output"].tobytes()
    assert {n: s.tobytes() for n, s in ours.states.items()} == {n: s.tobytes() for n, s in theirs.states.items()}


@pytest.mark.slow
def test_it_can_be_planned(tmp_path: Path) -> None:
    with Database(tmp_path / "times.sqlite") as database:
        meter = Meter(toolchain.local(), Cache(tmp_path / "kernels"), database)
        plan = Planner(written_graph(drawn(TINY), limits=True), meter, tolerance=1e-4, most=6).plan()
    assert plan.chosen.error <= 1e-4
    assert plan.chosen.cost.seconds <= plan.original.cost.seconds
    arrays = {**tensors(small(), SAMPLINGS[0]), **plan.chosen.made.weights}
    compiled = CompiledGraph(plan.chosen.made.repeatable(TINY.context).program)
    tokens = compiled.run(arrays, {"position": 0}, TINY.context).outputs["output"]
    assert tokens[: 1 + len(PROMPT)].tolist() == [0, *PROMPT]


def test_other_seeds_write_other_texts() -> None:
    graph = small()
    compiled = CompiledGraph(graph.program)
    texts = {
        compiled.run(tensors(graph, Sampling(1.0, seed=seed)), {"position": 0}, TINY.context)
        .outputs["output"]
        .tobytes()
        for seed in (0, 1, 1 << 32)
    }
    assert len(texts) == 3


def test_random_numbers_are_those_of_threefry() -> None:
    counters = np.random.default_rng(1).integers(0, 1 << 32, (2, 50), dtype=np.uint32)
    counters[:, :2] = [[0, 0xFFFFFFFF], [0, 0xFFFFFFFF]]
    key = np.array([0x13198A2E, 0x03707344], np.uint32)
    inputs = {"key": key, "first": counters[0], "second": counters[1]}
    words = reference.execute(capture(threefry, inputs, {}, fingerprint=False).program, inputs).outputs["output"]
    pairs = zip(counters[0].tolist(), counters[1].tolist(), strict=True)
    assert words.tolist() == [numpy_decoder.threefry((int(key[0]), int(key[1])), pair)[0] for pair in pairs]
    # The published vectors of the 20 rounds.
    assert numpy_decoder.threefry((0, 0), (0, 0)) == (0x6B200159, 0x99BA4EFE)
    assert numpy_decoder.threefry((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3)) == (0xC4923A9C, 0x483DF7A0)
