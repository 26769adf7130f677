"""Where two results differ first: by the call that wrote it, then by the element."""

from copy import deepcopy

import numpy as np
import pytest

from eigentensor import reference
from eigentensor.dispute import refuse
from eigentensor.program import Program
from eigentensor.program.binding import Results
from eigentensor_client.looking import first_difference
from support.generated.programs import Example, generate


def flipped(results: Results, name: str, element: int) -> Results:
    changed = Results(*deepcopy((dict(results.outputs), dict(results.states))))
    array = changed.outputs.get(name, changed.states.get(name))
    assert array is not None
    array.reshape(-1)[element : element + 1].view(np.uint8)[0] ^= 1
    return changed


@pytest.fixture(scope="module")
def example() -> Example:
    """One with results of at least two calls, of more than one element."""
    for example in map(generate, range(2000)):
        written = [r.buffer for r in example.program.results if r.buffer >= len(example.program.buffers)]
        sizes = [example.program.parameter(buffer).elements for buffer in written]
        if len(set(written)) > 1 and min(sizes) > 1 and example.repeat == 1 and refuse(example.program, 1) is None:
            return example
    raise AssertionError("the generator makes no such program any more")


def calls(program: Program) -> dict[int, str]:
    return {
        r.buffer - len(program.buffers): r.name
        for r in (*program.outputs.values(), *program.new_states.values())
        if r.buffer >= len(program.buffers)
    }


def test_the_earliest_call_and_its_first_wrong_element_are_named(example: Example) -> None:
    program, true = example.program, reference.execute(example.program, example.tensors, example.variables)
    names = calls(program)
    early, late = min(names), max(names)
    claimed = flipped(flipped(flipped(true, names[late], 0), names[early], 1), names[early], 0)
    difference = first_difference(program, 1, claimed, true)
    assert difference is not None
    assert (difference.call, difference.name, difference.element, difference.elements) == (early, names[early], 0, 3)
    assert int(difference.claimed["bits"], 16) ^ int(difference.computed["bits"], 16) == 1
    assert difference.words.startswith(f"{names[early]}[") and f"executed call {early} wrote" in difference.words
    repeated = first_difference(program, 3, claimed, true)
    assert repeated is not None and repeated.call == 2 * len(program.calls) + early


def test_equal_results_differ_nowhere(example: Example) -> None:
    true = reference.execute(example.program, example.tensors, example.variables)
    assert first_difference(example.program, 1, true, deepcopy(true)) is None


def test_the_place_in_a_tensor_is_an_index_in_its_shape(example: Example) -> None:
    true = reference.execute(example.program, example.tensors, example.variables)
    name, result = next((n, r) for n, r in example.program.outputs.items() if np.prod(r.shape) > 1)
    last = int(np.prod(result.shape)) - 1
    difference = first_difference(example.program, 1, flipped(true, name, last), true)
    assert difference is not None and difference.to_json()["index"] == [extent - 1 for extent in result.shape]
