"""Which tokens may be drawn: by a plain definition, and by another library's."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from eigentensor.capture import GraphProgram, capture
from eigentensor.errors import BindingError
from eigentensor.runtime import CompiledGraph
from eigentensor_client.writing import LIMITS, SAMPLED, Sampling
from eigentensor_models import sampling
from support.programs import numpy_decoder
from support.vectors.sampling import cases

Bools = np.ndarray[Any, np.dtype[np.bool_]]


@cache
def program(tokens: int) -> CompiledGraph:
    examples = {"scores": np.zeros(tokens, np.float32), **Sampling().inputs((*SAMPLED, *LIMITS))}
    examples = {name: examples[name] for name in ("scores", "temperature", *LIMITS)}
    graph: GraphProgram = capture(sampling.allowed, examples, {})
    return CompiledGraph(graph.program, graph.weights)


def allowed(scores: Any, temperature: float, top_k: int, top_p: float) -> Bools:
    inputs = {
        "scores": np.asarray(scores, np.float32), "temperature": np.array(temperature, np.float32),
        "top_k": np.array(top_k, np.int32), "top_p": np.array(top_p, np.float32),
    }  # fmt: skip
    mask: Bools = program(len(scores)).run(inputs).outputs["output"]
    return mask.astype(bool)


@pytest.mark.parametrize("tokens", [7, 300])
def test_limits_are_those_of_the_definition(tokens: int) -> None:
    random = np.random.default_rng(tokens)
    for _ in range(30):
        scores = (random.standard_normal(tokens) * random.choice([0.1, 1, 5])).astype(np.float32)
        if random.random() < 0.3:
            scores = scores.round(1)  # some are equal
        temperature = float(np.float32(random.choice([0.3, 1.0, 2.0])))
        top_k = int(random.choice([0, 1, 2, 5, tokens, tokens + 9]))
        top_p = float(np.float32(random.choice([0.0, 0.1, 0.5, 0.9, 0.99, 1.0])))
        expected = numpy_decoder.allowed(scores, temperature, top_k, top_p)
        if expected.tobytes() != (got := allowed(scores, temperature, top_k, top_p)).tobytes():
            # no further than a share that rounding decides about
            near = [numpy_decoder.allowed(scores, temperature, top_k, top_p + d).tobytes() for d in (-2e-6, 2e-6)]
            assert got.tobytes() in near


def test_the_best_token_is_always_there() -> None:
    for temperature in (0.0, 1e-30, 1.0):
        for top_k, top_p in ((1, 0.0), (0, 0.0), (1, 1.0), (0, 1e-9)):
            assert allowed([1, 3, 3, -1e30, 2, 0, 1], temperature, top_k, top_p).tolist() == [0, 1, 1, 0, 0, 0, 0]
    assert allowed([0.0] * 7, 1.0, 3, 0.5).all()  # equal ones are in or out together
    assert allowed(range(7), 1.0, 0, 1.0).all()


def test_limits_are_those_of_transformers() -> None:
    for case in cases():
        kept = allowed(case.scores, case.temperature, case.top_k, case.top_p)
        assert np.flatnonzero(kept).tolist() == case.kept


def test_a_program_without_limits_is_not_given_any() -> None:
    assert set(Sampling(1.0, top_k=0, top_p=1.0).inputs()) == set(SAMPLED)
    for name, value in (("top_k", 3), ("top_p", 0.5)):
        with pytest.raises(BindingError, match=f"no input `{name}`"):
            Sampling(1.0, **{name: value}).inputs()  # type: ignore[arg-type]
