"""The referee's scalar operations, as bytecode on a chain, against `eigentensor.numerics`: all operations and types."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from eigentensor.numerics.dtypes import DType
from eigentensor.program.ops import Op
from eigentensor_local.anvil import Anvil, start_anvil
from support.formulas import built
from support.programs.scalar_cells import (
    ALL,
    EVERY_HALF,
    FLOATS,
    HALVES,
    ROUNDED,
    Cell,
    Words,
    at_random,
    difference,
    name,
    on_edges,
)
from support.web3 import web3_of

ONE_CALL = 20_000  #: evaluations
MILLION = 1_000_000


class Referee:
    """The contract of the tests that gives the operations an outside, on a chain."""

    def __init__(self, anvil: Anvil, abi: Any, code: str) -> None:
        address = web3_of(anvil).to_checksum_address(web3_of(anvil).keccak(text=code)[:20])
        self.functions = web3_of(anvil).eth.contract(address, abi=abi).functions
        anvil.rpc("anvil_setCode", address, code)

    def evaluate(self, cell: Cell, operands: Words) -> Words:
        """The results' patterns, for rows of operands' patterns (missing operands are 0)."""
        results = [self._call(cell, operands[i : i + ONE_CALL]) for i in range(0, len(operands), ONE_CALL)]
        return np.concatenate(results)

    def _call(self, cell: Cell, operands: Words) -> Words:
        words = np.zeros((len(operands), 3), ">u8")
        words[:, : operands.shape[1]] = operands
        results = self.functions.evaluate(*map(int, cell), words.tobytes()).call({"gas": 2**40})
        return np.frombuffer(results, ">u8").astype(np.uint64)


@pytest.fixture(scope="module")
def anvil() -> Iterator[Anvil]:
    with start_anvil() as anvil:
        yield anvil


@pytest.fixture(scope="module")
def contract() -> Any:
    return built("ScalarBatch")


@pytest.fixture(scope="module")
def referee(anvil: Anvil, contract: Any) -> Referee:
    return Referee(anvil, contract["abi"], contract["deployedBytecode"]["object"])


def assert_same(referee: Referee, cell: Cell, operands: Words) -> None:
    assert not (wrong := difference(cell, operands, referee.evaluate(cell, operands))), wrong


def test_every_operation_gives_the_bits_of_numerics_on_edges_and_at_random(referee: Referee) -> None:
    for cell in ALL:
        assert_same(referee, cell, np.concatenate([on_edges(cell, 400), at_random(cell, 100, seed=1)]))


@pytest.mark.parametrize("op", [Op.ADD, Op.MUL, Op.DIV, Op.MULACC, Op.SQRT, Op.MAX], ids=lambda op: op.name)
def test_float32_gives_the_bits_of_numerics_on_all_products_of_edges(referee: Referee, op: Op) -> None:
    cell = (op, DType.FLOAT32, DType.FLOAT32)
    assert_same(referee, cell, np.concatenate([on_edges(cell, 20_000), at_random(cell, 10_000, seed=2)]))


@pytest.mark.parametrize("cell", ROUNDED, ids=name)
def test_every_half_pattern_gives_the_bits_of_numerics(referee: Referee, cell: Cell) -> None:
    assert_same(referee, cell, EVERY_HALF)


@pytest.mark.parametrize(
    ("op", "right", "wrong"),
    [
        (Op.MUL, "637fc00000", "637fc00001"),
        (Op.ADD, "637f800000", "637f800001"),
        (Op.CMPEQ, "637fffffff", "637ffffffe"),
    ],
    ids=["another NaN", "a larger infinity", "a sign that covers a bit"],
)
def test_a_flipped_bit_of_the_code_is_seen(anvil: Anvil, contract: Any, op: Op, right: str, wrong: str) -> None:
    code = contract["deployedBytecode"]["object"]
    assert right in code
    cell = (op, DType.FLOAT32, DType.FLOAT32)
    with pytest.raises(AssertionError, match="wrong"):
        assert_same(Referee(anvil, contract["abi"], code.replace(right, wrong)), cell, on_edges(cell, 400))


@pytest.mark.slow
@pytest.mark.parametrize("cell", ALL, ids=name)
def test_a_hundred_thousand_evaluations_of_an_operation_give_the_bits_of_numerics(referee: Referee, cell: Cell) -> None:
    if cell in HALVES:
        assert_same(referee, cell, EVERY_HALF)
    elif cell not in FLOATS:
        assert_same(referee, cell, np.concatenate([on_edges(cell, 50_000), at_random(cell, 100_000, seed=3)]))


@pytest.mark.slow
@pytest.mark.parametrize("cell", [cell for cell in FLOATS if cell not in HALVES], ids=name)
def test_a_million_evaluations_of_floats_give_the_bits_of_this_machine(referee: Referee, cell: Cell) -> None:
    edges = on_edges(cell, MILLION // 2)
    assert_same(referee, cell, np.concatenate([edges, at_random(cell, MILLION - len(edges), seed=4)]))


@pytest.mark.slow
@pytest.mark.parametrize("first", [0x3F800000, 0x40000000], ids=["odd exponents", "even exponents"])
def test_every_root_of_two_binades_gives_the_bits_of_numerics(referee: Referee, first: int) -> None:
    cell = (Op.SQRT, DType.FLOAT32, DType.FLOAT32)
    for start in range(first, first + (1 << 23), 1 << 20):
        assert_same(referee, cell, np.arange(start, start + (1 << 20), dtype=np.uint64)[:, None])
