"""The functions that capture expands: within their bounds, and right at every special operand."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from eigentensor import reference
from eigentensor.cache import Cache
from eigentensor.lowering import functions
from eigentensor.numerics.conversion import cast
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.floats import canonical, patterns
from eigentensor.program.ops import Op
from eigentensor.runtime import CompiledGraph
from support.generated.edges import edges, held
from support.oracles.accuracy import (
    BOUNDS,
    DENSE,
    EXHAUSTIVE,
    EXPRESSIONS,
    POWER_BOUND,
    by_reference,
    library,
    program_of,
    units,
    worst,
    worst_in_c,
)

F32 = DType.FLOAT32


def test_every_function_has_a_bound_that_the_readme_states() -> None:
    assert set(functions.__all__) == {*BOUNDS, "power"} - {"rsqrt"}
    readme = (Path(__file__).parents[2] / "sdk" / "README.md").read_text()
    for name in EXPRESSIONS:
        operands = ("x", "e") if name == "power" else ("x",)
        instructions = program_of(name, 2, operands=operands).bodies[0].instructions
        operations = sum(instruction.op not in (Op.LOAD, Op.RANGE) for instruction in instructions)
        bound = f"{BOUNDS[name]:.2f}" if name in BOUNDS else f"{POWER_BOUND} (seen in 40 million pairs)"
        assert re.search(rf"\| `{name}` \| {re.escape(bound)}( \([\d.]+\))? \| {operations} \|", readme)


@pytest.mark.parametrize("name", BOUNDS)
def test_a_function_is_within_its_bound_on_operands_of_every_binade(name: str) -> None:
    """2^17 operands, evenly over the patterns: 2^8 in each binade of each sign."""
    step = 1 << 15
    spread = np.arange(1 << 17, dtype=np.uint32) * np.uint32(step) + np.random.default_rng(1).integers(0, step, 1 << 17)
    assert worst(name, [spread.astype(np.uint32).view(np.float32)]).units <= BOUNDS[name]


#: Where most results are neither trivial nor saturated.
HOME = {
    "exp": (-104, 89), "exp2": (-150, 128), "log": (0, 4), "log2": (0, 4), "sin": (-40, 40), "cos": (-40, 40),
    "tanh": (-3, 3), "sigmoid": (-105, 20), "softplus": (-105, 20), "silu": (-110, 20), "gelu": (-15, 6),
    "gelu_tanh": (-11, 6), "erf": (-4, 4), "rsqrt": (0, 4), "mish": (-110, 20), "tan": (-40, 40), "asin": (-1, 1),
    "acos": (-1, 1), "atan": (-4, 4), "sinh": (-4, 4), "cosh": (-4, 4), "asinh": (-4, 4), "acosh": (1, 4),
    "atanh": (-1, 1), "expm1": (-4, 4), "log1p": (-1, 4), "log10": (0, 4),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDS)
def test_a_function_is_within_its_bound_where_it_is_used(name: str) -> None:
    x = np.random.default_rng(2).uniform(*HOME[name], 1 << 17).astype(np.float32)
    assert worst(name, [x]).units <= BOUNDS[name]


@pytest.mark.parametrize("name", BOUNDS)
def test_a_function_is_total_and_right_at_every_edge(name: str) -> None:
    beside = [pattern + d for pattern in edges(F32) for d in (-1, 0, 1) if 0 <= pattern + d < 1 << 32]
    specials = np.array(beside, np.uint32)
    assert worst(name, [specials.view(np.float32)]).units <= BOUNDS[name]


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_a_multiple_of_a_quarter_turn_is_taken_off_exactly(name: str) -> None:
    """The floats nearest to k·π/2 in every binade, where nearly all digits cancel."""
    exact = [math.ldexp(k * math.pi / 2, e) for k in (1, 2, 3, 5, 7) for e in range(125)]
    near = np.array(exact, np.float32).view(np.uint32)
    beside = np.concatenate([near - 1, near, near + 1])
    # the float32 whose distance from a multiple of π/2 is the smallest of all
    hardest = np.array([16367173 * 2.0**72], np.float32).view(np.uint32)
    both = np.concatenate([beside, hardest, beside | np.uint32(1 << 31)])
    assert worst(name, [both.view(np.float32)]).units <= BOUNDS[name]


def test_powers_of_two_are_exact() -> None:
    n = np.arange(-149, 128)
    power = np.ldexp(np.float32(1), n)
    assert by_reference("exp2", n.astype(np.float32)).tobytes() == power.tobytes()
    assert by_reference("log2", power).tobytes() == n.astype(np.float32).tobytes()


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16], ids=lambda x: x.name)
@pytest.mark.parametrize("name", [name for name in BOUNDS if name in functions.__all__])
def test_a_function_of_a_half_type_is_that_of_float32_rounded_once(name: str, dtype: DType) -> None:
    halves = held(dtype, list(range(1 << 16)))
    result = reference.execute(program_of(name, halves.size, dtype), {"x": halves}).outputs["y"]
    expected = cast(F32, dtype, by_reference(name, cast(dtype, F32, halves)))
    assert patterns(dtype, result).tolist() == patterns(dtype, canonical(dtype, expected)).tolist()


def power_error(x: np.ndarray, y: np.ndarray) -> float:
    program = program_of("power", x.size, operands=("x", "e"))
    answers = reference.execute(program, {"x": x, "e": y}).outputs["y"]
    return float(units(answers, "power", x, y).max())


def test_a_power_is_within_its_bound_where_it_neither_over_nor_underflows() -> None:
    generator = np.random.default_rng(3)
    near_one = (1 + generator.uniform(-1, 1, 1 << 18) * np.exp2(generator.uniform(-22, -1, 1 << 18))).astype(np.float32)
    anything = np.exp2(generator.uniform(-148, 127, 1 << 18)).astype(np.float32)
    x = np.concatenate([near_one, anything])
    with np.errstate(divide="ignore"):
        y = (generator.uniform(-150, 130, x.size) / np.log2(x.astype(np.float64))).astype(np.float32)
    assert power_error(x, y) <= POWER_BOUND


def test_a_power_has_the_special_cases_of_ieee() -> None:
    specials = held(F32, edges(F32) + [pattern | sign for pattern in (0x40000000, 0x40400000) for sign in (0, 1 << 31)])
    x, y = np.meshgrid(specials, specials)
    assert power_error(x.ravel(), y.ravel()) <= POWER_BOUND


@pytest.mark.parametrize("name", BOUNDS)
def test_the_c_library_finds_the_errors_that_numpy_finds(name: str) -> None:
    generator = np.random.default_rng(6)
    x = np.concatenate([held(F32, edges(F32)), generator.uniform(*HOME[name], 256).astype(np.float32)])
    right = by_reference(name, x)
    wrong = generator.permutation(right)
    for y in (right, wrong):
        distances = [worst_in_c(library(), name, x[i : i + 1], y[i : i + 1]).units for i in range(x.size)]
        np.testing.assert_allclose(distances, units(y, name, x), rtol=1e-6, atol=1e-6)


#: The sign bit that a function's result takes over from its operand.
SYMMETRIC = dict.fromkeys(("asin", "asinh", "atan", "atanh", "erf", "sin", "sinh", "tan", "tanh"), 1 << 31) | {
    "cos": 0,
    "cosh": 0,
}


def largest_error(name: str, stride: int, folder: Path) -> float:
    """Over every so many operands, executed fast and judged by the C library; of symmetric functions one half is."""
    size = 1 << 18
    compiled = CompiledGraph(program_of(name, size), cache=Cache(folder))
    first = np.arange(size, dtype=np.uint32) * np.uint32(stride)
    largest = 0.0
    for part in range((1 << 31) // size // stride):
        operands = first + np.uint32(part * size * stride + part * 7 % stride)
        here, there = (
            (x, compiled.run({"x": x}).outputs["y"])
            for x in (operands.view(np.float32), (operands | np.uint32(1 << 31)).view(np.float32))
        )
        if name in SYMMETRIC:
            flips = here[1].view(np.uint32) ^ there[1].view(np.uint32)
            assert np.all((flips == SYMMETRIC[name]) | np.isnan(here[1]))
        judged = [here] if name in SYMMETRIC else [here, there]
        largest = max([largest, *(worst_in_c(library(), name, x, y).units for x, y in judged)])
    return largest


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", EXHAUSTIVE)
def test_a_bound_is_the_largest_error_over_all_operands(name: str, tmp_path: Path) -> None:
    assert BOUNDS[name] - 0.01 < largest_error(name, 1, tmp_path) <= BOUNDS[name]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", DENSE)
def test_a_bound_is_above_the_largest_error_over_every_64th_operand(name: str, tmp_path: Path) -> None:
    assert largest_error(name, 64, tmp_path) <= BOUNDS[name]
