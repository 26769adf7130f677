"""A program at a session: with weights, states, variables and repeats it means there what it means anywhere."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from eigentensor import reference
from eigentensor.cluster.local import LocalSession
from eigentensor.cluster.resident import Resident, room, with_inputs_alone
from eigentensor.cluster.tiers import Tiers
from eigentensor.errors import BindingError
from eigentensor.numerics.dtypes import DType
from eigentensor.program.binding import Results
from eigentensor.program.codec import decode, encode
from eigentensor.program.limits import RESULTS
from eigentensor.program.model import Kind, Role
from eigentensor.reexecution import sample
from support.generated.programs import Example, generate
from support.programs import worked_examples

Observed = dict[int, NDArray[np.generic]]


@pytest.fixture
def session() -> Iterator[LocalSession]:
    made = LocalSession(tiers=Tiers(most=1 << 60, sight=1 << 60))
    yield made
    made.close()


def right(example: Example) -> tuple[Results, Observed]:
    """The reference's results, and what each executed call wrote."""
    seen: Observed = {}

    def observe(number: int, result: NDArray[np.generic]) -> None:
        seen[number] = result.copy()

    results = reference.execute(example.program, example.tensors, example.variables, example.repeat, observe=observe)
    return results, seen


def same(one: Results, other: Results) -> bool:
    return all(
        mine.keys() == yours.keys() and all(mine[name].tobytes() == yours[name].tobytes() for name in mine)
        for mine, yours in ((one.outputs, other.outputs), (one.states, other.states))
    )


def test_results_and_what_is_kept_for_a_sample_are_those_of_the_reference(session: LocalSession) -> None:
    repeated = 0
    for number in range(60):
        example = generate(number)
        repeated += example.repeat > 1 and bool(example.program.new_states)
        weights = {name: example.tensors[name] for name in example.program.named(Role.WEIGHT)}
        others = {name: value for name, value in example.tensors.items() if name not in weights}
        calls, first = len(example.program.calls), (example.repeat - 1) * len(example.program.calls)
        resident = Resident(session, example.program, weights, iter(range(1 + number * 1000, 1 << 40)))
        results, seen = right(example)
        for keep in ((), Random(number).sample(range(first, first + calls), 1), range(first, first + calls)):
            observed = resident.run(others, example.variables, example.repeat, keep)
            assert same(observed.results, results) and set(observed.kept) == set(keep)
            assert all(observed.kept[call].tobytes() == seen[call].tobytes() for call in keep)
            assert session.stats().handles == len(weights), "what stays, and nothing else"
        resident.leave()
        assert session.stats().handles == 0
    assert repeated > 3


def test_a_run_that_goes_on_from_states_that_are_there_brings_none(session: LocalSession) -> None:
    program, tensors = worked_examples.session().program, worked_examples.session().tensors
    put = list[tuple[int, ...]]()
    bring = session.put

    def noted(handle: int, value: NDArray[np.generic], dtype: DType) -> None:
        put.append(value.shape)
        bring(handle, value, dtype)

    session.put = noted  # type: ignore[method-assign]
    resident = Resident(session, program, kept=2)
    turns = [("first", "given", 1), ("second", "first", 2), ("third", "second", 1), ("again", "second", 2)]
    turns += [("fork", "first", 1), ("old", "third", 1)]
    states = {"given": {"cache": tensors["cache"]}}
    brought = []
    for turn, (name, before, repeat) in enumerate(turns):
        put.clear()
        given = {"token": np.array(turn % 3, np.int32), **states[before]}
        results = resident.run(given, {"pos": 0}, repeat).results
        assert same(results, reference.execute(program, given, {"pos": 0}, repeat))
        states[name] = results.states
        brought.append(program.named(Role.STATE)["cache"].shape in put)
    # two are kept: those of "first" are gone when "third" has left its own, those of "third" when "again" has
    assert brought == [True, False, False, False, True, True]
    equal = {"token": np.array(1, np.int32), "cache": states["old"]["cache"].copy()}
    put.clear()
    assert same(resident.run(equal, {"pos": 0}).results, reference.execute(program, equal, {"pos": 0}))
    assert (4,) in put, "states are known by their arrays alone"
    resident.leave()
    assert session.stats().handles == 0


def test_an_output_and_a_state_of_one_name_stay_two(session: LocalSession) -> None:
    example = next(e for e in map(generate, range(1000)) if e.program.new_states and e.program.outputs)
    (state, *_), (first, *others) = example.program.new_states.values(), example.program.outputs.values()
    renamed = (first._replace(name=state.name), *others, *example.program.new_states.values())
    results = tuple(sorted(renamed, key=lambda r: (r.kind, r.name)))
    program = decode(encode(replace(example.program, results=results)))
    bare = with_inputs_alone(program)
    assert bare.names[Kind.OUTPUT, state.name] == state.name != bare.names[Kind.STATE, state.name]
    expected, _ = right(Example(program, example.tensors, example.variables, example.repeat))
    observed = Resident(session, program).run(example.tensors, example.variables, example.repeat)
    assert same(observed.results, expected)


def test_what_does_not_fit_is_refused_and_leaves_nothing(session: LocalSession) -> None:
    example = next(e for e in map(generate, range(1000)) if e.program.named(Role.INPUT))
    resident = Resident(session, example.program)
    with pytest.raises(BindingError, match="missing input0"):
        resident.run({}, example.variables, example.repeat)
    assert session.stats().handles == 0


def test_a_sample_keeps_no_more_results_than_there_is_room_for() -> None:
    for number in range(40):
        program = generate(number).program
        results = {r.buffer - len(program.buffers) for r in program.results}
        for most in (0, 1, 2, 1000):
            chosen = sample.choose(program, 1, bytes([number]) * 32, most)
            assert len(set(chosen.keep) - results) <= most
        assert room(program) == RESULTS - len(program.results)
