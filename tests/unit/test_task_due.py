"""Stories: what happened to tasks, and which messages are due."""

from collections.abc import Sequence

from eigentensor import economics
from eigentensor.dispute import Phase, Reason
from eigentensor.task import (
    BondReturned,
    Cancelled,
    Closed,
    Demanded,
    Ended,
    Expired,
    Exposed,
    Failed,
    Life,
    Paid,
    Settled,
    Shown,
    Slashed,
    State,
    TaskEvent,
    due,
    fold,
)
from eigentensor.task.due import BATCH, Action, Verb, awake
from eigentensor_aggregator.daemon import Pause, rested
from support.stories.aggregator import (
    ANSWERED,
    CHALLENGER,
    PARAMETERS,
    RECORDED,
    REVEALED,
    REVEALED_TASK,
    ROOT,
    SEED,
    TASK,
    VERIFIER,
    WRONG,
    Cause,
    accepted,
    answered,
    at,
    challenged,
    committed,
    convicted,
    ended,
    life_of,
    mix,
    moved,
    opened_answer,
    posted,
    revealed,
)

END = 12 + economics.lifetime(PARAMETERS, 20)


def actions(block: int, *lives: Life) -> Sequence[Action]:
    return due.actions(lives, block)


def messages(block: int, life: Life) -> list[tuple[Verb, int]]:
    return [(action.verb, action.number) for action in actions(block, life)]


def test_nothing_is_due_while_everybody_is_in_time() -> None:
    drawn = mix(drawn=True)
    assert actions(99, life_of(posted())) == []
    assert actions(31, life_of(posted(), accepted())) == []
    assert actions(SEED - 1, life_of(posted(), accepted(), committed())) == []
    assert actions(REVEALED - 1, life_of(posted(), accepted(), committed(), mix=drawn)) == []
    assert actions(59, life_of(*REVEALED_TASK, mix=drawn)) == []


def test_an_order_that_nobody_took_expires_in_the_first_block_after_its_last() -> None:
    life = life_of(posted())
    assert actions(100, life) == [Action(Verb.EXPIRE, (life,))]


def test_an_executor_that_does_not_commit_is_closed_when_its_blocks_are_over() -> None:
    life = life_of(posted(), accepted())
    assert life.deadline == 32
    assert actions(32, life) == [Action(Verb.CLOSE, (life,))]


def test_a_seed_is_recorded_once_for_all_tasks_that_wait_for_it_and_only_in_its_time() -> None:
    tasks = [life_of(posted(task=t), accepted(task=t), committed(task=t)) for t in (TASK, WRONG)]
    assert messages(SEED, tasks[0]) == [(Verb.SEED, SEED)]
    assert [(a.verb, a.number) for a in actions(SEED, *tasks)] == [(Verb.SEED, SEED)]
    assert messages(RECORDED - 1, tasks[0]) == [(Verb.SEED, SEED)]
    assert tasks[0].deadline == RECORDED
    assert messages(RECORDED, tasks[0]) == [(Verb.CLOSE, 0)]
    assert messages(SEED, life_of(posted(), accepted(), committed(), mix=mix(drawn=False))) == []


def test_an_executor_that_does_not_reveal_is_closed_after_the_reveal_window_drawn_or_not() -> None:
    for drawn in (True, False):
        life = life_of(posted(), accepted(), committed(), mix=mix(drawn=drawn))
        assert life.drawn is drawn and life.deadline == REVEALED
        assert actions(REVEALED, life) == [Action(Verb.CLOSE, (life,))]


def test_a_revealed_task_is_closed_after_the_challenge_window() -> None:
    life = life_of(*REVEALED_TASK)
    assert life.deadline == 30 + economics.challenge_window(PARAMETERS, 20) == 60
    assert life.outputs_root == ROOT and life.price == 9
    assert actions(60, life) == [Action(Verb.CLOSE, (life,))]


def test_an_open_game_holds_the_task_open_until_somebody_loses_it() -> None:
    life = life_of(*REVEALED_TASK, *challenged())
    assert life.open_games and messages(100, life) == []
    lost = life_of(*REVEALED_TASK, *challenged(), *ended(executor_lost=False))
    assert messages(100, lost) == [(Verb.CLOSE, 0)]


def test_whoever_runs_out_of_its_clock_is_timed_out_from_the_next_block_on() -> None:
    life = life_of(*REVEALED_TASK, *challenged(32))
    assert messages(110, life) == [] and messages(111, life) == [(Verb.TIMEOUT, 1)]
    moves = life_of(*REVEALED_TASK, *challenged(32), moved(50, Phase.CALL))
    assert messages(128, moves) == [] and messages(129, moves) == [(Verb.TIMEOUT, 1)]


