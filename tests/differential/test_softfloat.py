"""The float operations in whole numbers, many at once: equal to those one at a time, and to what this machine does."""

import numpy as np
import pytest

from eigentensor.numerics import exact
from eigentensor.numerics.dtypes import DType
from eigentensor.program.ops import ARITY, Op
from support.oracles import softfloat
from support.programs.scalar_cells import EVERY_HALF, FLOATS, Cell, Words, at_random, difference, name, on_edges

PORTION = 1 << 18  #: values that stay in a cache
MANY = 100_000_000
#: Of float32 in which something is rounded, chosen or cut off, and rounded conversions to and from it.
ROUNDED = [
    cell for cell in FLOATS if DType.FLOAT32 in cell[1:] and (cell[0] is not Op.CAST or cell[2] is not DType.BOOL)
]


def computed(cell: Cell, operands: Words) -> Words:
    op, source, target = cell
    columns = [np.ascontiguousarray(column) for column in operands.T]
    if op is Op.CAST:
        return softfloat.cast(source, target, *columns)
    return softfloat.evaluate(op.name, target, *columns)


def one_at_a_time(cell: Cell, operands: Words) -> list[int]:
    op, source, target = cell
    rows = (map(int, row) for row in operands)
    if op is Op.CAST:
        return [exact.cast(source, target, *row) for row in rows]
    return [exact.evaluate(op.name, target, *row) for row in rows]


@pytest.mark.parametrize("cell", FLOATS, ids=name)
def test_side_by_side_is_one_at_a_time(cell: Cell) -> None:
    operands = np.concatenate([on_edges(cell, 300), at_random(cell, 200, seed=1)])
    assert computed(cell, operands).tolist() == one_at_a_time(cell, operands)


@pytest.mark.parametrize("cell", FLOATS, ids=name)
def test_this_machine_gives_the_same_bits(cell: Cell) -> None:
    operands = np.concatenate([on_edges(cell, 5_000), at_random(cell, 5_000, seed=2)])
    assert not (wrong := difference(cell, operands, computed(cell, operands))), wrong


def test_a_sum_that_cancels_down_to_its_last_bit() -> None:
    one, two = 0x3F800001, 0x40000001  # the products' lowest bit is all that remains
    operands = np.array([(two, one | 1 << 31, 0x40000002), (0x7F7FFFFF, 0x807FFFFF, 0x407FFFFD)], np.uint64)
    cell = (Op.MULACC, DType.FLOAT32, DType.FLOAT32)
    assert computed(cell, operands).tolist() == one_at_a_time(cell, operands) == [0xA9000000, 0xA9000000]


@pytest.mark.parametrize("op", [Op.ADD, Op.MULACC, Op.SQRT], ids=lambda op: op.name)
def test_a_wrong_rounding_is_seen(op: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = (op, DType.FLOAT32, DType.FLOAT32)
    operands = on_edges(cell, 5_000)
    monkeypatch.setattr(softfloat, "_halved", lambda m, down: m >> down.astype(np.uint64))  # never upwards
    assert difference(cell, operands, computed(cell, operands))


@pytest.mark.slow
@pytest.mark.parametrize("cell", FLOATS, ids=name)
def test_side_by_side_is_one_at_a_time_on_many_values(cell: Cell) -> None:
    if ARITY[cell[0]] == 1 and cell[1].size == 2:
        operands = EVERY_HALF
    else:
        operands = np.concatenate([on_edges(cell, 15_000), at_random(cell, 15_000, seed=3)])
    assert computed(cell, operands).tolist() == one_at_a_time(cell, operands)


@pytest.mark.slow
@pytest.mark.parametrize("cell", ROUNDED, ids=name)
def test_this_machine_gives_the_same_bits_on_a_hundred_million_values(cell: Cell) -> None:
    for seed in range(-(-MANY // PORTION)):
        operands = at_random(cell, PORTION, seed=10 + seed)
        assert not (wrong := difference(cell, operands, computed(cell, operands))), wrong
