"""Attack 26: a program that reads what it has not written sees nothing of what lay there before.

Results of calls share memory that nobody clears between runs; every element of each is written before it is read.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eigentensor import reference
from eigentensor.cache import Cache
from eigentensor.errors import ProgramError
from eigentensor.program.codec import decode, to_bytes
from eigentensor.runtime import CompiledGraph
from eigentensor.runtime.cpu import table
from support.generated.programs import Example, generate
from support.programs.hostile import PROGRAMS

SEEDS = range(12)
CANARIES = (0xA5, 0xFF, 0x5A)


def bits(results: Any) -> dict[str, bytes]:
    both = {
        **{f"output {n}": a for n, a in results.outputs.items()},
        **{f"state {n}": a for n, a in results.states.items()},
    }
    return {name: array.tobytes() for name, array in both.items()}


def run(compiled: CompiledGraph, example: Example) -> dict[str, bytes]:
    return bits(compiled.run(example.tensors, example.variables, example.repeat))


def expected(example: Example) -> dict[str, bytes]:
    return bits(reference.execute(example.program, example.tensors, example.variables, example.repeat))


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(tmp_path_factory.mktemp("kernels"))


EXAMPLES: dict[str, Callable[[], Example]] = {
    **{f"generated {seed}": partial(generate, seed) for seed in SEEDS},
    **PROGRAMS,
}


def on_processor(compiled: CompiledGraph) -> table.Table:
    assert isinstance(compiled.loaded, table.Table)
    return compiled.loaded


def lay(canary: int, compiled: CompiledGraph, patch: pytest.MonkeyPatch) -> None:
    """Fill all memory that the next run writes to."""

    def filled(dtype: Any, elements: int) -> NDArray[Any]:
        return np.full(elements * np.dtype(dtype).itemsize, canary, np.uint8).view(dtype)

    on_processor(compiled).memory[:] = canary
    patch.setattr(table, "empty", filled)


@pytest.mark.parametrize("name", EXAMPLES)
def test_nothing_of_what_lay_in_memory_shows(name: str, kernels: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    example = EXAMPLES[name]()
    compiled, right = CompiledGraph(example.program, cache=kernels), expected(example)
    for canary in CANARIES:
        lay(canary, compiled, monkeypatch)
        assert run(compiled, example) == right


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_result_is_written_to_its_last_byte(name: str, kernels: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two canaries that differ in every bit: a byte that is equal after both was written."""
    example = EXAMPLES[name]()
    compiled, seen = CompiledGraph(example.program, cache=kernels), []
    for canary in (0xA5, 0x5A):
        lay(canary, compiled, monkeypatch)
        run(compiled, example)
        seen.append(on_processor(compiled).written())
    assert seen[0].keys() == {result.buffer for result in example.program.results}
    assert all(seen[0][buffer].tobytes() == seen[1][buffer].tobytes() for buffer in seen[0])


def test_nothing_of_another_clients_tensors_shows(kernels: Cache) -> None:
    """The same compiled graph serves one after the other: the second gets what a new one would give."""
    example = PROGRAMS["signed zeros and subnormals"]()
    compiled = CompiledGraph(example.program, cache=kernels)
    secret = {name: np.full_like(array, 1234.5) for name, array in example.tensors.items()}
    compiled.run(secret)
    assert run(compiled, example) == expected(example)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_body_that_leaves_elements_unwritten_is_refused(name: str) -> None:
    program = PROGRAMS[name]().program
    body = program.bodies[0]
    for extents in ((71,), (36,)):
        fewer = replace(body, output_ranges=extents)
        with pytest.raises(ProgramError) as refusal:
            decode(to_bytes(replace(program, bodies=(fewer, *program.bodies[1:]))))
        assert refusal.value.rule == "store"


def test_an_element_whose_guard_does_not_hold_is_zero_and_not_what_was_there(kernels: Cache) -> None:
    example = PROGRAMS["indices far outside"]()
    compiled = CompiledGraph(example.program, cache=kernels)
    on_processor(compiled).memory[:] = 0xA5
    gathered = compiled.run(example.tensors).outputs["gathered"]
    outside = (example.tensors["at"] < 0) | (example.tensors["at"] >= gathered.size)
    assert outside.any() and not outside.all()
    assert gathered[outside].tobytes() == bytes(4 * int(outside.sum()))
