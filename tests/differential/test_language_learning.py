"""A small decoder learns the front page in a captured step of training, and writes what the reference writes."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigentensor import reference
from eigentensor.merkle import results_root
from eigentensor.runtime import CompiledGraph
from eigentensor_client import byte_pairs
from eigentensor_client.byte_pairs import END, BytePairs
from eigentensor_client.writing import Sampling
from language.decoder import SMALL, drawn
from language.training import Batch, lesson, taught
from language.writing import writing
from support.programs.numpy_decoder import NumpyDecoder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(6000)]

README = Path(__file__).parents[2] / "README.md"
BATCH = Batch(rows=4, length=96)
STEPS = 300
WRITTEN = 64


@cache
def page() -> tuple[BytePairs, np.ndarray[Any, Any]]:
    pairs = byte_pairs.trained(README.read_text(), SMALL.vocabulary)
    return pairs, np.array([END, *pairs.encode(README.read_text()), END], np.int32)


@cache
def learnt() -> tuple[Mapping[str, np.ndarray[Any, Any]], list[float]]:
    """The weights, and the losses on the way."""
    losses: list[float] = []
    return taught(drawn(SMALL), BATCH, page()[1], STEPS, lambda _, loss: losses.append(loss)), losses


def test_a_step_of_training_has_the_bits_of_the_reference() -> None:
    _, tokens = page()
    graph = lesson(drawn(SMALL), Batch(2, 16), tokens)
    tensors = {**graph.weights, **graph.states, "text": tokens, "seed": np.array([1, 2], np.uint32)}
    expected = reference.execute(graph.program, tensors, {"step": 5}, 2)
    results = CompiledGraph(graph.program).run(tensors, {"step": 5}, 2)
    assert results_root(graph.program, results) == results_root(graph.program, expected)


def test_the_loss_goes_down_until_the_page_is_known() -> None:
    weights, losses = learnt()
    assert losses[0] < np.log(SMALL.vocabulary)
    assert losses[-1] < losses[0] / 2
    _, tokens = page()
    known = NumpyDecoder(SMALL, weights)
    starts = np.random.default_rng(1).integers(0, len(tokens) - BATCH.length, 20)
    parts = [tokens[start : start + BATCH.length + 1] for start in starts]
    right = np.mean([known.scores(part[:-1]).argmax(1)[8:] == part[9:] for part in parts])
    assert right > 0.5


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.7, least=0.02, seed=11)], ids=["greedy", "seeded"])
def test_what_it_writes_is_what_the_reference_and_the_whole_text_computed_anew_say(sampling: Sampling) -> None:
    weights, _ = learnt()
    pairs, _ = page()
    graph = writing(drawn(SMALL))
    prompt, tokens = np.full(SMALL.context + 1, -1, np.int32), pairs.encode("A program has")
    prompt[1 : 1 + len(tokens)] = tokens
    inputs = {"prompt": prompt, **sampling.inputs()}
    tensors = {**graph.states, **{name: weights[name] for name in graph.weights}, **inputs}
    expected = reference.execute(graph.program, tensors, {"position": 0}, WRITTEN)
    results = CompiledGraph(graph.program).run(tensors, {"position": 0}, WRITTEN)
    assert results_root(graph.program, results) == results_root(graph.program, expected)
    written = results.outputs["output"][: WRITTEN + 1].tolist()
    seed = int(inputs["seed"][0]), int(inputs["seed"][1])
    choice = float(inputs["temperature"]), float(inputs["margin"])
    assert written == NumpyDecoder(SMALL, weights).written(prompt, WRITTEN, *choice, seed)
    assert pairs.decode(written).startswith("A program has")
