"""Models of real shapes: every call has the bits of the reference, on every device."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest

from eigentensor import reference
from eigentensor.merkle import results_root
from eigentensor.program.binding import Results
from eigentensor.program.model import Program
from support.generated.programs import Example
from support.oracles.agreement import Calls, calls_of, differences
from support.oracles.backends import Backend
from support.programs import models
from support.programs.models import MODELS

pytestmark = pytest.mark.slow
STEPS = 100


@cache
def expected(name: str) -> tuple[Example, Calls]:
    """A model on its inputs, and what the reference computes in each call."""
    made = models.example(MODELS[name]())
    return made, calls_of(made)


@pytest.mark.parametrize("name", MODELS)
def test_every_call_of_a_model_has_the_bits_of_the_reference(name: str, at: Backend) -> None:
    example, calls = expected(name)
    assert differences(example, at.way(), calls) == []


@cache
def trained() -> tuple[Example, list[bytes]]:
    """A hundred steps of training with Adam, and the hash of loss and states after each, by the reference."""
    model = models.adam_step()
    graph = model.captured()
    program = replace(graph.program, max_repeat=STEPS)
    first = {**graph.weights, **graph.states, **model.inputs}
    return Example(program, first, {}, STEPS), hashes(program, first, partial(reference.execute, program))


def hashes(program: Program, first: Mapping[str, Any], run: Callable[[dict[str, Any]], Results]) -> list[bytes]:
    """Of loss and states after each step."""
    tensors, roots = dict(first), []
    for _ in range(STEPS):
        results = run(tensors)
        roots.append(results_root(program, results))
        tensors |= results.states
    return roots


def test_a_hundred_steps_of_training_have_the_hashes_of_the_reference(at: Backend) -> None:
    example, expected = trained()
    program, first, variables, repeat = example.program, example.tensors, example.variables, example.repeat
    run = at.way()(program)
    assert hashes(program, first, lambda tensors: run(tensors, variables, 1)) == expected
    assert results_root(program, run(first, variables, repeat)) == expected[-1]
