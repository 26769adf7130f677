"""A hundred numbered games and stranger ones on the deployed contracts: who is wrong is convicted, nobody else."""

from dataclasses import replace
from random import Random

import pytest

from eigentensor import merkle
from eigentensor.dispute import Keep, Knowledge, Move, Outcome, Phase, Position, Published, Reason, Side, next_move
from eigentensor.dispute.moves import ShowOutputs
from eigentensor.dispute.results import leaves_of
from eigentensor.task import State
from support.generated.programs import generate
from support.stories.faults import GENERATED, GRAPHS, story
from support.stories.game_course import Course
from support.stories.game_table import BATCH, Case, Table, brought
from support.stories.games import account_of, fabulist, honest, reckless, spoiled
from support.stories.liars import Fault, Liar

NUMBERS, STORIES, ACQUITTALS = 16 * BATCH, 35, 14


def lost(course: Course) -> bool | None:
    """Whether the executor lost; None if nobody objected."""
    return None if course.outcome is None else course.outcome.executor_lost


@pytest.mark.parametrize("first", range(0, NUMBERS, 2 * BATCH))
def test_a_hundred_wrong_bits_are_convicted_and_honest_executors_acquitted(table: Table, first: int) -> None:
    stories = [story(number) for number in range(first, first + 2 * BATCH)]
    for entry, (course, state) in zip(stories, table.ends([s.case for s in stories]), strict=True):
        expected = ({None, False}, State.FINAL) if entry.is_honest else ({True}, State.CONVICTED)
        assert lost(course) in expected[0] and state is expected[1], course


def test_the_numbered_games_are_a_hundred_wrong_bits_in_all_graphs() -> None:
    stories = [story(number) for number in range(NUMBERS)]
    assert sum(not s.is_honest for s in stories) >= 100
    assert {s.graph for s in stories} == {*GRAPHS, GENERATED}


def test_results_with_any_other_story_are_convicted(table: Table) -> None:
    cases, random = [], Random(3)
    for seed in range(STORIES):
        true = account_of(generate(seed) if seed % 2 else brought(list(GRAPHS)[seed // 2]))
        account, strategy = fabulist(true, random)
        while (account.calls, account.outputs) == (true.calls, true.outputs):
            account, strategy = fabulist(true, random)
        cases.append(Case(true, account.outputs, strategy, honest(Side.CHALLENGER)))
    courses, states = zip(*table.ends(cases), strict=True)
    reasons = {course.outcome.reason for course in courses if course.outcome}
    assert reasons == {Reason.VERDICT, Reason.COLLECT, Reason.DETERMINED}
    assert states == (State.CONVICTED,) * STORIES


def test_one_wrong_result_among_a_thousand_is_convicted_by_itself(table: Table) -> None:
    """Their proof is too large for a verdict about all."""
    example = brought("softmax")
    ((_, only),) = example.program.outputs.items()
    named = tuple(only._replace(name=f"result {number:04}") for number in range(1000))
    true = account_of(replace(example, program=replace(example.program, results=named)))
    outputs, states = leaves_of(true)
    shown = (*outputs[:777], outputs[0], *outputs[778:]), states
    root = merkle.outputs_root(*(merkle.bindings_root_of(len(s), merkle.tree_root(s)) for s in shown))

    def lying(position: Position, published: Published, knowledge: Knowledge) -> Move | Keep | None:
        if position.phase is Phase.OUTPUTS:
            return ShowOutputs(replace(knowledge.claim, trace=published.nodes[0].root), *shown)
        return next_move(Side.EXECUTOR, position, published, knowledge)

    ((course, state),) = table.ends([Case(true, root, lying, honest(Side.CHALLENGER))])
    assert (course.outcome, state) == (Outcome(True, Reason.COLLECT), State.CONVICTED)
    assert [sent.function for sent in course.sent] == [
        "challenge",
        "publish",
        "askOutputs",
        "showOutputs",
        "judgeResult",
    ]


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
