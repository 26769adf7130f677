"""Executions side by side, held to each alone, bit for bit; and states that programs share in place."""

import io
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor import reference
from eigentensor.errors import BindingError, RuleError
from eigentensor.program import Program, Role
from eigentensor.program.abreast import Abreast, abreast
from eigentensor.program.binding import Results
from eigentensor.runtime.compiled import CompiledGraph
from eigentensor.runtime.sandbox.returned import Wanted
from eigentensor.runtime.sandbox.together import TRIES, Asked, Together
from support.generated.expressions import tensor
from support.generated.programs import Example, generate
from support.programs.worked_examples import layer, session

Arrays = dict[str, np.ndarray[Any, Any]]
EXAMPLES = [layer(), session(), *map(generate, range(1, 6))]


class Execution(NamedTuple):
    """What one execution is given besides weights."""

    inputs: Arrays
    states: Arrays
    variables: dict[str, int]

    @property
    def bound(self) -> tuple[Arrays, dict[str, int]]:
        """The same as a run takes it."""
        return {**self.inputs, **self.states}, self.variables


def several(example: Example, count: int, seed: int) -> list[Execution]:
    """So many executions, each with inputs, states and variables of its own."""
    random, program = Random(seed), example.program

    def tensors(role: Role) -> Arrays:
        return {name: tensor(random, b.dtype, b.shape) for name, b in program.named(role).items()}

    def variables() -> dict[str, int]:
        moved = example.repeat - 1
        return {v.name: random.randint(*bounds(v.minimum, v.maximum, v.stride * moved)) for v in program.variables}

    return [Execution(tensors(Role.INPUT), tensors(Role.STATE), variables()) for _ in range(count)]


def bounds(least: int, most: int, moved: int) -> tuple[int, int]:
    return least - min(0, moved), most - max(0, moved)


def stacked(executions: Sequence[Execution]) -> Arrays:
    return {name: np.stack([one.inputs[name] for one in executions]) for name in executions[0].inputs}


def together(wide: Abreast, executions: list[Execution]) -> tuple[Arrays, Arrays, dict[str, int]]:
    """Inputs, states and variables of all."""
    states = wide.states([one.states for one in executions])
    return dict(wide.inputs(stacked(executions))), dict(states), wide.variables([one.variables for one in executions])


def assert_equal(wide: Abreast, whole: Results, alone: list[Results]) -> None:
    for row, one in enumerate(alone):
        own = wide.results(whole, row)
        for of, single in ((own.outputs, one.outputs), (own.states, one.states)):
            assert of.keys() == single.keys()
            for name, array in single.items():
                assert (of[name].shape, of[name].tobytes()) == (array.shape, array.tobytes()), (name, row)


def weights_of(example: Example) -> Arrays:
    return {name: example.tensors[name] for name in example.program.named(Role.WEIGHT)}


@given(st.integers(0, (1 << 32) - 1), st.integers(2, 5))
@settings(max_examples=40, deadline=None)
def test_executions_side_by_side_have_the_bits_of_each_alone(seed: int, count: int) -> None:
    """Results, and what each call wrote where `places` says."""
    example = generate(seed)
    try:
        wide = abreast(example.program, count)
    except RuleError:  # larger than what is admitted
        return
    executions, weights = several(example, count, seed), weights_of(example)
    alone, wrote = list[Results](), list[dict[int, bytes]]()
    for one in executions:
        tensors, variables = one.bound
        written, observe = recorded()
        wrote.append(written)
        alone.append(
            reference.execute(example.program, {**weights, **tensors}, variables, example.repeat, observe=observe)
        )
    inputs, states, variables = together(wide, executions)
    written, observe = recorded()
    tensors = {**weights, **inputs, **states}
    assert_equal(wide, reference.execute(wide.program, tensors, variables, example.repeat, observe=observe), alone)
    for row, own in enumerate(wrote):
        for number, expected in own.items():
            iteration, call = divmod(number, len(example.program.calls))
            found = written[iteration * len(wide.program.calls) + wide.places[call][row]]
            size = len(expected)
            assert expected == (found if len(found) == size else found[row * size : (row + 1) * size]), (number, row)


def recorded() -> tuple[dict[int, bytes], Callable[[int, np.ndarray[Any, Any]], None]]:
    """What executed calls wrote, and what takes it."""
    written: dict[int, bytes] = {}

    def observe(number: int, result: np.ndarray[Any, Any]) -> None:
        written[number] = result.tobytes()

    return written, observe


def test_nearly_every_program_can_be_executed_so() -> None:
    refused = 0
    for seed in range(60):
        try:
            abreast(generate(seed).program, 4)
        except RuleError:
            refused += 1
    assert refused < 6


@pytest.mark.parametrize("example", EXAMPLES)
def test_compiled_ones_too_and_with_their_states_in_place(example: Example) -> None:
    weights, executions, wide = weights_of(example), several(example, 3, seed=7), abreast(example.program, 3)
    alone, graph = CompiledGraph(example.program, weights), CompiledGraph(wide.program, weights)
    expected = [alone.run(*one.bound, example.repeat) for one in executions]
    inputs, states, variables = together(wide, executions)
    assert_equal(wide, graph.run({**inputs, **states}, variables, example.repeat), expected)
    room = graph.room(states)
    outputs = graph.run_in(room, inputs, variables, example.repeat)
    assert_equal(wide, Results(outputs, room), expected)


@pytest.mark.parametrize("example", EXAMPLES[:5])
def test_whatever_runs_are_made_of_calls_they_give_what_each_gives_alone(example: Example) -> None:
    """Results, and what executed calls wrote of which that is kept, while widths are tried and when they are judged."""
    program, weights, random = example.program, weights_of(example), Random(3)
    several_wide = [abreast(program, width) for width in (1, 2, 4)]
    graphs = [(wide, CompiledGraph(wide.program, weights)) for wide in several_wide]
    some, executed = Together(graphs), range(len(program.calls) * example.repeat)
    for turn in range(TRIES + 2):
        executions = several(example, 7, turn)
        keep = [sorted(random.sample(executed, random.randrange(min(3, len(executed)) + 1))) for _ in executions]
        expected = [kept(graphs[0][1], one, example, of) for one, of in zip(executions, keep, strict=True)]
        calls = [Asked(one.states, one.variables, of) for one, of in zip(executions, keep, strict=True)]
        assert list(some.run(stacked(executions), calls, example.repeat)) == expected


def kept(alone: CompiledGraph, execution: Execution, example: Example, keep: list[int]) -> bytes:
    """What a call hands back that is executed alone."""
    file = io.BytesIO()
    back = Wanted(example.program, example.repeat, tuple(keep)).writer(file)
    back.finish(alone.run(*execution.bound, example.repeat, observe=back.observe, only=back.only))
    return file.getvalue()


def test_weights_are_read_by_one_call_for_all() -> None:
    example = layer()
    program, wide = example.program, abreast(example.program, 4).program
    assert [reading(p) for p in (program, wide)] == [reading(program)] * 2


def reading(program: Program) -> int:
    """How many calls read weights."""
    weights = {n for n, b in enumerate(program.buffers) if b.role is Role.WEIGHT}
    return sum(bool(weights.intersection(call.arguments)) for call in program.calls)


def test_states_are_changed_in_place_only_where_that_shows() -> None:
    example = session()
    arrays, states, variables = several(example, 1, seed=3)[0]
    graph = CompiledGraph(example.program, weights_of(example))
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
