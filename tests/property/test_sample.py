"""The sample that is rechecked of a result: it changes nothing, and finds a wrong bit where it looks."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor import reference, sample
from eigentensor.bound import Bound
from eigentensor.errors import WrongBits
from eigentensor.program.binding import Results
from eigentensor.program.model import Kind
from eigentensor.program.validity import check
from eigentensor.testing.programs import generate


def bound(seed: int) -> Bound:
    example = generate(seed)
    return Bound(example.program, (), example.tensors, example.variables, example.repeat)


def executed(b: Bound, chosen: sample.Sample) -> Results:
    observed = sample.observed(b.program, chosen)
    check(observed)
    return reference.execute(observed, b.tensors, b.variables, b.repeat)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.binary(min_size=32, max_size=32))
def test_observing_changes_no_result_and_right_results_pass(seed: int, randomness: bytes) -> None:
    b = bound(seed)
    chosen = sample.choose(b.program, b.repeat, randomness)
    results = executed(b, chosen)
    sample.recheck(b, chosen, results, randomness)
    plain, separated = (
        reference.execute(b.program, b.tensors, b.variables, b.repeat),
        sample.separate(b.program, results),
    )
    for right, given_out in ((plain.outputs, separated.outputs), (plain.states, separated.states)):
        assert right.keys() == given_out.keys()
        assert all(right[name].tobytes() == given_out[name].tobytes() for name in right)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.binary(min_size=32, max_size=32), st.randoms(use_true_random=False))
def test_a_flipped_bit_in_a_sampled_element_is_found(seed: int, randomness: bytes, random: Random) -> None:
    b = bound(seed)
    chosen = sample.choose(b.program, b.repeat, randomness)
    results = executed(b, chosen)
    written = [len(b.program.buffers) + call for call in chosen.calls]
    small = [n for n in written if 0 < b.program.parameter(n).elements <= sample.ELEMENTS]
    if not small:
        return
    buffer = random.choice(small)
    name = chosen.names[buffer]
    wrong = np.array(results.outputs[name])
    bits = wrong.reshape(-1).view(np.uint8)
    bits[random.randrange(bits.size)] ^= 1
    results.outputs[name] = wrong
    with pytest.raises(WrongBits, match="instead of"):
        sample.recheck(b, chosen, results, randomness)


def test_every_seed_chooses_a_result_and_the_same_seed_the_same_calls() -> None:
    b = next(b for b in map(bound, range(100)) if b.repeat == 1 and len(b.program.calls) > 3)
    results = {r.buffer - len(b.program.buffers) for r in b.program.results}
    for n in range(20):
        chosen = sample.choose(b.program, 1, bytes([n]))
        assert chosen == sample.choose(b.program, 1, bytes([n]))
        assert results & set(chosen.calls)
    assert len({sample.choose(b.program, 1, bytes([n])).calls for n in range(20)}) > 1


def test_a_calls_operands_that_do_not_fit_are_not_given_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "BYTES", 0)
    b = next(b for b in map(bound, range(100)) if all(r.shape for r in b.program.results))
    chosen = sample.choose(b.program, b.repeat, b"")
    assert all(b.program.parameter(n).elements == 0 for n in chosen.names)


@pytest.mark.parametrize("name", ["~", "~0~", "~" * 128])
def test_names_of_observed_buffers_never_meet_the_programs_own(name: str) -> None:
    b = next(b for b in map(bound, range(100)) if b.repeat == 1 and len(b.program.outputs) == 1)
    results = tuple(r._replace(name=name) if r.kind is Kind.OUTPUT else r for r in b.program.results)
    renamed = replace(b.program, results=results)
    chosen = sample.choose(renamed, 1, b"")
    assert chosen.names
    check(sample.observed(renamed, chosen))
    assert name not in chosen.names.values()
