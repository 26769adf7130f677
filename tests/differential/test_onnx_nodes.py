"""onnx's own node tests: each is right, or refused with a reason, as the committed table says."""

import pytest

from eigentensor.capture.onnx.registry import OPERATORS, full_name
from support.vectors.onnx import PARTS, cases, part_of, row, table

#: onnx has no node test of these: test_onnx_estimators.py has.
ESTIMATORS = {
    f"ai.onnx.ml.{name}"
    for name in (
        "LinearClassifier", "LinearRegressor", "Normalizer", "Scaler", "TreeEnsembleClassifier",
        "TreeEnsembleRegressor", "ZipMap",
    )
}  # fmt: skip
QUICK = 1  #: parts of the table that are computed anew each time


def test_the_table_has_every_node_test_and_none_is_wrong() -> None:
    rows = table()
    assert [r.test for r in rows] == sorted(cases())
    assert [r for r in rows if r.status not in ("passes", "refused")] == []
    assert sum(r.status == "passes" for r in rows) >= 1450
    assert all(r.reason for r in rows if r.status == "refused")


@pytest.mark.parametrize(
    "part", [pytest.param(i, marks=[] if i < QUICK else pytest.mark.slow, id=str(i)) for i in range(PARTS)]
)
def test_the_table_is_what_import_makes_of_the_tests(part: int) -> None:
    rows = [r for r in table() if part_of(r.test) == part]
    assert [row(cases()[r.test]) for r in rows] == rows


def test_every_operator_that_is_imported_is_held_by_a_node_test() -> None:
    models = [cases()[r.test].model for r in table() if r.status == "passes"]
    held = {full_name(node.op_type, node.domain) for model in models if model is not None for node in model.graph.node}
    assert OPERATORS.keys() - held == ESTIMATORS
