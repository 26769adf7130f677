"""The committed answers: fresh, and those of the operations."""

import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigentensor.numerics import conversion
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.floats import patterns
from eigentensor.numerics.operations import OPERATIONS
from eigentensor.program.ops import COMPARISONS, Op
from support.generated.edges import held

TESTS = Path(__file__).parents[1]
VECTORS = TESTS / "vectors" / "numerics.json"
CELLS: list[dict[str, Any]] = json.loads(VECTORS.read_text())["cells"]


def test_the_vectors_are_those_of_the_exact_model() -> None:
    assert VECTORS.read_text() == runpy.run_path(str(TESTS / "support/vectors/numerics.py"))["text"]()


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell["name"])
def test_the_operations_give_the_committed_answers(cell: dict[str, Any]) -> None:
    op, source, target = Op(cell["op"]), DType(cell["source"]), DType(cell["dtype"])
    operands = [held(source, [int(pattern, 16) for pattern in column]) for column in cell["operands"]]
    if op in (Op.CAST, Op.BITCAST):
        answer = (conversion.cast if op is Op.CAST else conversion.bitcast)(source, target, operands[0])
    else:
        answer = OPERATIONS[op.name](target, *operands)
    result = DType.BOOL if op in COMPARISONS else target
    answers = [hex(pattern) for pattern in patterns(result, np.ascontiguousarray(answer)).tolist()]
    assert answers == cell["results"]
