"""What the gateway says of a task in one word, and of its check."""

from collections.abc import Sequence

import pytest

from aggregator_stories import (
    PARAMETERS,
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
    mix,
    opened_answer,
    posted,
    revealed,
    told,
)
from eigentensor.chain import Closed, TaskEvent
from eigentensor_aggregator.answers import checked, stage

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
    view = told(*happened, mix=mix(drawn=drawn))
    assert (checked(view, PARAMETERS, 35), stage(view, PARAMETERS, 35)) == expected
