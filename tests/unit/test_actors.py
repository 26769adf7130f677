"""A liar's results and its account of them differ from the truth in one bit, and agree with each other."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from eigentensor import merkle, reference
from eigentensor.tracing import outputs_of, retrace
from eigentensor_local.actors import lied, lying
from support.generated.programs import generate


def bits(arrays: dict[str, Any]) -> np.ndarray[Any, Any]:
    return np.frombuffer(b"".join(arrays[name].tobytes() for name in sorted(arrays)), np.uint8)


@pytest.mark.parametrize("seed", range(6))
def test_a_lie_is_one_bit_and_one_call_of_a_consistent_account(seed: int) -> None:
    example = generate(seed)
    arguments = (example.program, example.tensors, example.variables, example.repeat)
    true, claimed = retrace(*arguments), lying(retrace)(*arguments)
    assert claimed.outputs == outputs_of(example.program, claimed.calls) != true.outputs
    assert sum(a != b for a, b in zip(true.calls, claimed.calls, strict=True)) == 1

    results = reference.execute(*arguments)
    wrong = lied(example.program, results)
    assert merkle.results_root(example.program, wrong) == claimed.outputs
    pairs = ((results.outputs, wrong.outputs), (results.states, wrong.states))
    flipped = [np.bitwise_count(bits(a) ^ bits(b)).sum() for a, b in pairs]
    assert 1 <= sum(flipped) <= len(example.program.results)


def test_the_demo_is_loaded_without_tinygrad() -> None:
    """Which looks for its cache, and for the processes that it may start, when it is imported."""
    code = "import sys\nimport eigentensor_local.demo\nassert 'tinygrad' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
