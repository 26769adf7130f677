"""How a program multiplies weights of eight bits, told from its bodies alone."""

import numpy as np
import pytest
from tinygrad import Tensor

from eigentensor.capture import capture
from eigentensor.program.products import products
from eigentensor_models.matrices import DTYPES, Blocks
from eigentensor_models.quantised import KINDS


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_integers_are_told_from_floats(kind: str) -> None:
    columns, found = 2 * KINDS[kind].elements, []
    split = KINDS[kind].split(np.zeros((3, 2 * KINDS[kind].bytes), np.uint8), (3, columns))
    weights = {name: Tensor.empty(*part.shape, dtype=DTYPES[part.dtype]) for name, part in split.parts("w").items()}
    fields = {name.removeprefix("w."): tensor for name, tensor in weights.items()}
    for integer in (False, True):
        graph = capture(Blocks(kind, fields, integer).product, {"x": np.zeros((1, columns), np.float32)}, weights)
        found.append(products(graph.program))
    assert found == ["floats", "integers"]


def test_what_has_no_such_weights_or_only_reads_rows_of_them_is_neither() -> None:
    table = Tensor.empty(5, 4, dtype="int8")
    rows = capture(lambda numbers: table[numbers], {"numbers": np.zeros(2, np.int32)}, {"table": table})
    plain = capture(lambda a, b: a @ b, dict.fromkeys("ab", np.zeros((2, 2), np.float32)))
    assert products(plain.program) is None and products(rows.program) is None
