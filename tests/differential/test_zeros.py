"""Comparing with a zero and choosing a zero, of either sign: no compiler may take one for the other."""

import pytest

from eigentensor.numerics.dtypes import DType
from support.campaigns.device_cases import usable
from support.oracles.agreement import disagreements
from support.programs.zeros import example


def agree(device: str, dtype: DType, first: int, count: int) -> None:
    made = example(dtype, first, count)
    assert disagreements(made.program, made.tensors, device=usable(device)) == []


@pytest.mark.parametrize("device", ["CPU", "CPU:LLVM", pytest.param("CL", marks=pytest.mark.slow)])
def test_a_zero_keeps_its_sign(device: str) -> None:
    agree(device, DType.FLOAT32, 6, 12)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("device", ["CPU", "CPU:LLVM", "CL", pytest.param("CUDA", marks=pytest.mark.gpu)])
def test_a_zero_keeps_its_sign_in_every_type_and_form(device: str, dtype: DType) -> None:
    agree(device, dtype, 0, 1000)
