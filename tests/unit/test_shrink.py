"""A failing program becomes a small one that fails for the same reason, and says where and how."""

from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from eigentensor import reference
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.operations import OPERATIONS
from eigentensor.program.binding import Results
from eigentensor.program.expression import to_body
from eigentensor.program.model import Program
from eigentensor.program.ops import Op
from eigentensor.program.validity import check
from support.generated.programs import Example, generate
from support.generated.shrink import expression_of, lowered_calls, shrunk
from support.generated.trials import trial
from support.oracles.agreement import Run, Way, differences, first_failure, rows_of


def wrong(name: str, function: Callable[..., Any]) -> Way:
    """Executes with another meaning of an operation."""

    def way(program: Program) -> Run:
        def run(tensors: Mapping[str, Any], variables: Mapping[str, int], repeat: int) -> Results:
            with patch.dict(OPERATIONS, {name: function}):
                return reference.execute(program, tensors, variables, repeat)

        return run

    return way


def flipping(op: Op) -> Way:
    """Executes with one wrong bit in the last element of each call that has such an operation."""

    def way(program: Program) -> Run:
        def run(tensors: Mapping[str, Any], variables: Mapping[str, int], repeat: int) -> Results:
            def disturbed(number: int, values: np.ndarray) -> None:
                body = program.bodies[program.calls[number % len(program.calls)].body]
                if values.size and any(i.op is op for i in body.instructions):
                    values[-1:].view(np.uint8)[0] ^= 1

            return reference.execute(program, tensors, variables, repeat, observe=disturbed)

        return run

    return way


def failing(way: Way, seeds: range) -> Example:
    """The first of these programs that such an execution gets wrong."""
    tried = (trial(seed, sets=4) for seed in seeds)
    return next(failure for t in tried if (failure := first_failure(t, rows_of(t), way)))


def small(example: Example, way: Way) -> Example:
    minimal = shrunk(example, lambda e: bool(differences(e, way)))
    check(minimal.program)
    return minimal


def contracted(dtype: DType, a: Any, b: Any, c: Any) -> Any:
    return OPERATIONS["ADD"](dtype, OPERATIONS["MUL"](dtype, a, b), c)


@pytest.mark.parametrize(
    ("name", "function"),
    [("MULACC", contracted), ("XOR", lambda dtype, a, b: np.asarray(a ^ b ^ (dtype.size == 4)))],
    ids=["a fused operation rounded twice", "a wrong operation of one type"],
)
def test_a_wrong_operation_is_found_and_stands_almost_alone(name: str, function: Callable[..., Any]) -> None:
    way = wrong(name, function)
    example = small(failing(way, range(40)), way)
    (body,) = example.program.bodies
    assert example.repeat == len(example.program.calls) == body.parameters[0].elements == 1
    assert name in {i.op.name.removeprefix("REDUCE_") for i in body.instructions}
    assert len(body.instructions) <= 10
    (difference,) = differences(example, way)
    assert (difference.call, difference.count, difference.first) == (0, 1, 0)
    assert f"{difference.expected} expected, {difference.actual} given" in str(difference)


@pytest.mark.parametrize("op", [Op.REDUCE_ADD, Op.SQRT])
def test_a_flipped_bit_of_calls_of_a_kind_leads_to_such_a_call(op: Op) -> None:
    way = flipping(op)
    example = small(failing(way, range(40)), way)
    (body,) = example.program.bodies
    assert [i.op for i in body.instructions].count(op) == 1
    (difference,) = differences(example, way)
    assert int(difference.expected, 16) ^ int(difference.actual, 16) == 1


def test_what_fails_only_with_two_calls_keeps_them() -> None:
    def fails(example: Example) -> bool:
        return len(example.program.calls) >= 2

    example = next(e for e in map(generate, range(100)) if len(e.program.calls) == 4 and e.repeat == 1)
    assert len(shrunk(example, fails).program.calls) == 2


def test_values_that_do_not_matter_become_zero() -> None:
    example = next(e for e in map(generate, range(100)) if any(t.size > 9 and t.all() for t in e.tensors.values()))
    name = next(name for name, t in example.tensors.items() if t.size > 9 and t.all())
    last = example.tensors[name].reshape(-1)[-1:].tobytes()

    def fails(e: Example) -> bool:
        return e.program == example.program and e.tensors[name].reshape(-1)[-1:].tobytes() == last

    tensors = shrunk(example, fails).tensors
    assert sum(np.count_nonzero(t.view(f"u{t.itemsize}")) for t in tensors.values()) == 1


@pytest.mark.parametrize("seed", range(30))
def test_expressions_come_back_out_of_bodies(seed: int) -> None:
    for lowered in lowered_calls(generate(seed).program):
        distinct = all(len(set(operands)) == len(operands) for operands in (lowered.arrays, lowered.variables))
        assert not distinct or to_body(*expression_of(lowered)) == lowered
