"""Programs that take long: of a thousand calls, each of which writes a mebibyte; of one that nobody sees the end of."""

from typing import Any

import numpy as np

from eigentensor.numerics.dtypes import DType
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Axis, Node, binary, const, counter, load, node, reduction, to_body
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.program.ops import Op
from support.generated.programs import Example

F32, INDEX = DType.FLOAT32, DType.INDEX
WIDTH = 512
WEIGHTS = 4


def example(layers: int = 500, width: int = WIDTH) -> Example:
    """y ← max(y + y·w, 0) so many times, two calls each, with one of a few weights in turn."""
    i, j, k = Axis(0, width), Axis(1, width), Axis(2, width, is_reduce=True)
    size = width * width

    def at(of: Array, row: Axis, column: Axis) -> Node:
        return load(of, binary(Op.ADD, binary(Op.MUL, counter(row), const(INDEX, width)), counter(column)))

    def array(key: object) -> Array:
        return Array(key, F32, size)

    calls: list[tuple[Any, Any]] = []
    before: object = "x"
    for n in range(layers):
        product = reduction(Op.REDUCE_MULACC, (k,), at(array(before), i, k), at(array(f"w{n % WEIGHTS}"), k, j))
        calls.append((("product", n), to_body(product, (i, j))))
        total = binary(Op.ADD, at(array(before), i, j), at(array(("product", n)), i, j))
        calls.append((("layer", n), to_body(binary(Op.MAX, total, const(F32, 0)), (i, j))))
        before = ("layer", n)
    names = {"x": Role.INPUT} | {f"w{n}": Role.WEIGHT for n in range(min(WEIGHTS, layers))}
    buffers = {name: Buffer(role, F32, (width, width), name) for name, role in names.items()}
    program: Program = assemble(calls, buffers, {(Kind.OUTPUT, "y"): (before, (width, width))})
    random = np.random.default_rng(5)
    tensors = {name: random.standard_normal((width, width), dtype=np.float32) / (1 << 10) for name in names}
    return Example(program, {name: tensor.astype(np.float32) for name, tensor in tensors.items()}, {}, 1)


def endless() -> Program:
    """2⁴⁰ dependent steps: valid, and longer than anybody waits."""
    axes = tuple(Axis(i, 1 << 10, is_reduce=True) for i in range(4))
    place = counter(axes[0])
    for axis in axes[1:]:
        place = binary(Op.ADD, binary(Op.MUL, place, const(INDEX, 3)), counter(axis))
    body = to_body(reduction(Op.REDUCE_ADD, axes, node(Op.CAST, F32, place)), ())
    return assemble([("sum", body)], {}, {(Kind.OUTPUT, "y"): ("sum", ())})
