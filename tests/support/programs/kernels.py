"""Kernels alone: executed by the reference, as the program that they are."""

import numpy as np

from eigentensor import reference
from eigentensor.lowering.kernel import Kernel
from eigentensor.lowering.limits import lowered
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array
from eigentensor.program.model import Buffer, Kind, Role, Variable
from eigentensor.program.ops import DType

F32 = DType.FLOAT32


def run(kernels: list[Kernel], variables: dict[str, int] | None = None, **inputs: np.ndarray) -> np.ndarray:
    """What the last kernel writes; arrays named by keyword come from outside."""
    outside = {name: Buffer(Role.INPUT, DType.FLOAT32, value.shape, name) for name, value in inputs.items()}
    last = kernels[-1].result
    program = assemble(
        [(k.result.key, lowered(k)) for k in kernels],
        outside,
        {(Kind.OUTPUT, "output"): (last.key, (last.elements,))},
        [Variable(name, 0, 7) for name in variables or {}],
    )
    return np.asarray(reference.execute(program, inputs, variables).outputs["output"])


def array(name: str, elements: int) -> Array:
    return Array(name, F32, elements)
