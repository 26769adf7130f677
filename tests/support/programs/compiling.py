"""Programs that are small and valid, and take a compiler very long."""

from random import Random

from eigentensor.numerics.dtypes import DType
from eigentensor.program import Program
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Axis, Node, binary, const, counter, load, node, reduction, to_body
from eigentensor.program.model import Buffer, Kind, Role
from eigentensor.program.ops import Op

ROWS, COLUMNS = 256, 64
ELEMENTS = ROWS * COLUMNS


def hostile_program(bodies: int, instructions: int, dtype: DType = DType.FLOAT16, seed: int = 0) -> Program:
    """Different bodies, each with a sum over a long chain of products, quotients and casts there and back."""
    calls = [(n, to_body(_chain(dtype, instructions, Random(f"{seed} {n}")), (Axis(0, ROWS),))) for n in range(bodies)]
    results = {(Kind.OUTPUT, f"y{n}"): (n, (ROWS,)) for n in range(bodies)}
    return assemble(calls, {"x": Buffer(Role.INPUT, dtype, (ELEMENTS,), "x")}, results)


def _chain(dtype: DType, length: int, random: Random) -> Node:
    step = Axis(1, COLUMNS, is_reduce=True)
    place = binary(Op.ADD, binary(Op.MUL, counter(Axis(0, ROWS)), const(DType.INDEX, COLUMNS)), counter(step))
    values = [load(Array("x", dtype, ELEMENTS), place)]
    while len(values) < length:
        value = binary(random.choice((Op.MUL, Op.DIV)), values[-1], random.choice(values[-40:]))
        there = random.choice((DType.UINT64, DType.BFLOAT16))
        values.append(node(Op.CAST, dtype, node(Op.CAST, there, value)) if random.random() < 0.5 else value)
    return reduction(Op.REDUCE_ADD, (step,), values[-1])
