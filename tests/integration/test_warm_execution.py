"""Calls of a program that stays warm: the reference's bits, and a device that has others is noticed."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigentensor import merkle
from eigentensor.errors import BindingError, WrongBits
from eigentensor.program import Results, Role
from eigentensor.reexecution import warm
from eigentensor.reexecution.confined import limits
from eigentensor.reexecution.warm import WarmExecution
from eigentensor.reference import execute as reference
from eigentensor.runtime.sandbox.returned import Observed
from eigentensor.runtime.sandbox.warm import WarmProgram
from eigentensor.store import save_safetensors
from support.programs.models import digits

WITHIN = replace(limits(1 << 30, 60), threads=1)


@pytest.fixture(scope="module")
def execution(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmExecution]:
    graph = digits().captured()
    path = tmp_path_factory.mktemp("weights") / "weights"
    save_safetensors(path, {name: np.asarray(array) for name, array in graph.weights.items()})
    made = WarmExecution(graph.program, path, WITHIN)
    yield made
    made.close()


def inputs(execution: WarmExecution, seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    named = execution.program.named(Role.INPUT)
    return {name: random.standard_normal(buffer.shape).astype(np.float32) for name, buffer in named.items()}


def test_calls_give_the_bits_of_the_reference_rechecked_or_not(execution: WarmExecution) -> None:
    for seed in range(5):
        x = inputs(execution, seed)
        results = execution.execute(x, {}, 1, 60)
        bound = execution.bound(x, {}, 1)
        expected: Results = reference(bound.program, bound.tensors)
        program = execution.program
        assert merkle.results_root(program, results) == merkle.results_root(program, expected)
    assert warm.LEAST <= execution.part <= 1 and execution.is_warm


def test_a_wrong_bit_that_the_sample_meets_is_noticed(
    execution: WarmExecution, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device flips the last bit of every element."""
    run = WarmProgram.run

    def faulty(self: WarmProgram, *arguments: Any, **options: Any) -> Observed:
        observed = run(self, *arguments, **options)
        kept = {number: (array.view(np.uint32) ^ 1).view(array.dtype) for number, array in observed.kept.items()}
        return observed._replace(kept=kept)

    monkeypatch.setattr(WarmProgram, "run", faulty)
    with pytest.raises(WrongBits):
        for seed in range(10_000):
            execution.execute(inputs(execution, seed % 3), {}, 1, 60)


def test_weights_that_do_not_fit_are_refused(execution: WarmExecution, tmp_path: Path) -> None:
    save_safetensors(tmp_path / "w", {"other": np.zeros(3, np.float32)})
    with pytest.raises(BindingError, match="weight tensors"):
        WarmExecution(execution.program, tmp_path / "w", WITHIN)
