"""Stories of early reveals: an executor opens its result once nobody is left to answer, and never otherwise."""

from eigentensor.task import Answered
from eigentensor_operator.case import PAUSE, Candidacy, Step
from eigentensor_operator.events import Do, Looked, RolledBack
from support.stories.operator import OTHER, POLICY, TASK, THIRD, Story, at, mix_of

CHECK_BY = 44


def drawn_among(*candidates: str, answered: int) -> Story:
    """An own task of which these may answer, and the first answered in blocks 16, 17, …; the look was at head 16."""
    story = Story()
    story.until_seed()
    story.seeded(15, drawn=True)
    story.quiet(15)
    for index, verifier in enumerate(candidates[:answered]):
        story.noted(Answered(at(16 + index), TASK, index, verifier, b"\x0a" * 32))
    assert story.head(16) == (Do(Step.LOOK, TASK),)
    candidacy = Candidacy(mix_of(TASK, True), None, frozenset(candidates))
    assert story.handle(Looked(TASK, candidacy)) == ()
    return story


def test_a_drawn_result_is_revealed_early_when_nobody_is_left_to_answer_and_that_is_confirmed() -> None:
    story = drawn_among(OTHER, THIRD, answered=2)
    story.quiet(17, 18)
    assert story.head(17 + POLICY.parameters.confirmations) == (Do(Step.REVEAL, TASK),)


def test_an_early_reveal_waits_until_what_was_looked_at_is_confirmed_too() -> None:
    """INVARIANT 45: a seat that was left in the block of the look may be there again after a reorganisation."""
    story = drawn_among(OTHER, answered=1)
    story.quiet(17, 18)
    assert story.head(16 + 1 + POLICY.parameters.confirmations) == (Do(Step.REVEAL, TASK),)


def test_a_drawn_result_is_hidden_as_long_as_somebody_may_answer() -> None:
    story = drawn_among(OTHER, THIRD, answered=1)
    story.quiet(17, 30, CHECK_BY - 1)
    assert story.head(CHECK_BY) == (Do(Step.REVEAL, TASK),)


def test_an_answer_that_a_reorganisation_took_away_closes_nothing() -> None:
    story = drawn_among(OTHER, THIRD, answered=2)
    story.handle(RolledBack(16))
    assert story.head(17) == (Do(Step.LOOK, TASK),)
    story.handle(Looked(TASK, Candidacy(mix_of(TASK, True), None, frozenset({OTHER, THIRD}))))
    story.quiet(20, CHECK_BY - 1)
    assert story.head(CHECK_BY) == (Do(Step.REVEAL, TASK),)


def test_seats_are_looked_at_again_after_a_reorganisation_and_never_shortly_before_the_reveal() -> None:
    story = drawn_among(OTHER, answered=1)
    story.handle(RolledBack(16))
    assert story.case().candidacy is None
    story.quiet(CHECK_BY - PAUSE - POLICY.reserve)
    assert story.head(CHECK_BY) == (Do(Step.REVEAL, TASK),)
