"""Stories of games: the operator moves at once in each of them, and lets nobody else's clock hold it up."""

from dataclasses import replace

import pytest

from eigentensor.dispute import Phase
from eigentensor.dispute import Reason as EndReason
from eigentensor.economics import GAMES, WAD, challenge_window, clock
from eigentensor.task import Challenged, Demanded, Ended, GameEnded, Leaf, Moved, Opened, Shown, State
from eigentensor_operator.case import Case, Step
from eigentensor_operator.events import Checked, Do, Done, RolledBack, Undone
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
    WRONG,
    Story,
    a_life,
    a_position,
    at,
    sealed_by,
)

CHALLENGE_BY = 17 + challenge_window(POLICY.parameters, 20)
CLOCK = 80
NODE_AWAY = Reason(Code.CHAIN, "a node", "unreachable", lasting=False)


def moved(block: int, phase: Phase, game: int = 1, *, executor: str = ME, challenger: str = OTHER) -> Moved:
    position = a_position(phase, block, executor=executor, challenger=challenger)
    return Moved(at(block), TASK, game, position, b"")


def ended(block: int, game: int = 1) -> Ended:
    """The challenger lost."""
    return Ended(at(block), TASK, game, False, EndReason.CLOCK)


def test_a_challenge_is_defended_move_by_move_until_the_task_can_be_ended() -> None:
    story = Story()
    story.until_delivered()
    story.challenged(20)
    assert story.head(20) == (Do(Step.PLAY, TASK, 1),)
    assert story.handle(Done(TASK, Step.PLAY, 21, 1)) == ()
    story.noted(moved(21, Phase.CALL))
    story.quiet(21, 22)
    story.noted(moved(30, Phase.TREE))
    assert story.head(30) == (Do(Step.PLAY, TASK, 1),)
    story.handle(Done(TASK, Step.PLAY, 31, 1))
    story.noted(moved(31, Phase.NODE))
    story.quiet(CHALLENGE_BY + 2)
    story.noted(ended(60, 1), GameEnded(at(60), TASK, 1, OTHER, False))
    assert story.head(60) == (Do(Step.CLOSE, TASK),)


def test_games_wait_for_the_self_test_and_nothing_else_that_has_a_clock_does() -> None:
    story = Story()
    story.until_delivered()
    story.challenged(20)
    story.noted(Demanded(at(20), TASK, (Leaf(False, 0, 0),), 100))
    story.operator = replace(story.operator, testing=True)
    assert story.head(20) == (Do(Step.SHOW, TASK),)
    assert story.handle(Checked()) == (Do(Step.PLAY, TASK, 1),)


def test_a_device_that_fails_its_self_test_plays_on_and_executes_nothing() -> None:
    fault = Reason(Code.DEVICE, "the reference's bits", "others")
    story = Story()
    story.until_delivered()
    story.challenged(20)
    story.operator = replace(story.operator, testing=True)
    story.quiet(20)
    assert story.handle(Checked(fault)) == (Do(Step.PLAY, TASK, 1),)
    story.posted(SECOND, block=21)
    story.seen(State.ACCEPTED, 21, task=SECOND, executor=ME)
    story.quiet(21, 22)


def test_a_challenge_before_the_upload_is_defended_beside_it() -> None:
    story = Story()
    story.until_upload()
    story.challenged(18)
    assert story.head(18) == (Do(Step.PLAY, TASK, 1),)


def test_a_move_that_failed_is_tried_in_the_next_block_until_the_clock_has_run_out() -> None:
    story = Story()
    story.until_delivered()
    story.challenged(20)
    for block in range(20, 19 + CLOCK):
        assert story.head(block) == (Do(Step.PLAY, TASK, 1),)
        story.handle(Undone(TASK, Step.PLAY, NODE_AWAY, 1))
    story.quiet(19 + CLOCK)


