"""How a program multiplies weights of eight bits, told from its bodies alone."""

from dataclasses import replace

import numpy as np
import pytest
from tinygrad import Tensor

from eigentensor.capture import capture
from eigentensor.program.products import products
from eigentensor_models.matrices import DTYPES, matrix_of
from eigentensor_models.quantised import KINDS


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_integers_are_told_from_floats(kind: str) -> None:
    columns, found = 2 * KINDS[kind].elements, []
    plain = KINDS[kind].split(np.zeros((16, 2 * KINDS[kind].bytes), np.uint8), (16, columns))
    for kept in (plain, replace(plain, beside=True)):
        weights = {n: Tensor.empty(*part.shape, dtype=DTYPES[part.dtype]) for n, part in kept.parts("w").items()}
        matrix = matrix_of("w", kept, weights)
        graph = capture(matrix.product, {"x": np.zeros((1, columns), np.float32)}, weights)
        found.append(products(graph.program))
    assert found == ["floats", "integers"]


def test_what_has_no_such_weights_or_only_reads_rows_of_them_is_neither() -> None:
    table = Tensor.empty(5, 4, dtype="int8")
    rows = capture(lambda numbers: table[numbers], {"numbers": np.zeros(2, np.int32)}, {"table": table})
    plain = capture(lambda a, b: a @ b, dict.fromkeys("ab", np.zeros((2, 2), np.float32)))
    assert products(plain.program) is None and products(rows.program) is None
