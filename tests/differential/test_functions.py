"""The functions that capture expands, executed fast: the reference's bits on operands of every binade."""

from pathlib import Path

import numpy as np
import pytest

from eigentensor.cache import Cache
from eigentensor.lowering import functions
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from support.generated.edges import edges, held
from support.oracles.accuracy import program_of
from support.oracles.agreement import disagreements


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32], ids=lambda x: x.name)
@pytest.mark.parametrize("name", functions.__all__)
def test_a_function_has_the_reference_s_bits_when_executed_fast(name: str, dtype: DType, tmp_path: Path) -> None:
    spread = np.random.default_rng(4).integers(0, 1 << 8 * dtype.size, 1 << 14).astype(f"u{dtype.size}")
    x = np.concatenate([spread.view(STORAGE[dtype]), held(dtype, edges(dtype))])
    operands = ("x", "e") if name == "power" else ("x",)
    tensors = {operand: np.roll(x, place * 7) for place, operand in enumerate(operands)}
    assert disagreements(program_of(name, x.size, dtype, operands), tensors, cache=Cache(tmp_path)) == []
