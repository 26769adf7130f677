"""A hundred executions with one wrong bit each, convicted by the deployed contracts; right ones are acquitted."""

from collections.abc import Iterator
from itertools import cycle, islice
from random import Random

import pytest

from eigentensor.chain import State
from eigentensor.dispute import Reason, Side
from eigentensor.testing.faults import Fault, Liar, some_fault
from eigentensor.testing.programs import Example, generate
from game_table import Case, Table, brought
from games import account_of, fabulist, honest, reckless, spoiled

FAULTS, STORIES, ACQUITTALS = 100, 35, 21
GRAPHS = (
    "attention", "cross-entropy with its gradient", "decoder step", "digits", "gelu mlp", "layernorm", "long sum",
    "softmax",
)  # fmt: skip


def lies(example: Example, random: Random) -> Iterator[Case]:
    """Executions of an example, each with another fault that makes its result wrong."""
    true = account_of(example)
    while True:
        liar = Liar(true, example.tensors, some_fault(true, random))
        if liar.changed:
            yield Case(true, liar.account.outputs, liar.next_move, honest(Side.CHALLENGER))


def test_a_hundred_wrong_bits_are_convicted(table: Table) -> None:
    sources = [lies(brought(name), Random(name)) for name in GRAPHS]
    cases = list(islice((next(source) for source in cycle(sources)), FAULTS))
    ends = list(table.ends(cases))
    assert all(outcome is not None and outcome.executor_lost for outcome, _ in ends)
    assert [state for _, state in ends] == [State.CONVICTED] * FAULTS


def test_results_with_any_other_story_are_convicted(table: Table) -> None:
    cases, random = [], Random(3)
    for seed in range(STORIES):
        true = account_of(generate(seed) if seed % 2 else brought(GRAPHS[seed % len(GRAPHS)]))
        story, tell = fabulist(true, random)
        while (story.calls, story.outputs) == (true.calls, true.outputs):
            story, tell = fabulist(true, random)
        cases.append(Case(true, story.outputs, tell, honest(Side.CHALLENGER)))
    ends = list(table.ends(cases))
    assert {outcome.reason for outcome, _ in ends if outcome} == {Reason.VERDICT, Reason.COLLECT, Reason.DETERMINED}
    assert [state for _, state in ends] == [State.CONVICTED] * STORIES


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
    outcome = table.dispute(case, order, spoiled)
    assert outcome is not None and outcome.executor_lost


def test_right_results_are_acquitted_whatever_is_objected_to(table: Table) -> None:
    random = Random(5)
    examples = [*map(brought, GRAPHS), *(generate(seed) for seed in range(ACQUITTALS - len(GRAPHS)))]
    accounts = [account_of(example) for example in examples]
    cases = [Case(true, true.outputs, honest(Side.EXECUTOR), reckless(random)) for true in accounts]
    ends = list(table.ends(cases))
    assert not any(outcome.executor_lost for outcome, _ in ends if outcome is not None)
    assert [state for _, state in ends] == [State.FINAL] * ACQUITTALS
