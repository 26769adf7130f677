"""Every public method of tinygrad's Tensor has its row in tests/vectors/ops.json, and the row is true."""

import json

import pytest
from tinygrad import Tensor

from support.programs.tensor_methods import EXAMPLES, NOT_COMPUTED, NOT_SCHEDULED
from support.vectors.ops import TABLE, Row, distance, row, rows

COMMITTED = [Row(**entry) for entry in json.loads(TABLE.read_text())]
CAPTURED = sorted(r.method for r in COMMITTED if r.status == "captured")
#: These read a value, or have a type, that no program with static shapes can have.
NOT_STATIC = {"data", "double", "item", "masked_select", "nonzero", "numpy", "tolist"}


def test_the_table_names_every_public_method() -> None:
    assert {r.method for r in COMMITTED} == {name for name in dir(Tensor) if not name.startswith("_")}
    assert len(COMMITTED) == len(EXAMPLES) + len(NOT_SCHEDULED) + sum(map(len, NOT_COMPUTED.values()))


def test_nine_of_ten_methods_that_compute_are_captured() -> None:
    computing = [r for r in COMMITTED if r.status != "not computed" and r.method not in NOT_STATIC]
    assert len(CAPTURED) >= 0.9 * len(computing)
    assert all(r.reason for r in COMMITTED if r.status != "captured")


def test_one_row_in_four_is_fresh() -> None:
    quick = sorted(method for method, example in EXAMPLES.items() if not example.slow)
    assert all(row(method) in COMMITTED for method in quick[::4])


@pytest.mark.slow
def test_the_table_is_fresh() -> None:
    slow = {method for method, example in EXAMPLES.items() if example.slow}
    assert rows(slow=False) == sorted(r for r in COMMITTED if r.method not in slow)


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(m for m, example in EXAMPLES.items() if example.slow))
def test_the_rows_that_take_long_are_fresh(method: str) -> None:
    assert row(method) in COMMITTED


@pytest.mark.slow
@pytest.mark.parametrize("method", [m for m in CAPTURED if not EXAMPLES[m].slow])
def test_the_reference_agrees_with_tinygrad(method: str) -> None:
    assert distance(EXAMPLES[method]) <= EXAMPLES[method].tolerance
