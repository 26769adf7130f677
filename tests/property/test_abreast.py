"""Executions side by side, held to each alone, bit for bit; and states that programs share in place."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor import reference
from eigentensor.errors import BindingError
from eigentensor.program import Program, Role
from eigentensor.program.abreast import abreast, named
from eigentensor.program.binding import Results
from eigentensor.runtime.compiled import CompiledGraph
from support.generated.expressions import tensor
from support.generated.programs import Example, generate
from support.programs.worked_examples import layer, session

Arrays = dict[str, np.ndarray[Any, Any]]
Execution = tuple[Arrays, dict[str, int]]


def several(example: Example, count: int, seed: int) -> list[Execution]:
    """Inputs, states and variables of so many executions, each its own."""
    random, program = Random(seed), example.program
    own = {**program.named(Role.INPUT), **program.named(Role.STATE)}
    return [
        (
            {name: tensor(random, b.dtype, b.shape) for name, b in own.items()},
            {v.name: random.randint(*bounds(v.minimum, v.maximum, v.stride * (example.repeat - 1)))
             for v in program.variables},
        )
        for _ in range(count)
    ]  # fmt: skip


def bounds(least: int, most: int, moved: int) -> tuple[int, int]:
    return least - min(0, moved), most - max(0, moved)


def together(executions: list[Execution]) -> Execution:
    tensors = {named(name, row): a for row, (arrays, _) in enumerate(executions) for name, a in arrays.items()}
    variables = {named(name, row): v for row, (_, bound) in enumerate(executions) for name, v in bound.items()}
    return tensors, variables | {named("", row): row for row in range(len(executions))}


def assert_equal(whole: Results, alone: list[Results]) -> None:
    for row, one in enumerate(alone):
        for of, single in ((whole.outputs, one.outputs), (whole.states, one.states)):
            assert all(of[named(name, row)].tobytes() == array.tobytes() for name, array in single.items()), row


def weights_of(example: Example) -> Arrays:
    return {name: example.tensors[name] for name in example.program.named(Role.WEIGHT)}


@given(st.integers(0, (1 << 32) - 1), st.integers(2, 5))
@settings(max_examples=15, deadline=None)
def test_executions_side_by_side_have_the_bits_of_each_alone(seed: int, count: int) -> None:
    example = generate(seed)
    executions, weights = several(example, count, seed), weights_of(example)
    alone = [reference.execute(example.program, {**weights, **a}, v, example.repeat) for a, v in executions]
    tensors, variables = together(executions)
    wide = abreast(example.program, count)
    assert_equal(reference.execute(wide, {**weights, **tensors}, variables, example.repeat), alone)


@pytest.mark.parametrize("example", [layer(), session(), *map(generate, range(1, 6))])
def test_compiled_ones_too_and_with_their_states_in_place(example: Example) -> None:
    weights, executions = weights_of(example), several(example, 3, seed=7)
    alone, wide = CompiledGraph(example.program, weights), CompiledGraph(abreast(example.program, 3), weights)
    expected = [alone.run(*of, example.repeat) for of in executions]
    tensors, variables = together(executions)
    assert_equal(wide.run(tensors, variables, example.repeat), expected)
    states = {named(name, row) for name in example.program.named(Role.STATE) for row in range(3)}
    room = wide.room({name: tensors[name] for name in states})
    inputs = {name: array for name, array in tensors.items() if name not in states}
    outputs = wide.run_in(room, inputs, variables, example.repeat)
    assert_equal(Results(outputs, room), expected)


def test_weights_are_read_by_one_call_for_all() -> None:
    example = layer()
    program, wide = example.program, abreast(example.program, 4)
    assert [reading(p) for p in (program, wide)] == [reading(program)] * 2


def reading(program: Program) -> int:
    """How many calls read weights."""
    weights = {n for n, b in enumerate(program.buffers) if b.role is Role.WEIGHT}
    return sum(bool(weights.intersection(call.arguments)) for call in program.calls)


def test_states_are_changed_in_place_only_where_that_shows() -> None:
    example = session()
    arrays, variables = several(example, 1, seed=3)[0]
    graph = CompiledGraph(example.program, weights_of(example))
    states = {name: arrays.pop(name) for name in example.program.named(Role.STATE)}
    room = graph.room(states)
    frozen = {name: array.copy() for name, array in states.items()}
    for array in frozen.values():
        array.flags.writeable = False
    for wrong in ({}, frozen, {name: array.astype(np.float64) for name, array in states.items()}):
        with pytest.raises(BindingError):
            graph.run_in(wrong, arrays, variables, example.repeat)
    before = {name: array.tobytes() for name, array in states.items()}
    graph.run_in(room, arrays, variables, example.repeat)
    assert {name: array.tobytes() for name, array in states.items()} == before