def test_a_move_is_not_made_again_before_the_chain_shows_it() -> None:
    story = Story()
    story.until_delivered()
    story.challenged(20)
    story.head(20)
    assert story.handle(Done(TASK, Step.PLAY, 23, 1)) == ()
    story.quiet(21, 22)
    assert story.head(23) == (Do(Step.PLAY, TASK, 1),)


def test_a_griefing_challenger_loses_by_its_clock() -> None:
    story = Story()
    story.until_delivered()
    story.challenged(20)
    story.head(20)
    story.handle(Done(TASK, Step.PLAY, 21, 1))
    story.noted(moved(21, Phase.CALL))
    story.quiet(21, 19 + CLOCK)
    assert story.head(20 + CLOCK) == (Do(Step.TIMEOUT, TASK, 1),)
    story.handle(Undone(TASK, Step.TIMEOUT, NODE_AWAY, 1))
    assert story.head(21 + CLOCK) == (Do(Step.TIMEOUT, TASK, 1),)
    story.handle(Done(TASK, Step.TIMEOUT, 103, 1))
    story.noted(ended(103, 1), GameEnded(at(103), TASK, 1, OTHER, False))
    assert story.head(103) == (Do(Step.CLOSE, TASK),)


def test_games_are_played_at_the_same_time_the_most_urgent_first() -> None:
    story = Story()
    story.until_delivered()
    story.challenged(20, 1)
    assert story.head(20) == (Do(Step.PLAY, TASK, 1),)
    story.challenged(21, 2, THIRD)
    assert story.head(21) == (Do(Step.PLAY, TASK, 2),)
    story.handle(Done(TASK, Step.PLAY, 22, 1))
    story.noted(moved(22, Phase.CALL))
    story.noted(moved(25, Phase.BORDERS))
    assert story.head(25) == (Do(Step.PLAY, TASK, 1),)
    story.noted(ended(26, 2), GameEnded(at(26), TASK, 2, THIRD, False))
    story.handle(Done(TASK, Step.PLAY, 26, 1))
    story.handle(Undone(TASK, Step.PLAY, NODE_AWAY, 2))
    story.noted(moved(26, Phase.SPAN))
    story.quiet(26, CHALLENGE_BY + 2)


def test_games_beyond_those_that_it_promised_to_play_wait_for_the_oldest() -> None:
    story = Story()
    story.until_delivered()
    for game in range(1, GAMES + 2):
        story.challenged(20, game)
    operator = story.operator
    assert [number for case, number, _ in operator.games() if operator.is_beyond(case, number)] == [GAMES + 1]
    story.noted(ended(26, 3), GameEnded(at(26), TASK, 3, OTHER, False))
    operator = story.operator
    assert not any(operator.is_beyond(case, number) for case, number, _ in operator.games())


def test_after_a_conviction_no_game_is_played() -> None:
    story = Story()
    story.until_delivered()
    story.challenged(20, 1)
    story.challenged(20, 2, THIRD)
    story.seen(State.CONVICTED, 21)
    assert story.head(21) == (Do(Step.HALT, TASK),)
    assert list(story.operator.games()) == []
    story.handle(Done(TASK, Step.HALT))
    story.quiet(22, 200)


def test_a_verifier_whose_answer_differs_plays_as_challenger() -> None:
    story = Story()
    story.until_opened(WRONG)
    opening = a_position(Phase.PUBLISH, 46, executor=OTHER, challenger=ME)
    story.noted(Challenged(at(46), TASK, 7, ME, WAD), Opened(at(46, 1), TASK, 7, ME, opening))
    story.quiet(46)
    story.noted(moved(48, Phase.CALL, 7, executor=OTHER, challenger=ME))
    assert story.head(48) == (Do(Step.PLAY, TASK, 7),)
    story.handle(Done(TASK, Step.PLAY, 49, 7))
    story.noted(moved(49, Phase.TREE, 7, executor=OTHER, challenger=ME))
    story.quiet(49, 47 + CLOCK)
    assert story.head(48 + CLOCK) == (Do(Step.TIMEOUT, TASK, 7),)


