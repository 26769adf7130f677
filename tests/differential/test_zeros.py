"""Comparing with a zero and choosing a zero, of either sign: no compiler may take one for the other."""

from itertools import product

import numpy as np
import pytest

from eigentensor.numerics.dtypes import DType
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Axis, Node, binary, const, counter, load, node, to_body
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.program.ops import Op
from support.campaigns.device_cases import usable
from support.generated.edges import edges, held
from support.oracles.agreement import disagreements

COMPARED = (Op.CMPLT, Op.CMPEQ, Op.CMPNE)


def choices(dtype: DType, x: Node) -> list[Node]:
    """op(x, ±0) ? ±0 : x, with the operands and the arms in either order, two tests joined, and extrema."""
    minus = 1 << 8 * dtype.size - 1
    zeros = [const(dtype, 0), const(dtype, minus), binary(Op.MUL, const(dtype, 0), const(dtype, minus | 1))]
    nodes = [binary(op, x, zero) for op in (Op.MAX, Op.MIN) for zero in zeros]
    for op, compared, chosen in product(COMPARED, zeros, zeros):
        for test in (binary(op, x, compared), binary(op, compared, x)):
            joined = binary(Op.AND, test, binary(Op.CMPLT, x, const(dtype, minus // 4 * 3)))
            nodes += [
                node(Op.WHERE, dtype, *arms) for arms in ((test, chosen, x), (test, x, chosen), (joined, chosen, x))
            ]
    return nodes


def program(dtype: DType, size: int, first: int, count: int) -> Program:
    axis = Axis(0, size)
    x = load(Array("x", dtype, size), counter(axis))
    ways = (x, node(Op.TRUNC, dtype, x))  # what is in a register goes other ways than what was just loaded
    chosen = [choice for way in ways for choice in choices(dtype, way)[first : first + count]]
    calls = [(f"y{n}", to_body(value, (axis,))) for n, value in enumerate(chosen)]
    outputs = {(Kind.OUTPUT, key): (key, (size,)) for key, _ in calls}
    return assemble(calls, {"x": Buffer(Role.INPUT, dtype, (size,), "x")}, outputs)


def agree(device: str, dtype: DType, first: int, count: int) -> None:
    x = np.resize(held(dtype, edges(dtype)), 64)
    assert disagreements(program(dtype, x.size, first, count), {"x": x}, device=usable(device)) == []


@pytest.mark.parametrize("device", ["CPU", "CPU:LLVM", pytest.param("CL", marks=pytest.mark.slow)])
def test_a_zero_keeps_its_sign(device: str) -> None:
    agree(device, DType.FLOAT32, 6, 12)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("device", ["CPU", "CPU:LLVM", "CL", pytest.param("CUDA", marks=pytest.mark.gpu)])
def test_a_zero_keeps_its_sign_in_every_type_and_form(device: str, dtype: DType) -> None:
    agree(device, dtype, 0, 1000)
