"""A hundred numbered games and stranger ones on the deployed contracts: who is wrong is convicted, nobody else."""

from random import Random

import pytest

from eigentensor.chain import State
from eigentensor.dispute import Outcome, Reason, Side
from eigentensor.testing.faults import Fault, Liar
from eigentensor.testing.programs import generate
from fault_stories import GENERATED, GRAPHS, story
from game_course import Course
from game_table import BATCH, Case, Table, brought
from games import account_of, fabulist, honest, reckless, spoiled

NUMBERS, STORIES, ACQUITTALS = 16 * BATCH, 35, 14


def lost(course: Course) -> bool | None:
    """Whether the executor lost; None if nobody objected."""
    return None if course.outcome is None else course.outcome.executor_lost


@pytest.mark.parametrize("first", range(0, NUMBERS, 2 * BATCH))
def test_a_hundred_wrong_bits_are_convicted_and_honest_executors_acquitted(table: Table, first: int) -> None:
    stories = [story(number) for number in range(first, first + 2 * BATCH)]
    for told, (course, state) in zip(stories, table.ends([s.case for s in stories]), strict=True):
        expected = ({None, False}, State.FINAL) if told.is_honest else ({True}, State.CONVICTED)
        assert lost(course) in expected[0] and state is expected[1], course


def test_the_numbered_games_are_a_hundred_wrong_bits_in_all_graphs() -> None:
    stories = [story(number) for number in range(NUMBERS)]
    assert sum(not s.is_honest for s in stories) >= 100
    assert {s.graph for s in stories} == {*GRAPHS, GENERATED}


def test_results_with_any_other_story_are_convicted(table: Table) -> None:
    cases, random = [], Random(3)
    for seed in range(STORIES):
        true = account_of(generate(seed) if seed % 2 else brought(list(GRAPHS)[seed // 2]))
        told, tell = fabulist(true, random)
        while (told.calls, told.outputs) == (true.calls, true.outputs):
            told, tell = fabulist(true, random)
        cases.append(Case(true, told.outputs, tell, honest(Side.CHALLENGER)))
    courses, states = zip(*table.ends(cases), strict=True)
    reasons = {course.outcome.reason for course in courses if course.outcome}
    assert reasons == {Reason.VERDICT, Reason.COLLECT, Reason.DETERMINED}
    assert states == (State.CONVICTED,) * STORIES


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("layernorm", Fault(4, 1900, 3)),  # down two levels to an element
        ("long sum", Fault(0, 7, 30, 0, 33)),  # down to a step
        ("gelu mlp", Fault(0, 5, 30, 0, 7)),
        ("decoder step", Fault(5, 0, 20)),
    ],
)
def test_the_contracts_refuse_what_the_rules_refuse(table: Table, name: str, fault: Fault) -> None:
    example = brought(name)
    true = account_of(example)
    liar = Liar(true, example.tensors, fault)
    case = Case(true, liar.account.outputs, liar.next_move, honest(Side.CHALLENGER))
    (order,) = table.revealed([case])
    assert table.dispute(case, order, spoiled).outcome == Outcome(True, Reason.VERDICT)


def test_right_results_of_any_program_are_acquitted_whatever_is_objected_to(table: Table) -> None:
    random, accounts = Random(5), [account_of(generate(seed)) for seed in range(ACQUITTALS)]
    cases = [Case(true, true.outputs, honest(Side.EXECUTOR), reckless(random)) for true in accounts]
    courses, states = zip(*table.ends(cases), strict=True)
    assert not any(map(lost, courses))
    assert states == (State.FINAL,) * ACQUITTALS
