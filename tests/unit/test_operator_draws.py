"""Stories of draws: what an executor does about the seed, its reveal, demands and the end of its task."""

from dataclasses import replace

import pytest

from eigentensor.economics import challenge_window
from eigentensor.task import Answered, Demanded, Leaf, Shown, State
from eigentensor_operator.case import PAUSE, Candidacy, Case, Step
from eigentensor_operator.events import Do, Done, Looked, RolledBack, Undone
from eigentensor_operator.policy import Code, Reason
from eigentensor_operator.state import Operator, Turn
from support.stories.operator import (
    ME,
    OTHER,
    POLICY,
    SEAL,
    SECOND,
    TASK,
    THIRD,
    Story,
    a_life,
    at,
    mix_of,
    sealed_by,
)

SEED_BLOCK, CHECK_BY, REVEAL_BY = 14, 44, 74
NODE_AWAY = Reason(Code.CHAIN, "a node", "unreachable", lasting=False)


def test_an_undrawn_result_is_revealed_when_the_seed_block_is_confirmed() -> None:
    story = Story()
    story.until_delivered()
    assert story.case().life.drawn is False


def test_a_drawn_result_is_hidden_until_the_last_answer_and_then_revealed_at_once() -> None:
    story = Story()
    story.until_delivered(drawn=True)
    challenge_by = 45 + challenge_window(POLICY.parameters, 20)
    story.quiet(46, challenge_by, challenge_by + POLICY.patience - 1)
    assert story.head(challenge_by + POLICY.patience) == (Do(Step.CLOSE, TASK),)


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


def test_a_seed_that_nobody_recorded_is_recorded_by_the_executor() -> None:
    story = Story()
    story.until_seed()
    story.quiet(13, SEED_BLOCK, SEED_BLOCK + POLICY.patience - 1)
    assert story.head(SEED_BLOCK + POLICY.patience) == (Do(Step.SEED, TASK),)
    story.handle(Done(TASK, Step.SEED, 17))
    story.seeded(17, drawn=False)
    assert story.head(17) == (Do(Step.REVEAL, TASK),)


def test_a_seed_is_recorded_once_for_all_tasks_that_wait_for_it() -> None:
    story = Story()
    for task in (TASK, SECOND):
        story.posted(task)
        story.seen(State.ACCEPTED, 11, task=task, executor=ME)
        story.seen(State.COMMITTED, 12, task=task, claim=sealed_by(ME, task))
        story.operator = story.operator.replaced(replace(story.case(task), seal=SEAL))
    assert story.head(16) == (Do(Step.SEED, TASK),)


def test_a_seed_that_cannot_be_recorded_any_more_fails_the_task() -> None:
    story = Story()
    story.until_seed()
    assert story.head(SEED_BLOCK + 50) == ()
    assert story.case().dropped == Reason(Code.SEED, "block 64", "block 65")
    assert story.head(SEED_BLOCK + 52) == (Do(Step.CLOSE, TASK),)


def test_a_drawn_reveal_is_tried_in_every_block_until_its_last() -> None:
    story = Story()
    story.until_reveal(drawn=True)
    for block in range(45, REVEAL_BY):
        story.handle(Undone(TASK, Step.REVEAL, NODE_AWAY))
        assert story.head(block) == (Do(Step.REVEAL, TASK),)
    story.handle(Undone(TASK, Step.REVEAL, NODE_AWAY))
    story.quiet(REVEAL_BY)
    assert story.case().dropped == Reason(Code.LATE, f"block {REVEAL_BY}", f"block {REVEAL_BY + 1}")


def test_an_executor_never_ends_a_task_that_would_convict_it() -> None:
    story = Story()
    story.until_reveal(drawn=True)
    story.handle(Undone(TASK, Step.REVEAL, NODE_AWAY))
    story.quiet(REVEAL_BY, REVEAL_BY + 2, REVEAL_BY + 50)


@pytest.mark.parametrize("drawn", [False, True])
def test_a_seed_rolled_back_is_waited_for_again_and_the_new_draw_counts(drawn: bool) -> None:
    story = Story()
    story.until_reveal(drawn=drawn)
    story.handle(Undone(TASK, Step.REVEAL, Reason(Code.CHAIN, "a seed", "none", lasting=False)))
    story.handle(RolledBack(13))
    story.seeded(18, drawn=not drawn)
    if drawn:
        assert story.head(45) == (Do(Step.REVEAL, TASK),)
    else:
        story.quiet(18, 43)
        assert story.head(44) == (Do(Step.REVEAL, TASK),)


