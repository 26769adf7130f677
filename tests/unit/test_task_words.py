"""What the gateway says of a task in one word, and of its check."""

from collections.abc import Sequence

import pytest

from eigentensor.task import Closed, Counts, Demanded, State, TaskEvent
from eigentensor.task.words import checked, stage, standing, waits_for
from support.stories.aggregator import (
    CHALLENGER,
    REVEALED_TASK,
    TASK,
    VERIFIER,
    WRONG,
    accepted,
    answered,
    at,
    challenged,
    committed,
    convicted,
    ended,
    life_of,
    mix,
    opened_answer,
    posted,
    revealed,
)

ANSWERED = [posted(), accepted(), committed(), answered(), revealed()]
AGREES = [*ANSWERED, opened_answer()]
GAME = challenged(31, challenger=VERIFIER, transaction=b"a" * 32)
DIFFERS = [*ANSWERED, opened_answer(root=WRONG), *GAME]


@pytest.mark.parametrize(
    ("happened", "drawn", "expected"),
    [
        ([posted(), accepted(), committed()], False, (None, "committed")),
        (REVEALED_TASK, False, ("unchecked", "unchecked")),
        (REVEALED_TASK, True, ("unchecked", "unchecked")),
        ([*REVEALED_TASK, *challenged()], False, (None, "result")),
        ([*REVEALED_TASK, *challenged(), *ended(executor_lost=False)], False, ("unchecked", "unchecked")),
        (ANSWERED, True, (None, "result")),
        (AGREES, True, ("checked(1)", "checked(1)")),
        ([*AGREES, *challenged()], True, ("checked(1)", "checked(1)")),
        (DIFFERS, True, (None, "result")),
        ([*DIFFERS, *ended(executor_lost=True), convicted()], True, (None, "convicted")),
        ([*AGREES, Closed(at(61), TASK, 9, 0)], True, ("checked(1)", "final")),
        ([*REVEALED_TASK, Closed(at(61), TASK, 9, 0)], False, ("unchecked", "final")),
    ],
)
def test_a_task_is_unchecked_when_nobody_answered_and_nobody_disputes_it(
    happened: Sequence[TaskEvent], drawn: bool, expected: tuple[str | None, str]
) -> None:
    counts = life_of(*happened, mix=mix(drawn=drawn)).counts
    assert (checked(counts), stage(counts)) == expected


@pytest.mark.parametrize(
    ("state", "answered", "agreed", "games", "words"),
    [
        (State.COMMITTED, 1, 0, 0, "committed"),
        (State.REVEALED, 1, 0, 0, "result"),
        (State.REVEALED, 0, 0, 0, "unchecked"),
        (State.REVEALED, 0, 0, 1, "result, challenged"),
        (State.REVEALED, 2, 1, 0, "checked(1)"),
        (State.REVEALED, 2, 1, 1, "checked(1), challenged"),
        (State.FINAL, 1, 0, 0, "final, unchecked"),
        (State.FINAL, 2, 2, 0, "final, checked(2)"),
        (State.CONVICTED, 1, 1, 0, "convicted"),
    ],
)
def test_people_are_shown_what_came_of_the_check_and_who_disputes_it(
    state: State, answered: int, agreed: int, games: int, words: str
) -> None:
    assert standing(Counts(state, answered, agreed, games)) == words


OPEN, TAKEN, COMMITTED = [posted()], [posted(), accepted()], [posted(), accepted(), committed()]
HIDDEN = [*COMMITTED, answered()]
DEMANDED = [*REVEALED_TASK, Demanded(at(59), TASK, (), 139)]


@pytest.mark.parametrize(
    ("happened", "drawn", "block", "words"),
    [
        (OPEN, None, 11, "an acceptance until block 100"),
        (TAKEN, None, 13, "the executor's commit until block 32, or the refund after it"),
        (COMMITTED, None, 16, "the seed that block 17 gives: it says whether the task is checked"),
        (COMMITTED, False, 18, "the executor's reveal until block 77, or the refund after it"),
        (COMMITTED, True, 47, "the verifiers' answers until block 47 (0 of 1 answered), then the executor's reveal"),
        (HIDDEN, True, 47, "the verifiers' answers until block 47 (1 of 1 answered), then the executor's reveal"),
        (
            [*HIDDEN, answered(29, index=4, operator=CHALLENGER)],
            True,
            47,
            "the verifiers' answers until block 47 (2 answered, 1 asked for), then the executor's reveal",
        ),
        (COMMITTED, True, 48, "the executor's reveal until block 77, or its conviction after it"),
        (ANSWERED, True, 39, "what the verifiers reveal; final after block 60"),
        (ANSWERED, True, 40, "the end of the window: final after block 60"),
        (AGREES, True, 35, "the end of the window: final after block 60"),
        (DIFFERS, True, 35, "the end of game 1"),
        ([*DIFFERS, *challenged(32, game=2)], True, 35, "the end of games 1, 2"),
        (
            DEMANDED,
            False,
            60,
            "leaves of the outputs until block 139, as the client demanded, or a conviction",
        ),
        ([*DIFFERS, *ended(executor_lost=True), convicted()], True, 40, None),
    ],
)
def test_every_wait_says_what_for_and_until_when(
    happened: Sequence[TaskEvent], drawn: bool | None, block: int, words: str | None
) -> None:
    life = life_of(*happened, mix=None if drawn is None else mix(drawn=drawn))
    assert waits_for(life, block) == words
