"""The referee's scalar operations, as bytecode on a chain, against `eigentensor.numerics`: all operations and types."""

import json
import subprocess
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eigentensor.numerics import conversion
from eigentensor.numerics.dtypes import STORAGE, DType
from eigentensor.numerics.floats import canonical, patterns
from eigentensor.numerics.operations import OPERATIONS
from eigentensor.program.ops import ARITY, COMPARISONS, Op
from eigentensor.program.signatures import mismatch
from eigentensor.testing.edges import CELLS, edges
from eigentensor.testing.localnet import CONTRACTS, Anvil, start_anvil, tool

Words = NDArray[np.uint64]
Cell = tuple[Op, DType, DType]

CONVERSIONS = [
    (op, source, target)
    for op, source, target in product((Op.CAST, Op.BITCAST), DType, DType)
    if not mismatch(op, target, [source])
]
ALL: list[Cell] = [*((op, t, t) for op, t in CELLS), *((Op.WHERE, t, t) for t in DType), *CONVERSIONS]
#: Cells of one half operand, and those of them in which something is rounded or widened.
HALVES = [cell for cell in ALL if ARITY[cell[0]] == 1 and cell[1] in (DType.FLOAT16, DType.BFLOAT16)]
ROUNDED = [cell for cell in HALVES if cell[0] is not Op.BITCAST and cell[2].is_float]
EVERY_HALF = np.arange(1 << 16, dtype=np.uint64)[:, None]
ONE_CALL = 20_000  #: evaluations


class Referee:
    """The contract of the tests that gives the operations an outside, on a chain."""

    def __init__(self, anvil: Anvil, abi: Any, code: str) -> None:
        address = anvil.web3.to_checksum_address(anvil.web3.keccak(text=code)[:20])
        self.functions = anvil.web3.eth.contract(address, abi=abi).functions
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
def built() -> Any:
    subprocess.run([tool("forge"), "build", "test/ScalarBatch.sol"], cwd=CONTRACTS, check=True, capture_output=True)
    return json.loads((CONTRACTS / "out" / "ScalarBatch.sol" / "ScalarBatch.json").read_text())


@pytest.fixture(scope="module")
def referee(anvil: Anvil, built: Any) -> Referee:
    return Referee(anvil, built["abi"], built["deployedBytecode"]["object"])


def values(dtype: DType, words: Words) -> NDArray[Any]:
    """Elements with these bits."""
    return words.astype(f"u{dtype.size}").view(STORAGE[dtype])


def expected(cell: Cell, operands: Words) -> Words:
    """What a store writes of the results, by `numerics`."""
    op, source, target = cell
    if op in (Op.CAST, Op.BITCAST):
        convert = conversion.cast if op is Op.CAST else conversion.bitcast
        result = convert(source, target, values(source, operands[:, 0]))
    else:
        types = (DType.BOOL, target, target) if op is Op.WHERE else (target,) * 3
        columns = (values(t, column) for t, column in zip(types, operands.T, strict=False))
        result = OPERATIONS[op.name](target, *columns)
    stored = DType.BOOL if op in COMPARISONS else target
    return patterns(stored, np.ascontiguousarray(canonical(stored, result))).astype(np.uint64)


def types_of(cell: Cell) -> list[DType]:
    op, source, _ = cell
    return [DType.BOOL, source, source] if op is Op.WHERE else [source] * ARITY[op]


def on_edges(cell: Cell, most: int) -> Words:
    """All combinations of edges, or so many of them."""
    pools = [np.array(edges(dtype), np.uint64) for dtype in types_of(cell)]
    sizes = [len(pool) for pool in pools]
    count = int(np.prod(sizes))
    chosen = np.random.default_rng(0).permutation(count)[:most]
    return np.stack([pool[i] for pool, i in zip(pools, np.unravel_index(chosen, sizes), strict=True)], 1)


def at_random(cell: Cell, count: int, seed: int) -> Words:
    """Patterns of all kinds; a quarter of the sums of floats cancel or nearly so."""
    random = np.random.default_rng([seed, *map(int, cell)])
    columns = [_patterns(random, dtype, count) for dtype in types_of(cell)]
    dtype = cell[1]
    if dtype.is_float and len(columns) > 1:
        factors = (values(dtype, column) for column in columns[:2])
        other = columns[0] if len(columns) == 2 else patterns(dtype, OPERATIONS["MUL"](dtype, *factors))
        sign = 1 << 8 * dtype.size - 1
        near = (other.astype(np.int64) ^ sign) + (random.integers(-9, 10, count) << random.integers(0, 9, count))
        columns[-1] = np.where(random.integers(0, 4, count) == 0, near.astype(np.uint64) & (2 * sign - 1), columns[-1])
    return np.stack(columns, 1)


def _patterns(random: np.random.Generator, dtype: DType, count: int) -> Words:
    """Uniform, of few bits, short, edges."""
    if dtype is DType.BOOL:
        return random.integers(0, 2, count, np.uint64)
    # no product of indices leaves the range that is proven of them
    width = 31 if dtype is DType.INDEX else 8 * dtype.size
    uniform, one, two = (random.integers(0, 1 << width, count, np.uint64) for _ in range(3))
    short = uniform >> random.integers(0, width, count, np.uint64)
    edge = random.choice(np.array(edges(dtype), np.uint64), count)
    return np.choose(random.integers(0, 5, count), [uniform, uniform, uniform & one & two, short, edge])


def assert_same(referee: Referee, cell: Cell, operands: Words) -> None:
    ours, theirs = expected(cell, operands), referee.evaluate(cell, operands)
    wrong = np.flatnonzero(ours != theirs)
    shown = [(list(map(hex, operands[i].tolist())), hex(theirs[i]), hex(ours[i])) for i in wrong[:5]]
    assert not len(wrong), f"{name(cell)}: {len(wrong)} wrong, (operands, referee, numerics): {shown}"


def name(cell: Cell) -> str:
    op, source, target = cell
    return f"{op.name} {source.name}" + (f" {target.name}" if op in (Op.CAST, Op.BITCAST) else "")


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
def test_a_flipped_bit_of_the_code_is_seen(anvil: Anvil, built: Any, op: Op, right: str, wrong: str) -> None:
    code = built["deployedBytecode"]["object"]
    assert right in code
    cell = (op, DType.FLOAT32, DType.FLOAT32)
    with pytest.raises(AssertionError, match="wrong"):
        assert_same(Referee(anvil, built["abi"], code.replace(right, wrong)), cell, on_edges(cell, 400))


@pytest.mark.slow
@pytest.mark.parametrize("cell", ALL, ids=name)
def test_a_hundred_thousand_evaluations_of_an_operation_give_the_bits_of_numerics(referee: Referee, cell: Cell) -> None:
    if cell in HALVES:
        assert_same(referee, cell, EVERY_HALF)
    else:
        assert_same(referee, cell, np.concatenate([on_edges(cell, 50_000), at_random(cell, 100_000, seed=3)]))


@pytest.mark.slow
@pytest.mark.parametrize("first", [0x3F800000, 0x40000000], ids=["odd exponents", "even exponents"])
def test_every_root_of_two_binades_gives_the_bits_of_numerics(referee: Referee, first: int) -> None:
    cell = (Op.SQRT, DType.FLOAT32, DType.FLOAT32)
    for start in range(first, first + (1 << 23), 1 << 20):
        assert_same(referee, cell, np.arange(start, start + (1 << 20), dtype=np.uint64)[:, None])