@pytest.mark.parametrize("cut", [9, 10, 11, 13, 14, 44])
def test_a_drawn_task_goes_on_from_wherever_a_reorganisation_cuts_it(cut: int) -> None:
    story = Story()
    story.until_delivered(drawn=True)
    story.handle(RolledBack(cut))
    expected = {9: (), 10: (Do(Step.ACCEPT, TASK),), 11: (Do(Step.COMMIT, TASK),), 13: (Do(Step.SEED, TASK),)}
    expected[14] = expected[13]
    expected[44] = (Do(Step.REVEAL, TASK),)
    head = 30 if cut == 11 else 46  # commitBy is 31
    assert story.head(head) == expected[cut]
    assert story.case().seal == SEAL


def test_a_demand_is_answered_before_anything_else_and_holds_up_the_end() -> None:
    story = Story()
    story.until_delivered()
    leaf = Leaf(False, 0, 0)
    story.noted(Demanded(at(20), TASK, (leaf,), 100))
    assert story.head(20) == (Do(Step.SHOW, TASK),)
    story.handle(Undone(TASK, Step.SHOW, NODE_AWAY))
    assert story.head(21) == (Do(Step.SHOW, TASK),)
    story.handle(Done(TASK, Step.SHOW, 22))
    story.noted(Shown(at(22), TASK, 0, bytes(1024)))
    story.quiet(22)
    assert story.head(49) == (Do(Step.CLOSE, TASK),)


def test_a_demand_does_not_wait_for_an_upload() -> None:
    story = Story()
    story.until_upload()
    story.noted(Demanded(at(18), TASK, (Leaf(False, 0, 0),), 100))
    assert story.head(18) == (Do(Step.SHOW, TASK),)
    assert story.handle(Undone(TASK, Step.SHOW, NODE_AWAY)) == ()
    assert story.head(19) == (Do(Step.SHOW, TASK),)
    assert story.handle(Done(TASK, Step.UPLOAD)) == ()
    assert story.case().doing is Step.SHOW and story.case().uploaded


def test_a_demand_is_answered_as_long_as_the_chain_waits_for_it_whatever_events_said() -> None:
    story = Story()
    story.until_delivered()
    demanded = Demanded(at(20), TASK, (Leaf(False, 0, 0),), 100)
    story.noted(demanded)
    assert story.head(20, {TASK: 100}) == (Do(Step.SHOW, TASK),)
    assert story.handle(Done(TASK, Step.SHOW, 21)) == ()
    story.noted(Shown(at(21), TASK, 0, b""))
    assert story.head(21, {TASK: 100}) == (Do(Step.SHOW, TASK),), "somebody's token made the market forget it"
    assert list(story.operator.turns()) == [Turn(TASK, 0, 100)]
    assert story.handle(Done(TASK, Step.SHOW, 22)) == ()
    story.noted(Shown(at(22), TASK, 0, b""))
    assert story.head(22, {TASK: 57}) == () and story.case().demand is None
    story.handle(RolledBack(21))
    story.noted(Shown(at(22), TASK, 0, b""))
    assert story.case().demand is None, "events tell until the chain was asked again"
    assert story.head(23, {TASK: 100}) == (Do(Step.SHOW, TASK),)


def test_a_demand_that_was_missed_is_not_ended_by_the_executor() -> None:
    story = Story()
    story.until_delivered()
    story.noted(Demanded(at(20), TASK, (Leaf(False, 0, 0),), 30))
    story.quiet(30, 60)


def test_a_conviction_stops_the_operator_for_good_and_finishes_what_it_had_accepted() -> None:
    story = Story()
    story.until_delivered(drawn=True)
    story.posted(SECOND, block=50)
    story.seen(State.CONVICTED, 50)
    assert story.head(50) == (Do(Step.HALT, TASK), Do(Step.DECLINE, SECOND))
    assert story.operator.draining
    refused = story.case(SECOND).refused
    assert refused is not None and refused.code is Code.DRAINING
    story.handle(Done(TASK, Step.HALT))
    assert story.case().halted
    story.quiet(51, 60)


def test_a_conviction_that_was_dealt_with_does_not_stop_the_operator_again_after_a_restart() -> None:
    story = Story(Operator(POLICY, {TASK: Case(a_life(), seal=SEAL, uploaded=True, halted=True)}))
    story.posted()
    story.seen(State.ACCEPTED, 11, executor=ME)
    story.seen(State.COMMITTED, 12, claim=sealed_by(ME))
    story.seen(State.CONVICTED, 90)
    story.quiet(91)
    assert not story.operator.draining