def test_of_several_games_that_an_executor_loses_by_its_clock_one_convicts_it() -> None:
    two = [*REVEALED_TASK, *challenged(32), *challenged(40, game=2)]
    assert messages(130, life_of(*two)) == [(Verb.TIMEOUT, 1)]
    stalling = life_of(*two, moved(41, Phase.CALL, game=1), moved(42, Phase.CALL, game=2))
    assert messages(130, stalling) == [(Verb.TIMEOUT, 1), (Verb.TIMEOUT, 2)]


def test_leaves_that_are_demanded_and_not_shown_are_waited_for_and_then_convict() -> None:
    demanded = life_of(*REVEALED_TASK, Demanded(at(59), TASK, (), 139))
    assert demanded.deadline == 139
    assert messages(138, demanded) == [] and messages(139, demanded) == [(Verb.CLOSE, 0)]
    shown = life_of(*REVEALED_TASK, Demanded(at(59), TASK, (), 139), Shown(at(70), TASK, 0, b""))
    assert messages(70, shown) == [(Verb.CLOSE, 0)]


def test_a_conviction_is_slashed_after_the_verifiers_time_until_the_lock_ends() -> None:
    life = life_of(*REVEALED_TASK, *challenged(), *ended(executor_lost=True), convicted(35))
    assert messages(39, life) == [] and messages(40, life) == [(Verb.SLASH, 0)]
    assert messages(END - 1, life) == [(Verb.SLASH, 0)] and messages(END, life) == []
    slashed = [*REVEALED_TASK, convicted(35), Slashed(at(41), TASK, 7, 100, VERIFIER)]
    assert messages(41, life_of(*slashed)) == [(Verb.PAY, 7)]
    assert messages(99, life_of(*slashed, Paid(at(60), TASK, 7, 50, 50))) == []
    nothing = life_of(*REVEALED_TASK, convicted(35), Slashed(at(41), TASK, 0, 0, VERIFIER))
    assert messages(99, nothing) == []


def test_a_silent_executor_that_was_drawn_is_slashed_after_the_verifiers_could_still_reveal() -> None:
    life = life_of(posted(), accepted(), committed(), convicted(REVEALED + 1, Cause.SILENCE), mix=mix(drawn=True))
    assert messages(ANSWERED - 1, life) == [] and messages(ANSWERED, life) == [(Verb.SLASH, 0)]


def test_bonds_of_games_that_a_conviction_made_idle_are_given_back_once() -> None:
    happened = [*REVEALED_TASK, *challenged(), *challenged(33, game=2), *ended(game=1, executor_lost=True)]
    life = life_of(*happened, convicted(40))
    assert messages(40, life) == [(Verb.SLASH, 0), (Verb.REFUND, 2)]
    played_on = life_of(*happened, convicted(40), Ended(at(41), TASK, 2, True, Reason.CLOCK))
    assert messages(41, played_on) == [(Verb.SLASH, 0), (Verb.REFUND, 2)]
    back = life_of(*happened, convicted(40), BondReturned(at(41), TASK, 2, VERIFIER, 24))
    assert messages(41, back) == [(Verb.SLASH, 0)] and back.state_of(back.games[2]) == "ended"


def test_answers_are_settled_when_the_task_is_final() -> None:
    happened = [posted(), accepted(), committed(), answered(), revealed(), opened_answer()]
    final = life_of(*happened, Closed(at(61), TASK, 9, 0), mix=mix(drawn=True))
    assert final.agreed == 1 and messages(61, final) == [(Verb.SETTLE, 0)]
    settled = life_of(*happened, Closed(at(61), TASK, 9, 0), Settled(at(62), TASK, 1, VERIFIER, 34))
    assert messages(62, settled) == [] and settled.answers[0].settled == 34


def test_answers_of_a_conviction_are_settled_after_the_verifiers_time() -> None:
    happened = [posted(), accepted(), committed(), answered(), revealed(), opened_answer(31, root=WRONG)]
    games = challenged(31, challenger=VERIFIER, transaction=b"a" * 32)
    life = life_of(*happened, *games, *ended(executor_lost=True), convicted(36), mix=mix(drawn=True))
    assert messages(39, life) == [] and messages(40, life) == [(Verb.SETTLE, 0), (Verb.SLASH, 0)]


