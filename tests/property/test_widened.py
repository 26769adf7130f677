"""Programs for several calls at once, held to each call alone: bit for bit, by the reference and compiled."""

import io
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor import reference
from eigentensor.errors import RuleError
from eigentensor.program import Program, Role
from eigentensor.program.binding import Results
from eigentensor.program.widened import widened
from eigentensor.runtime.compiled import CompiledGraph
from eigentensor.runtime.sandbox.returned import Wanted
from eigentensor.runtime.sandbox.together import TRIES, Together
from support.generated.expressions import tensor
from support.generated.programs import Example, generate
from support.programs.worked_examples import layer, session

Arrays = dict[str, np.ndarray[Any, Any]]


def several(example: Example, count: int, seed: int) -> list[Arrays]:
    """The tensors of so many calls: inputs and states of their own, the first one's the example's."""
    random, own = Random(seed), {**example.program.named(Role.INPUT), **example.program.named(Role.STATE)}
    others = [{name: tensor(random, b.dtype, b.shape) for name, b in own.items()} for _ in range(count - 1)]
    return [example.tensors, *({**example.tensors, **other} for other in others)]


def stacked(program: Program, calls: list[Arrays]) -> Arrays:
    own = {*program.named(Role.INPUT), *program.named(Role.STATE)}
    return {name: np.stack([call[name] for call in calls]) if name in own else calls[0][name] for name in calls[0]}


def assert_equal(together: Results, alone: list[Results]) -> None:
    for kind in ("outputs", "states"):
        whole = getattr(together, kind)
        for number, one in enumerate(alone):
            single = getattr(one, kind)
            assert whole.keys() == single.keys()
            assert all(whole[name][number].tobytes() == single[name].tobytes() for name in single), (kind, number)


@given(st.integers(0, (1 << 32) - 1), st.integers(2, 5))
@settings(max_examples=60, deadline=None)
def test_calls_together_have_the_bits_of_each_alone(seed: int, count: int) -> None:
    example = generate(seed)
    try:
        wide = widened(example.program, count)
    except RuleError:  # larger than what is admitted
        return
    calls = several(example, count, seed)
    bound = example.variables, example.repeat
    alone = [reference.execute(example.program, call, *bound) for call in calls]
    assert_equal(reference.execute(wide, stacked(example.program, calls), *bound), alone)


def test_nearly_every_program_can_be_widened() -> None:
    refused = 0
    for seed in range(60):
        try:
            widened(generate(seed).program, 4)
        except RuleError:
            refused += 1
    assert refused < 6


@pytest.mark.parametrize("example", [layer(), *map(generate, range(1, 6))])
def test_compiled_calls_together_have_the_bits_of_each_alone(example: Example) -> None:
    weights = {name: example.tensors[name] for name in example.program.named(Role.WEIGHT)}
    calls = [
        {name: array for name, array in call.items() if name not in weights} for call in several(example, 3, seed=7)
    ]
    alone, wide = (CompiledGraph(program, weights) for program in (example.program, widened(example.program, 3)))
    bound = example.variables, example.repeat
    assert_equal(wide.run(stacked(example.program, calls), *bound), [alone.run(call, *bound) for call in calls])


@pytest.mark.parametrize("example", [layer(), session(), *map(generate, range(1, 4))])
def test_whatever_runs_are_made_of_calls_they_give_what_each_gives_alone(example: Example) -> None:
    """Results, and what executed calls wrote of which that is kept, while widths are tried and when they are judged."""
    program, random = example.program, Random(3)
    weights = {name: example.tensors[name] for name in program.named(Role.WEIGHT)}
    wide = {width: CompiledGraph(widened(program, width), weights) for width in (2, 4)}
    alone = CompiledGraph(program, weights)
    together, executed = Together({1: alone, **wide}), range(len(program.calls) * example.repeat)
    for turn in range(TRIES + 2):
        calls = [
            {name: array for name, array in call.items() if name not in weights} for call in several(example, 7, turn)
        ]
        keep = [sorted(random.sample(executed, random.randrange(min(3, len(executed)) + 1))) for _ in calls]
        expected = [kept(alone, call, example, one) for call, one in zip(calls, keep, strict=True)]
        assert list(together.run(stacked(program, calls), example.variables, example.repeat, keep)) == expected


def kept(alone: CompiledGraph, call: Arrays, example: Example, keep: list[int]) -> bytes:
    """What a call hands back that is executed alone."""
    file = io.BytesIO()
    back = Wanted(example.program, example.repeat, tuple(keep)).writer(file)
    back.finish(alone.run(call, example.variables, example.repeat, observe=back.observe, only=back.only))
    return file.getvalue()
