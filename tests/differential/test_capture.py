"""Captured graphs mean what tinygrad computes, up to rounding, and are the same bytes in every process."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tinygrad import Context, Tensor, UOp, dtypes

from eigentensor import reference
from eigentensor.capture.context import TensorContext
from eigentensor.errors import CaptureError
from eigentensor.lowering.graph_program import GraphProgram
from eigentensor.merkle import results_root
from eigentensor.program.model import Kind, Role
from eigentensor.program.ops import NO_GUARD, Op
from eigentensor.program.validity import check
from support.programs.captured import NAMES, Graph, graphs
from support.vectors.ops import apart

TRAINING = "training step with Adam"  # compared over several steps
CHANGED = dict.fromkeys(("NOOPT", "WINO", "PCONTIG", "SPLIT_REDUCEOP", "SCACHE", "TRANSCENDENTAL"), "1")


@cache
def captured(name: str) -> GraphProgram:
    return graphs()[name].captured(fingerprint=False)


@pytest.mark.parametrize("name", NAMES)
def test_a_captured_graph_is_valid_and_survives_its_bytes(name: str) -> None:
    graph = captured(name)
    check(graph.program)
    assert GraphProgram.from_bytes(graph.to_bytes()).program == graph.program


@pytest.mark.parametrize("name", [name for name in NAMES if name != TRAINING])
def test_the_reference_agrees_with_tinygrad(name: str) -> None:
    graph, made = graphs()[name], captured(name)
    results = reference.execute(made.program, graph.bound(made), {n: v[0] for n, v in graph.variables.items()})
    for ours, theirs in zip(results.outputs.values(), own_results(graph), strict=True):
        assert apart(ours, theirs) <= graph.tolerance


def own_results(graph: Graph) -> list[Tensor]:
    inputs = {name: Tensor(value) for name, value in graph.inputs.items()}
    bound = {name: UOp.variable(name, *v[:2]).bind(v[0]) for name, v in graph.variables.items()}
    with Context(NOOPT=1):
        results = graph.function(**inputs, **bound)
        results = list(results) if isinstance(results, tuple) else [results]
        return [(tensor.float() if tensor.dtype is dtypes.bfloat16 else tensor).realize() for tensor in results]


def test_programs_are_the_same_bytes_in_every_process() -> None:
    names = [name for name in NAMES if name != TRAINING]
    roots = f"[graphs()[n].captured(fingerprint=False).uuid for n in {names}]"
    code = f"from support.programs.captured import graphs; print({roots})"
    there = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **CHANGED, "PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout == f"{[captured(name).uuid for name in names]}\n"


def test_a_model_is_a_small_program_with_its_weights_beside_it() -> None:
    made = captured("digits")
    assert len(made.to_bytes()) < 10_000
    assert set(made.weights) == {f"{layer}.{p}" for layer in ("first", "second", "last") for p in ("weight", "bias")}
    assert not made.program.named(Role.CONSTANT)


def test_an_embedding_is_a_guarded_load() -> None:
    (body,) = captured("embedding").program.bodies
    assert not body.reductions
    assert any(i.op is Op.LOAD and i.c != NO_GUARD for i in body.instructions)


def test_a_sum_of_products_is_fused() -> None:
    (body,) = captured("matmul").program.bodies
    assert any(i.op is Op.REDUCE_MULACC for i in body.instructions)


def test_capturing_leaves_the_model_as_it_was() -> None:
    graph = graphs()[TRAINING]
    first, second = graph.captured(), graph.captured()
    assert first.to_bytes() == second.to_bytes()
    assert all(np.array_equal(first.states[name], second.states[name]) for name in first.states)


def test_what_a_training_step_assigns_is_a_state() -> None:
    made = captured(TRAINING)
    assert {"optimizer.m.0", "optimizer.b1_t", "trained.last.weight"} <= set(made.states)
    assert {r.name for r in made.program.results if r.kind is Kind.STATE} == set(made.states)


@pytest.mark.slow
def test_training_steps_follow_tinygrad_through_the_states() -> None:
    graph, made = graphs()[TRAINING], captured(TRAINING)
    tensors = graph.bound(made)
    for expected in [own_results(graph)[0] for _ in range(3)]:
        results = reference.execute(made.program, tensors)
        assert apart(results.outputs["output"], expected) < 1e-4
        tensors |= results.states


def test_a_decoder_writes_its_cache_where_the_variable_says() -> None:
    made = captured("decoder step")
    tensors = graphs()["decoder step"].bound(made)
    for position in range(3):
        states = reference.execute(made.program, tensors, {"position": position}).states
        written = [i for i in range(6) if np.any(states["keys"][0, i] != tensors["keys"][0, i])]
        assert written == [position]
        tensors |= states


def test_a_program_says_how_often_it_may_be_repeated() -> None:
    graph = graphs()["decoder step"]
    once, made = captured("decoder step"), graph.captured(max_repeat=6)
    assert (once.program.max_repeat, made.program.max_repeat) == (1, 6)
    together = reference.execute(made.program, graph.bound(made), {"position": 0}, 6)
    tensors = graph.bound(once)
    for position in range(6):
        results = reference.execute(once.program, tensors, {"position": position})
        tensors |= results.states
    assert results_root(once.program, together) == results_root(once.program, results)
    with pytest.raises(CaptureError, match="as largest repeat"):
        graph.captured(max_repeat=1 << 21)


def test_placeholders_of_any_device_give_the_same_program() -> None:
    uuids = set()
    for device in ("CPU", "PYTHON", "NULL"):
        with Context(DEV=device):
            context = TensorContext()
            x = context.add_graph_input("x", (4, 6))
            uuids.add(context.compile_to_graph((x @ x.T + Tensor([1.0, 2.0, 3.0, 4.0])).softmax()).uuid)
    assert len(uuids) == 1
