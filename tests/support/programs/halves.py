"""A program over every pattern of the half types."""

import numpy as np

from eigentensor.numerics.dtypes import DType
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Axis, Node, binary, counter, load, node, to_body
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.program.ops import Op

F16, BF16, F32 = DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32
PATTERNS = 1 << 16


def halves() -> tuple[Program, dict[str, np.ndarray]]:
    """All patterns of both types, and float32 values around each and around each middle between two."""
    pattern = np.arange(PATTERNS, dtype=np.uint32)
    singles = [(pattern << 16) + d for d in (0x7FFF, 0x8000, 0x8001)]
    singles += [(pattern << 13) + base + d for base in (0x32000000, 0x47000000) for d in (0xFFF, 0x1000, 0x1001)]
    tensors: dict[str, np.ndarray] = {
        "f16": pattern.astype(np.uint16).view(np.float16), "bf16": pattern.astype(np.uint16),
        "f32": np.concatenate(singles).view(np.float32),
    }  # fmt: skip
    types = {"f16": F16, "bf16": BF16, "f32": F32}
    buffers = {name: Buffer(Role.INPUT, types[name], array.shape, name) for name, array in tensors.items()}
    values: dict[str, tuple[Node, Axis]] = {}
    for name, dtype in types.items():
        axis = Axis(len(values), tensors[name].size)
        x = load(Array(name, dtype, axis.extent), counter(axis))
        for target in types.values():
            values[f"{name}_to_{target.name}"] = node(Op.CAST, target, x), axis
        values[f"{name}_squared"] = binary(Op.MUL, x, x), axis
        values[f"{name}_largest"] = binary(Op.MAX, x, x), axis
    calls = [(key, to_body(value, (axis,))) for key, (value, axis) in values.items()]
    results = {(Kind.OUTPUT, key): (key, (axis.extent,)) for key, (_, axis) in values.items()}
    return assemble(calls, buffers, results), tensors
