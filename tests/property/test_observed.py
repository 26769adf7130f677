"""An executor that gives out results alone, observed: each call's bits are those that the reference shows."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor import reference
from eigentensor.program import Kind, Program, Result, encode
from eigentensor.program.binding import Results
from eigentensor.runtime.executable import Executable
from eigentensor.testing.programs import Example, examples
from eigentensor.tracing import observed_by, retrace
from worked_examples import session


def run(program: Program, tensors: Mapping[str, Any], variables: Mapping[str, int]) -> Results:
    """One iteration, of a program that is valid."""
    assert encode(program)
    return reference.execute(program, tensors, variables)


@settings(max_examples=25, deadline=None)
@given(examples(), st.sampled_from([0, 40, 1 << 30]))
def test_what_is_given_out_is_the_account_of_the_reference(example: Example, most: int) -> None:
    given = example.program, example.tensors, example.variables, example.repeat
    calls = range(len(example.program.calls) * example.repeat)
    assert retrace(*given, execute=observed_by(run, most)).trace == retrace(*given).trace
    honest, again = retrace(*given, keep=calls), retrace(*given, keep=calls, execute=observed_by(run, most))
    assert all(np.array_equal(honest.kept[n].view("u1"), again.kept[n].view("u1")) for n in calls)


@pytest.mark.parametrize("name", ["~0", "~0~", "~0~4", "~" * 128, "0" * 128])
def test_results_whose_names_look_like_those_of_calls_are_not_mixed_up(name: str) -> None:
    example = session()
    program = example.program
    (output,) = [r for r in program.results if r.kind is Kind.OUTPUT]
    states = (r for r in program.results if r.kind is Kind.STATE)
    named = replace(program, results=(Result(Kind.OUTPUT, name, output.buffer, output.shape), *states))
    given = named, example.tensors, example.variables, example.repeat
    results = observed_by(run)(*given, observe=lambda number, flat: None)
    assert results.outputs.keys() == {name}
    np.testing.assert_array_equal(results.outputs[name], reference.execute(*given).outputs[name])


@pytest.mark.parametrize("most", [1, 1 << 30])
def test_the_fast_path_is_observed(most: int) -> None:
    example = session()
    given = example.program, example.tensors, example.variables, example.repeat
    fast = observed_by(lambda program, tensors, variables: Executable(program).run(tensors, variables), most)
    assert retrace(*given, execute=fast).trace == retrace(*given).trace
