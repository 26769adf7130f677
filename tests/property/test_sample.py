"""The sample that is rechecked of a result: it changes nothing, and finds a wrong bit where it looks."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor.errors import WrongBits
from eigentensor.reexecution import sample
from eigentensor.reexecution.inputs import BoundProgram
from eigentensor.tracing import retrace
from support.generated.programs import generate


def bound(seed: int) -> BoundProgram:
    example = generate(seed)
    return BoundProgram(example.program, (), example.tensors, example.variables, example.repeat)


def executed(b: BoundProgram, chosen: sample.Sample) -> dict[int, np.ndarray]:
    """The results of the executed calls that the sample keeps."""
    return dict(retrace(b.program, b.tensors, b.variables, b.repeat, keep=chosen.keep).kept)


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.binary(min_size=32, max_size=32))
def test_right_results_pass(seed: int, randomness: bytes) -> None:
    b = bound(seed)
    chosen = sample.choose(b.program, b.repeat, randomness)
    sample.recheck(b, chosen, executed(b, chosen), randomness)


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.binary(min_size=32, max_size=32), st.randoms(use_true_random=False))
def test_a_flipped_bit_in_a_sampled_element_is_found(seed: int, randomness: bytes, random: Random) -> None:
    b = bound(seed)
    chosen = sample.choose(b.program, b.repeat, randomness)
    kept = executed(b, chosen)
    last = (b.repeat - 1) * len(b.program.calls)
    small = [last + call for call in chosen.calls if 0 < kept[last + call].size <= sample.ELEMENTS]
    if not small:
        return
    number = random.choice(small)
    bits = kept[number].view(np.uint8)
    bits[random.randrange(bits.size)] ^= 1
    with pytest.raises(WrongBits, match="instead of"):
        sample.recheck(b, chosen, kept, randomness)


def test_every_seed_chooses_a_result_and_the_same_seed_the_same_calls() -> None:
    b = next(b for b in map(bound, range(100)) if b.repeat == 1 and len(b.program.calls) > 3)
    results = {r.buffer - len(b.program.buffers) for r in b.program.results}
    for n in range(20):
        chosen = sample.choose(b.program, 1, bytes([n]))
        assert chosen == sample.choose(b.program, 1, bytes([n]))
        assert results & set(chosen.calls)
    assert len({sample.choose(b.program, 1, bytes([n])).calls for n in range(20)}) > 1


def test_what_a_call_reads_is_not_kept_where_it_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "BYTES", 0)
    b = next(b for b in map(bound, range(100)) if all(r.shape for r in b.program.results))
    chosen = sample.choose(b.program, b.repeat, b"")
    first = len(b.program.buffers)
    assert all(b.program.parameter(first + n % len(b.program.calls)).elements == 0 for n in chosen.keep)
