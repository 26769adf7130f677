"""The reference against a second reading of the same text, on generated programs."""

import pytest

from eigentensor import reference
from eigentensor.program.binding import Results
from support.generated.programs import generate
from support.oracles import interpreter


def raw(results: Results) -> dict[tuple[str, str], tuple[str, tuple[int, ...], bytes]]:
    named = {"output": results.outputs, "state": results.states}
    return {(k, n): (str(a.dtype), a.shape, a.tobytes()) for k, arrays in named.items() for n, a in arrays.items()}


def assert_agreement(seed: int) -> None:
    example = generate(seed)
    arguments = (example.program, example.tensors, example.variables, example.repeat)
    assert raw(reference.execute(*arguments)) == raw(interpreter.execute(*arguments))


@pytest.mark.parametrize("seed", range(1000, 1040))
def test_generated_programs_mean_the_same_to_both(seed: int) -> None:
    assert_agreement(seed)


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(2000, 6000, 100))
def test_thousands_of_generated_programs_mean_the_same_to_both(hundred: int) -> None:
    for seed in range(hundred, hundred + 100):
        assert_agreement(seed)
