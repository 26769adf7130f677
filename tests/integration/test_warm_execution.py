"""Calls of a program that stays warm: the reference's bits, and a device that has others is noticed."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigentensor import merkle
from eigentensor.errors import BindingError, EigenTensorError, WrongBits
from eigentensor.program import Results, Role
from eigentensor.reexecution import warm
from eigentensor.reexecution.confined import limits
from eigentensor.reexecution.warm import WarmExecution
from eigentensor.reference import execute as reference
from eigentensor.runtime.sandbox.ready import Given
from eigentensor.runtime.sandbox.returned import Observed
from eigentensor.runtime.sandbox.warm import WarmProgram
from eigentensor.store import save_safetensors
from support.programs.models import digits
from support.stories.calls import ELEMENTS, counting

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


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmExecution]:
    """A program that is compiled at once."""
    path = tmp_path_factory.mktemp("weights") / "weights"
    save_safetensors(path, {"w": np.full(ELEMENTS, 3, np.float32)})
    made = WarmExecution(counting(), path, WITHIN)
    yield made
    made.close()


def call(seed: int) -> dict[str, Any]:
    """The tensors of a call."""
    x, total = np.random.default_rng(seed).standard_normal((2, ELEMENTS)).astype(np.float32)
    return {"x": x, "total": total}


def together(small: WarmExecution, calls: list[dict[str, Any]]) -> list[Results]:
    """What these calls give, all of which do well."""
    outcomes = asyncio.run(small.execute_all_async([Given(call) for call in calls], 1, 60))
    return [one for one in outcomes if not isinstance(one, EigenTensorError)]


def roots(small: WarmExecution, outcomes: list[Results]) -> list[bytes]:
    return [merkle.results_root(small.program, results) for results in outcomes]


def test_calls_that_come_together_give_what_each_gives_alone(small: WarmExecution) -> None:
    """When many came, the program is widened, and they still do."""
    calls = [call(seed) for seed in range(5)]
    expected = [merkle.results_root(small.program, small.execute(call, {}, 1, 60)) for call in calls]
    end = time.monotonic() + 60
    assert isinstance(small._warm, WarmProgram)
    while not small._warm.widths:
        assert roots(small, together(small, calls)) == expected
        assert time.monotonic() < end
    for _ in range(10):
        assert roots(small, together(small, calls)) == expected


def test_a_wrong_bit_among_several_calls_is_noticed(small: WarmExecution, monkeypatch: pytest.MonkeyPatch) -> None:
    run_all, sizes = WarmProgram.run_all_async, set()

    async def faulty(self: WarmProgram, calls: Any, *arguments: Any, **options: Any) -> list[Any]:
        outcomes: list[Any] = await run_all(self, calls, *arguments, **options)
        if len(calls) > 1:
            sizes.add(len(calls))
            flipped = [
                {n: (kept.view(np.uint32) ^ 1).view(kept.dtype) for n, kept in one.kept.items()} for one in outcomes
            ]
            outcomes = [one._replace(kept=some) for one, some in zip(outcomes, flipped, strict=True)]
        return outcomes

    monkeypatch.setattr(WarmProgram, "run_all_async", faulty)
    with pytest.raises(WrongBits):
        for _ in range(10_000):
            together(small, [call(seed) for seed in range(3)])
    assert sizes == {3}


def test_calls_whose_process_is_lost_are_executed_alone(small: WarmExecution, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed whenever it has several."""
    run_all, alone = WarmProgram.run_all_async, []

    async def killing(self: WarmProgram, calls: Any, *arguments: Any, **options: Any) -> list[Any]:
        if len(calls) > 1:
            assert self._child is not None
            self._child.over.set()
            self._child.ended.wait()
        else:
            alone.append(calls)
        return await run_all(self, calls, *arguments, **options)

    calls = [call(seed) for seed in range(4)]
    expected = roots(small, together(small, calls))
    monkeypatch.setattr(WarmProgram, "run_all_async", killing)
    assert roots(small, together(small, calls)) == expected
    assert len(alone) == 4


def test_weights_that_do_not_fit_are_refused(execution: WarmExecution, tmp_path: Path) -> None:
    save_safetensors(tmp_path / "w", {"other": np.zeros(3, np.float32)})
    with pytest.raises(BindingError, match="weight tensors"):
        WarmExecution(execution.program, tmp_path / "w", WITHIN)
