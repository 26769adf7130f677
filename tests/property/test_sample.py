"""The sample that is rechecked of a result: it changes nothing, and finds a wrong bit where it looks."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor import reference
from eigentensor.errors import WrongBits
from eigentensor.numerics.conversion import cast
from eigentensor.program.ops import DType, Op
from eigentensor.reexecution import chains, sample
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


def long_reduction(op: Op, dtype: DType, steps: int) -> BoundProgram:
    """With infinities and NaN where the type has them."""
    shape, random = (chains.STEPS, chains.LANES), np.random.default_rng(steps)
    values = [cast(DType.FLOAT32, dtype, random.standard_normal(shape, dtype=np.float32)) for _ in range(2)]
    if dtype is DType.FLOAT32:
        values[0][[7, 8, 90], [3, 3, 5]] = np.inf, -np.inf, np.nan
    program = chains.chains_of(op, dtype)
    tensors = {b.name: array for b, array in zip(program.buffers, values, strict=False)}
    return BoundProgram(program, (), tensors, {"steps": steps}, 1)


@pytest.mark.parametrize(
    ("op", "dtype", "steps"),
    [
        (Op.REDUCE_MULACC, DType.FLOAT32, 600),
        (Op.REDUCE_ADD, DType.FLOAT32, sample.LONG),
        (Op.REDUCE_MAX, DType.FLOAT32, 200),
        (Op.REDUCE_ADD, DType.FLOAT16, 200),
        (Op.REDUCE_ADD, DType.INT32, 200),
    ],
)
def test_long_reductions_are_rechecked_by_a_kernel(
    op: Op, dtype: DType, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right results pass, a wrong bit of a result is found, and so is one of the kernel within the interval."""
    b, chosen = long_reduction(op, dtype, steps), sample.Sample((0,), (0,))
    right = reference.execute(b.program, b.tensors, b.variables).outputs["total"]
    taken = 0
    totals = chains.Chain.totals

    def counted(self: chains.Chain, *arguments: Any) -> list[np.ndarray]:
        nonlocal taken
        taken += 1
        return totals(self, *arguments)

    monkeypatch.setattr(chains.Chain, "totals", counted)
    for seed in range(3):
        sample.recheck(b, chosen, {0: right}, bytes([seed]))
    assert taken == (3 if chains.chain(op, dtype) else 0)
    wrong = right.copy()
    wrong[11:12].view(np.uint8)[0] ^= 1
    with pytest.raises(WrongBits, match="element 11"):
        sample.recheck(b, chosen, {0: wrong}, b"")
    if not taken:
        return

    def erring(self: chains.Chain, terms: Any, counts: Any) -> list[np.ndarray]:
        before, after, last = totals(self, terms, counts)
        after[2:3].view(np.uint8)[0] ^= 1
        return [before, after, last]

    monkeypatch.setattr(chains.Chain, "totals", erring)
    with pytest.raises(WrongBits, match="a kernel errs"):
        sample.recheck(b, chosen, {0: right}, b"")