def test_an_answer_that_was_exposed_or_whose_bond_is_lost_is_owed_nothing() -> None:
    begun = [posted(), accepted(), committed(), answered()]
    exposed = [*begun, Exposed(at(22), TASK, 1, VERIFIER, 12), revealed(), Closed(at(61), TASK, 9, 0)]
    assert messages(61, life_of(*exposed)) == []
    games = challenged(31, challenger=VERIFIER, transaction=b"a" * 32)
    lost = [*begun, revealed(), opened_answer(31, root=WRONG), *games, *ended(executor_lost=False)]
    assert messages(61, life_of(*lost, Closed(at(61), TASK, 9, 0))) == []
    # Somebody else convicted the executor: the verifier was right, and has its fee, though not its bond.
    assert (Verb.SETTLE, 0) in messages(61, life_of(*lost, convicted(45)))


def test_a_game_that_ends_after_its_task_takes_no_bond_of_an_answer() -> None:
    happened = [posted(), accepted(), committed(), answered(), answered(index=1, operator=CHALLENGER), revealed()]
    differing = [opened_answer(31, root=WRONG), opened_answer(31, index=1, root=WRONG)]
    second = challenged(31, game=2, challenger=CHALLENGER, transaction=b"a" * 32)
    idle = Ended(at(46), TASK, 2, False, Reason.CLOCK)
    life = life_of(*happened, *differing, *second, convicted(45), idle)
    assert [number for verb, number in messages(90, life) if verb is Verb.SETTLE] == [0, 1]


def test_the_bond_of_an_answer_is_no_challengers() -> None:
    games = challenged(31, challenger=VERIFIER, transaction=b"a" * 32)
    happened = [posted(), accepted(), committed(), answered(), revealed(), opened_answer(31, root=WRONG), *games]
    assert (Verb.REFUND, 1) not in messages(90, life_of(*happened, convicted(45)))


def test_a_verifiers_game_that_a_conviction_made_idle_is_over_when_its_answer_is_settled() -> None:
    games = challenged(31, challenger=VERIFIER, transaction=b"a" * 32)
    happened = [posted(), accepted(), committed(), answered(), revealed(), opened_answer(31, root=WRONG), *games]
    idle = life_of(*happened, convicted(45))
    assert idle.state_of(idle.games[1]) == "idle"
    settled = life_of(*happened, convicted(45), Settled(at(90), TASK, 1, VERIFIER, 34))
    assert settled.state_of(settled.games[1]) == "ended"


def test_tasks_that_have_ended_without_a_check_need_nothing_more() -> None:
    ends: dict[State, list[TaskEvent]] = {
        State.FINAL: [accepted(), committed(), revealed(), Closed(at(50), TASK, 9, 0)],
        State.FAILED: [accepted(), Failed(at(50), TASK, 9, 2)],
        State.CANCELLED: [Cancelled(at(50), TASK)],
        State.EXPIRED: [Expired(at(50), TASK)],
    }
    for state, events in ends.items():
        life = life_of(posted(), *events)
        assert life.state is state and state.is_terminal and life.deadline is None
        assert actions(10**6, life) == [] and awake(life) is None


def test_many_tasks_are_closed_together_and_the_oldest_deadline_comes_first() -> None:
    tasks = [bytes([i]) * 32 for i in range(BATCH + 2)]
    lives = [
        life_of(posted(task=t), accepted(task=t), committed(task=t), revealed(30 + i % 3, t))
        for i, t in enumerate(tasks)
    ]
    batches = actions(1000, *lives)
    assert [len(action.lives) for action in batches] == [BATCH, 2]
    order = [life.since for action in batches for life in action.lives]
    assert order == sorted(order)


def test_a_task_whose_end_was_refused_rests_and_holds_up_no_others() -> None:
    lives = [life_of(posted(task=t), accepted(task=t), committed(task=t), revealed(30, t)) for t in (ROOT, TASK, WRONG)]
    (batch,) = actions(1000, *lives)
    first, second, third = batch.keys
    pauses = {first: Pause(1002, 4), second: Pause(1000, 1)}
    assert list(rested([batch], pauses, 1000)) == [Action(Verb.CLOSE, batch.lives[1:])]
    assert list(rested([batch], pauses, 1002)) == [batch]
    assert list(rested([batch], dict.fromkeys((first, second, third), Pause(1002, 4)), 1001)) == []


def test_a_task_is_awake_from_its_first_message_to_its_last() -> None:
    assert awake(life_of(posted(), accepted(), committed())) == (SEED + 1, 1 << 62)
    assert awake(life_of(*REVEALED_TASK, convicted(35))) == (41, END)


def test_an_event_of_an_unknown_order_says_nothing() -> None:
    assert fold([accepted()], PARAMETERS) is None


def test_taking_back_an_accept_opens_the_task_again() -> None:
    assert life_of(posted(), accepted()).executor and life_of(posted()).executor is None
