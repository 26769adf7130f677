"""Shapes and loops at the edges: what is admitted can be executed, whatever is empty beside what is huge."""

from math import prod

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eigentensor import reference
from eigentensor.errors import ProgramError
from eigentensor.program import decode, encode
from eigentensor.program.assemble import assemble
from eigentensor.program.cost import costs
from eigentensor.program.expression import Array, Axis, Node, const, load, reduction, to_body
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.program.ops import DType, Op
from eigentensor.runtime import CompiledGraph

HUGE = (1 << 32) - 1
Shape = tuple[int, ...]
shapes = st.lists(st.sampled_from([0, 0, 1, 2, 3, 1 << 16, HUGE]), max_size=8).map(tuple)
loops = st.lists(st.sampled_from([0, 0, 1, 2, 5, HUGE, 1 << 61]), max_size=3).map(tuple)


@given(shapes, loops, shapes)
@example((0, HUGE, HUGE), (), ())  # admitted once: 101 bytes that every operator accepted and none could execute
@example((2,), (0, 1 << 61, 1 << 61), ())
@example((0, 0, HUGE, HUGE), (2,), (0, HUGE, HUGE))
def test_what_is_admitted_can_be_executed(written: Shape, steps: Shape, read: Shape) -> None:
    try:
        program = program_of(written, steps, read)
    except ProgramError:
        return
    assert decode(encode(program)) == program
    if prod(written) > 1 << 17 or prod(read) > 1 << 17 or costs(program).evaluations > 1 << 20:
        return
    inputs = {"x": np.ones(read, np.float32)}
    expected = reference.execute(program, inputs).outputs
    outputs = CompiledGraph(program).run(inputs).outputs
    for name, tensor in expected.items():
        assert tensor.shape == written == outputs[name].shape
        assert tensor.tobytes() == outputs[name].tobytes()


@pytest.mark.parametrize("shape", [(0, HUGE, HUGE), (HUGE, 0, 2), (1 << 16, 1 << 16, 0, 2)])
def test_the_product_of_what_is_not_zero_is_bounded(shape: Shape) -> None:
    for written, read, flat in ((shape, (), False), ((), shape, False), (shape, (), True)):
        with pytest.raises(ProgramError) as refusal:
            program_of(written, (2,), read, flat=flat)
        assert refusal.value.rule == "limits"


def program_of(written: Shape, steps: Shape, read: Shape, *, flat: bool = False) -> Program:
    """Sums of an input's first element, stored by a loop for each dimension or one for all. Raises RuleError."""
    axes = tuple(Axis(n, extent) for n, extent in enumerate((prod(written),) if flat else written) if extent != 1)
    over = tuple(Axis(n + 8, extent, is_reduce=True) for n, extent in enumerate(steps) if extent != 1)
    x, zero = Array("x", DType.FLOAT32, prod(read)), const(DType.INDEX, 0)
    value: Node = load(x, zero, const(DType.BOOL, 0)) if not prod(read) else load(x, zero)
    if over:
        value = reduction(Op.REDUCE_ADD, over, value)
    calls = [("y", to_body(value, axes))]
    return assemble(calls, {"x": Buffer(Role.INPUT, DType.FLOAT32, read, "x")}, {(Kind.OUTPUT, "y"): ("y", written)})
