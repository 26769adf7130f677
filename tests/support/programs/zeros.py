"""Programs that compare with a zero and choose a zero, of either sign."""

from itertools import product

import numpy as np

from eigentensor.numerics.dtypes import DType
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Axis, Node, binary, const, counter, load, node, to_body
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.program.ops import Op
from support.generated.edges import edges, held
from support.generated.programs import Example

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


def example(dtype: DType, first: int, count: int) -> Example:
    """So many of the choices, each a call on the borders of a float type."""
    x = np.resize(held(dtype, edges(dtype)), 64)
    return Example(program(dtype, x.size, first, count), {"x": x}, {}, 1)


def program(dtype: DType, size: int, first: int, count: int) -> Program:
    axis = Axis(0, size)
    x = load(Array("x", dtype, size), counter(axis))
    ways = (x, node(Op.TRUNC, dtype, x))  # what is in a register goes other ways than what was just loaded
    chosen = [choice for way in ways for choice in choices(dtype, way)[first : first + count]]
    calls = [(f"y{n}", to_body(value, (axis,))) for n, value in enumerate(chosen)]
    outputs = {(Kind.OUTPUT, key): (key, (size,)) for key, _ in calls}
    return assemble(calls, {"x": Buffer(Role.INPUT, dtype, (size,), "x")}, outputs)