def test_the_games_of_others_about_tasks_of_others_are_none_of_its_business() -> None:
    story = Story()
    story.until_opened()
    opening = a_position(Phase.CALL, 47, executor=OTHER, challenger=THIRD)
    story.noted(Challenged(at(47), TASK, 7, THIRD, WAD), Opened(at(47), TASK, 7, THIRD, opening))
    story.quiet(47, 300)  # and it does not end the task while the game is open


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        (19, ()),
        (20, (Do(Step.PLAY, TASK, 1),)),
        (21, ()),
        (30, (Do(Step.PLAY, TASK, 1),)),
        (16, (Do(Step.REVEAL, TASK),)),
    ],
)
def test_a_game_goes_on_from_wherever_a_reorganisation_cuts_it(cut: int, expected: tuple[Do, ...]) -> None:
    story = Story()
    story.until_delivered()
    story.challenged(20)
    story.noted(moved(21, Phase.CALL), moved(30, Phase.TREE), moved(31, Phase.NODE))
    story.noted(ended(32, 1), GameEnded(at(32), TASK, 1, OTHER, False))
    story.quiet(32)
    story.handle(RolledBack(cut))
    assert story.head(33) == expected


def test_a_move_under_way_is_not_begun_again_in_a_game_that_a_reorganisation_took_back_and_brought_again() -> None:
    story = Story()
    story.until_delivered()
    story.challenged(20)
    assert story.head(20) == (Do(Step.PLAY, TASK, 1),)
    story.handle(RolledBack(19))
    story.challenged(21)
    story.quiet(21)
    story.handle(Undone(TASK, Step.PLAY, NODE_AWAY, 1))
    assert story.head(22) == (Do(Step.PLAY, TASK, 1),)


def test_a_restart_in_a_game_goes_on_with_what_the_chain_shows() -> None:
    story = Story(Operator(POLICY, {TASK: Case(a_life(), seal=SEAL, uploaded=True)}))
    story.posted()
    story.seen(State.ACCEPTED, 11, executor=ME)
    story.seen(State.COMMITTED, 12, claim=sealed_by(ME))
    story.seeded(15, drawn=False)
    story.seen(State.REVEALED, 17, claim=SEAL.outputs_root)
    story.challenged(20)
    story.noted(moved(21, Phase.CALL), moved(30, Phase.TREE))
    assert story.head(31) == (Do(Step.PLAY, TASK, 1),)


def test_a_game_about_a_forgotten_task_is_forgotten_too() -> None:
    story = Story()
    story.until_delivered()
    story.challenged(20)
    story.head(20)
    story.handle(Done(TASK, Step.PLAY, 21, 1))
    story.noted(ended(30, 1), GameEnded(at(30), TASK, 1, OTHER, False))
    story.seen(State.FINAL, 50)
    story.head(51 + POLICY.keep)
    story.head(52 + POLICY.keep)
    assert story.operator.cases == {}


def test_a_turn_with_less_than_a_third_of_its_clock_left_is_an_alarm() -> None:
    story = Story()
    story.until_delivered()
    story.challenged(20)
    story.challenged(20, 2, THIRD)
    story.noted(moved(21, Phase.CALL, 2, challenger=THIRD))  # not this operator's turn
    full = clock(POLICY.parameters, 20)
    last = 19 + CLOCK
    story.head(last - -(-full // 3))
    assert list(story.operator.short_clocks()) == []
    story.head(last - -(-full // 3) + 1)
    assert list(story.operator.short_clocks()) == [Turn(TASK, 1, last)]
    story.noted(Demanded(at(22), TASK, (Leaf(False, 0, 0),), last - 1))
    assert set(story.operator.short_clocks()) == {Turn(TASK, 1, last), Turn(TASK, 0, last - 1)}
    story.noted(ended(last, 1), GameEnded(at(last), TASK, 1, OTHER, False), Shown(at(last), TASK, 0, b""))
    assert list(story.operator.short_clocks()) == []
