"""Stories: what the watcher saw and computed, and what it does about it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from eigentensor import economics
from eigentensor.chain import from_wei
from eigentensor.dispute import Phase, Reason, deadline_of
from eigentensor.economics import WAD
from eigentensor.task import BondReturned, Closed, Life
from eigentensor.task.due import NEVER, position_of
from eigentensor_aggregator.watch import machine
from eigentensor_aggregator.watch.machine import (
    Act,
    Do,
    Look,
    Policy,
    Situation,
    Verdict,
    bound_by,
    decide,
    short_clocks,
)
from support.stories.aggregator import (
    CHALLENGER,
    PARAMETERS,
    REVEALED_TASK,
    ROOT,
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
    moved,
    opened_answer,
    posted,
    revealed,
)

POLICY = Policy(PARAMETERS, CHALLENGER, b"k" * 32, WAD, 100)
RESULT = life_of(*REVEALED_TASK)
LOOK, CHALLENGE = Do(Act.LOOK, TASK, ROOT), Do(Act.CHALLENGE, TASK, ROOT)
AGREES = Look(Verdict.AGREES, ROOT.hex())
DIFFERS = Look(Verdict.DIFFERS, WRONG.hex())
#: B at the price 9, and the last block of a challenge of a result of block 30.
BOND, WINDOW = 24, 60


def seen(
    *lives: Life,
    block: int = 40,
    funds: int = 1000,
    look: Look | None = None,
    rests: Mapping[Do, int] | None = None,
) -> Situation:
    looks = {} if look is None else {(life.uuid, life.outputs_root or b""): look for life in lives}
    return Situation(block, funds, lives, looks, rests or {})


def words(life: Life, policy: Policy = POLICY, **situation: object) -> str | None:
    return machine.words(policy, seen(life, **situation), life)  # type: ignore[arg-type]


def test_a_result_is_looked_at_once_and_only_while_it_can_be_challenged() -> None:
    assert decide(POLICY, seen(RESULT)) == [LOOK]
    assert decide(POLICY, seen(RESULT, block=WINDOW - 1)) == [LOOK]
    assert decide(POLICY, seen(RESULT, block=WINDOW)) == []
    assert decide(POLICY, seen(RESULT, rests={LOOK: NEVER})) == []
    assert decide(POLICY, seen(RESULT, look=AGREES)) == []
    assert decide(POLICY, seen(life_of(posted(), accepted(), committed()))) == []


def test_a_share_is_chosen_by_a_secret_and_always_the_same() -> None:
    tenth = [replace(POLICY, key=bytes([k]) * 32, share=WAD // 10) for k in (1, 2)]
    tasks = [i.to_bytes(32, "big") for i in range(1000)]
    chosen = [[policy.chooses(task) for task in tasks] for policy in tenth]
    assert all(70 < sum(row) < 130 for row in chosen) and chosen[0] != chosen[1]
    assert chosen[0] == [tenth[0].chooses(task) for task in tasks]
    assert decide(replace(POLICY, share=0), seen(RESULT)) == []


def test_of_one_operator_its_results_alone_are_looked_at() -> None:
    for operator, looked in ((RESULT.executor, [LOOK]), (CHALLENGER, [])):
        assert decide(replace(POLICY, operator=operator), seen(RESULT)) == looked


def test_results_are_looked_at_one_after_the_other_the_one_whose_window_closes_first_before() -> None:
    late = life_of(posted(task=WRONG), accepted(task=WRONG), committed(task=WRONG), revealed(35, WRONG))
    assert decide(POLICY, seen(late, RESULT)) == [LOOK]
    assert decide(POLICY, seen(late, RESULT, rests={LOOK: NEVER})) == []
    assert decide(POLICY, seen(late, RESULT, rests={LOOK: 50})) == [Do(Act.LOOK, WRONG, ROOT)]


def test_what_agrees_or_cannot_be_told_is_never_challenged() -> None:
    assert words(RESULT, look=AGREES) == "agrees"
    unable = Look(Verdict.UNABLE, "the order asks for another program")
    assert decide(POLICY, seen(RESULT, look=unable)) == []
    assert words(RESULT, look=unable) == "cannot tell: the order asks for another program"


def test_what_differs_is_challenged_once_within_the_window() -> None:
    assert decide(POLICY, seen(RESULT, look=DIFFERS)) == [CHALLENGE]
    assert decide(POLICY, seen(RESULT, look=DIFFERS, rests={CHALLENGE: NEVER})) == []
    assert decide(POLICY, seen(RESULT, look=DIFFERS, block=WINDOW)) == []
    game = life_of(*REVEALED_TASK, *challenged(41))
    assert decide(POLICY, seen(game, look=DIFFERS)) == []
    assert words(game, look=DIFFERS) == "differs: challenged as game 1"
    lost = life_of(*REVEALED_TASK, *challenged(41), *ended(50, executor_lost=False))
    assert decide(POLICY, seen(lost, look=DIFFERS, block=51)) == []
    assert words(lost, look=DIFFERS) == "differs: game 1 is lost, and its bond"


def test_games_of_others_stop_nobody() -> None:
    others = life_of(*REVEALED_TASK, *challenged(35, challenger=VERIFIER))
    assert decide(POLICY, seen(others, look=DIFFERS)) == [CHALLENGE]
    lost = life_of(*REVEALED_TASK, *challenged(35, challenger=VERIFIER), *ended(executor_lost=False))
    assert decide(POLICY, seen(lost, look=DIFFERS)) == [CHALLENGE]
    over = life_of(*REVEALED_TASK, *challenged(35, challenger=VERIFIER), *ended(executor_lost=True), convicted())
    assert decide(POLICY, seen(over, look=DIFFERS)) == []
    assert words(over, look=DIFFERS) == "differs: convicted by somebody else"


def test_the_game_of_an_own_answer_as_a_verifier_is_the_operators() -> None:
    answers = [posted(), accepted(), committed(), answered(operator=CHALLENGER), revealed()]
    game = challenged(31, transaction=b"a" * 32)
    life = life_of(*answers, opened_answer(31, root=WRONG), *game, moved(33, Phase.CALL))
    assert decide(POLICY, seen(life, look=DIFFERS)) == [CHALLENGE]


@pytest.mark.parametrize(
    ("policy", "funds", "why"),
    [
        (replace(POLICY, address=None), 1000, "there is no account that could"),
        (replace(POLICY, bonds=BOND - 1), 1000, "of the budget of"),
        (POLICY, BOND - 1, f"and {CHALLENGER} has {from_wei(BOND - 1)}"),
    ],
)
def test_a_challenge_that_cannot_be_afforded_is_refused_in_words(policy: Policy, funds: int, why: str) -> None:
    assert decide(policy, seen(RESULT, funds=funds, look=DIFFERS)) == []
    reason = words(RESULT, policy, funds=funds, look=DIFFERS)
    assert reason is not None and reason.startswith("differs, and is not challenged: ") and why in reason


def results(number: int) -> list[Life]:
    tasks = [bytes([i + 1]) * 32 for i in range(number)]
    return [life_of(posted(task=t), accepted(task=t), committed(task=t), revealed(task=t)) for t in tasks]


def test_bonds_stay_within_the_budget_however_many_results_differ() -> None:
    many = results(6)
    assert len(decide(POLICY, seen(*many, look=DIFFERS))) == POLICY.bonds // BOND == 4
    first = Do(Act.CHALLENGE, many[0].uuid, ROOT)
    now = seen(*many, look=DIFFERS, rests={first: NEVER})
    assert bound_by(POLICY, now) == BOND and len(decide(POLICY, now)) == 3
    poor = seen(*many, look=DIFFERS, funds=3 * BOND, rests={first: NEVER})
    assert len(decide(POLICY, poor)) == 2 and len(decide(POLICY, seen(*many, look=DIFFERS, funds=2 * BOND))) == 2
    played = life_of(*REVEALED_TASK, *challenged(41))
    assert bound_by(POLICY, seen(played, look=DIFFERS)) == BOND
    over = life_of(*REVEALED_TASK, *challenged(41), *ended(executor_lost=True), convicted())
    assert bound_by(POLICY, seen(over, look=DIFFERS)) == 0


def test_a_game_is_played_when_it_is_the_challengers_turn_or_the_executors_clock_is_over() -> None:
    play = Do(Act.PLAY, TASK, game=1)
    theirs = life_of(*REVEALED_TASK, *challenged(32))
    assert decide(POLICY, seen(theirs, look=DIFFERS)) == []
    assert decide(POLICY, seen(theirs, look=DIFFERS, block=110)) == []
    assert decide(POLICY, seen(theirs, look=DIFFERS, block=111)) == [play]
    ours = life_of(*REVEALED_TASK, *challenged(32), moved(33, Phase.CALL))
    assert decide(POLICY, seen(ours, look=DIFFERS)) == [play]
    assert decide(POLICY, seen(ours, look=DIFFERS, rests={play: NEVER})) == []
    assert decide(POLICY, seen(ours, look=DIFFERS, rests={play: 41})) == []


def test_a_game_is_played_on_after_a_restart_that_forgot_the_verdict() -> None:
    ours = life_of(*REVEALED_TASK, *challenged(32), moved(33, Phase.CALL))
    assert Do(Act.PLAY, TASK, game=1) in decide(POLICY, seen(ours, look=None))


def test_what_has_a_clock_comes_before_everything_else() -> None:
    ours = life_of(*REVEALED_TASK, *challenged(32), moved(33, Phase.CALL))
    actions = decide(POLICY, seen(*results(2), ours, look=None))
    assert [do.act for do in actions] == [Act.PLAY, Act.LOOK]


def test_the_shortest_clock_comes_first_and_with_less_than_a_third_left_it_is_an_alarm() -> None:
    def turn(task: bytes, number: int, block: int) -> Life:
        life = life_of(*REVEALED_TASK, *challenged(32, game=number), moved(block, Phase.CALL, game=number))
        return replace(life, uuid=task)

    late, early = turn(TASK, 1, 50), turn(WRONG, 2, 33)
    plays = [Do(Act.PLAY, WRONG, game=2), Do(Act.PLAY, TASK, game=1)]
    assert decide(POLICY, seen(late, early, look=AGREES)) == plays
    last = deadline_of(position_of(early, 2))
    third = economics.clock(PARAMETERS, early.order.exec) / 3
    for block in range(40, last + 1):
        short = dict(short_clocks(POLICY, seen(late, early, block=block)))
        assert (short.get(plays[0]) == last - block) == (last - block < third)


def test_the_bond_of_a_game_that_anothers_victory_made_idle_is_taken_back_once() -> None:
    games = [*challenged(32), *challenged(33, game=2, challenger=VERIFIER), *ended(game=2, executor_lost=True)]
    idle = life_of(*REVEALED_TASK, *games, convicted(40))
    assert decide(POLICY, seen(idle, look=DIFFERS)) == [Do(Act.REFUND, TASK, game=1)]
    assert words(idle, look=DIFFERS) == "differs: game 1 is idle, the executor was convicted in another"
    back = life_of(*REVEALED_TASK, *games, convicted(40), BondReturned(at(41), TASK, 1, CHALLENGER, BOND))
    assert decide(POLICY, seen(back, look=DIFFERS)) == []


def test_a_reorganisation_that_takes_the_challenge_away_makes_it_due_again() -> None:
    before = life_of(*REVEALED_TASK, *challenged(41))
    assert decide(POLICY, seen(before, look=DIFFERS)) == []
    assert decide(POLICY, seen(RESULT, look=DIFFERS)) == [CHALLENGE]
    other = life_of(posted(), accepted(), committed(), revealed(root=WRONG))
    now = Situation(40, 1000, [other], {(TASK, ROOT): DIFFERS}, {})
    assert decide(POLICY, now) == [Do(Act.LOOK, TASK, WRONG)]


def test_every_end_has_its_words() -> None:
    ends: list[tuple[Sequence[object], str]] = [
        (ended(executor_lost=True), "differs: game 1 convicted the executor"),
        (ended(executor_lost=False, reason=Reason.CLOCK), "differs: game 1 is lost, and its bond"),
    ]
    for happened, expected in ends:
        life = life_of(*REVEALED_TASK, *challenged(), *happened)  # type: ignore[arg-type]
        assert words(life, look=DIFFERS) == expected
    final = life_of(*REVEALED_TASK, Closed(at(61), TASK, 9, 0))
    assert words(final, look=DIFFERS) == "differs: not challenged in time"
    assert words(RESULT, look=DIFFERS) == f"differs: challenging, since it should be {WRONG.hex()}"
    assert words(RESULT) is None
