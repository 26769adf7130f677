"""Captured graphs mean what tinygrad computes, up to rounding, and are the same bytes in every process."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tinygrad import Tensor, UOp, dtypes

from captured_graphs import Graph, graphs
from eigentensor import reference
from eigentensor.capture.graph import GraphProgram
from eigentensor.program.model import Kind, Role
from eigentensor.program.ops import Op
from eigentensor.program.validity import check
from ops_vectors import apart

NAMES = list(graphs())


@pytest.mark.parametrize("name", NAMES)
def test_a_captured_graph_is_valid_and_survives_its_bytes(name: str) -> None:
    graph = graphs()[name].captured()
    check(graph.program)
    assert GraphProgram.from_bytes(graph.to_bytes()).program == graph.program


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_agrees_with_tinygrad(name: str) -> None:
    graph = graphs()[name]
    captured = graph.captured(fingerprint=False)
    results = reference.execute(captured.program, graph.bound(captured), {n: v[0] for n, v in graph.variables.items()})
    expected = own_results(graph)
    for ours, theirs in zip(results.outputs.values(), expected, strict=True):
        assert apart(ours, theirs) <= graph.tolerance


def own_results(graph: Graph) -> list[Tensor]:
    inputs = {name: Tensor(value) for name, value in graph.inputs.items()}
    bound = {name: UOp.variable(name, *v[:2]).bind(v[0]) for name, v in graph.variables.items()}
    results = graph.function(*inputs.values(), **bound) if bound else graph.function(**inputs)
    return list(results) if isinstance(results, tuple | list) else [results]


def test_programs_are_the_same_bytes_in_every_process() -> None:
    code = "from captured_graphs import graphs; print([g.captured().uuid for g in graphs().values()])"
    here = Path(__file__).parents[1]
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": str(here), "PYTHONHASHSEED": seed, "HOME": str(Path.home()), **settings},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed, settings in (
            ("0", {}),
            ("1", {"NOOPT": "1", "BEAM": "2", "FLOAT16": "1", "IMAGE": "1", "SPLIT_REDUCEOP": "1", "SCACHE": "1", "DEV": "PYTHON"}),
        )
    ]  # fmt: skip
    assert runs[0] == runs[1] == f"{[g.captured().uuid for g in graphs().values()]}\n"


def test_a_model_is_a_small_program_with_its_weights_beside_it() -> None:
    captured = graphs()["digits"].captured()
    assert len(captured.to_bytes()) < 10_000
    assert set(captured.weights) == {f"{layer}.{part}" for layer in ("first", "second", "last") for part in ("weight", "bias")}
    assert not captured.program.named(Role.CONSTANT)


def test_an_embedding_is_a_guarded_load() -> None:
    (body,) = graphs()["embedding"].captured().program.bodies
    assert not body.reductions
    assert max(i.op is Op.LOAD for i in body.instructions)


def test_a_sum_of_products_is_fused() -> None:
    (body,) = graphs()["matmul"].captured().program.bodies
    assert any(i.op is Op.REDUCE_MULACC for i in body.instructions)


def test_capturing_leaves_the_model_as_it_was() -> None:
    graph = graphs()["training step with Adam"]
    first, second = graph.captured(), graph.captured()
    assert first.to_bytes() == second.to_bytes()
    assert all(np.array_equal(first.states[name], second.states[name]) for name in first.states)


def test_what_a_training_step_assigns_is_a_state() -> None:
    captured = graphs()["training step with Adam"].captured()
    assert {"optimizer.m.0", "optimizer.b1_t", "trained.last.weight"} <= set(captured.states)
    assert {r.name for r in captured.program.results if r.kind is Kind.STATE} == set(captured.states)


def test_training_steps_follow_tinygrad_through_the_states() -> None:
    graph = graphs()["training step with Adam"]
    captured = graph.captured(fingerprint=False)
    tensors = graph.bound(captured)
    for expected in [own_results(graph)[0] for _ in range(3)]:
        results = reference.execute(captured.program, tensors)
        assert apart(results.outputs["output"], expected) < 1e-4
        tensors |= results.states


def test_a_decoder_writes_its_cache_where_the_variable_says() -> None:
    graph = graphs()["decoder step"]
    captured = graph.captured()
    tensors = graph.bound(captured)
    for position in range(3):
        states = reference.execute(captured.program, tensors, {"position": position}).states
        written = [i for i in range(6) if np.any(states["keys"][0, i] != tensors["keys"][0, i])]
        assert written == [position]
        tensors |= states


def test_a_decoder_repeated_by_its_stride_is_the_same_as_step_by_step() -> None:
    graph = graphs()["decoder step"]
    captured = graph.captured()
    assert captured.program.variables[0].stride == 1
    assert dtypes.float32.itemsize * 6 * 8 == captured.states["keys"].nbytes
