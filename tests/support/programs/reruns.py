"""Incremental runs with one thing or another changed in between, held to the reference; and computed by it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from numpy.typing import NDArray

from eigentensor import reference
from eigentensor.program import Body, Program, Results, Role
from eigentensor.program.cost import body_cost
from eigentensor.program.restriction import Restricted
from eigentensor.runtime.incremental import Incremental, Rerun, recomputation, runs
from eigentensor.runtime.incremental.processor import Processor
from eigentensor.runtime.tuning.measure import alone
from support.programs.changes import with_changes


class ByReference:
    """Computes calls by the reference: no kernel is compiled. A call takes a nanosecond for each evaluation."""

    def __init__(self, program: Program, buffers: Sequence[NDArray[Any]], *_: object) -> None:
        self.program, self.buffers = program, buffers

    def seconds(self, body: Body) -> float:
        return body_cost(body).evaluations / 1e9

    def calls(self, numbers: Sequence[int], values: Sequence[int]) -> None:
        for number in numbers:
            call = self.program.calls[number]
            inputs, of = [self.buffers[b] for b in call.arguments], [values[v] for v in call.variables]
            result = self._execute(alone(self.program.bodies[call.body]), inputs, of)
            self.buffers[len(self.program.buffers) + number][...] = result

    def part(self, restricted: Restricted, inputs: Sequence[NDArray[Any]], values: tuple[int, ...]) -> NDArray[Any]:
        return self._execute(restricted.program, inputs, values)

    def copy(self, array: NDArray[Any]) -> NDArray[Any]:
        return array.copy()

    alone = calls

    def _execute(self, program: Program, inputs: Sequence[NDArray[Any]], values: Sequence[int]) -> NDArray[Any]:
        tensors = {f"{n:02}": array for n, array in enumerate(inputs)}
        variables = {f"{n:02}": value for n, value in enumerate(values)}
        return reference.execute(program, tensors, variables).outputs["output"]


@contextmanager
def small_boxes() -> Iterator[None]:
    """Every box with fewer elements than the result is computed alone, however few these are, and whatever it takes."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("BOX", "ELEMENT", "SHORT"):
            patch.setattr(recomputation, name, 0)
        patch.setattr(Processor, "seconds", lambda _, body: body_cost(body).evaluations / 1e9)
        yield


@contextmanager
def by_reference() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "Processor", ByReference)
        yield


def same(actual: Results, expected: Results) -> bool:
    pairs = [(actual.outputs, expected.outputs), (actual.states, expected.states)]
    return all(a.keys() == b.keys() and all(a[n].tobytes() == b[n].tobytes() for n in b) for a, b in pairs)


def rerun(
    random: Random, program: Program, tensors: dict[str, NDArray[Any]], times: int, **options: Any
) -> list[Rerun]:
    """Runs with one thing or another changed in between, each held to the reference."""
    weights = {name: tensors[name] for name in program.named(Role.WEIGHT)}
    runs, reruns = Incremental(program, weights, **options), []
    for _ in range(times):
        variables = {v.name: random.randint(v.minimum, v.maximum) for v in program.variables}
        most = min((1 + (v.maximum - variables[v.name]) // v.stride for v in program.variables if v.stride), default=3)
        repeat = random.randint(1, min(most, program.max_repeat))
        opened = {name: array for name, array in tensors.items() if name not in weights}
        reruns.append(runs.run(opened, variables, repeat))
        assert same(reruns[-1], reference.execute(program, tensors, variables, repeat))
        tensors = with_changes(random, program, tensors, random.choice((0, 1, 1, 2))) | weights
    return reruns
