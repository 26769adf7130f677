"""Whatever happens to tasks, in whatever order: the watcher stays within its budget, its window and its knowledge."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor.dispute import Phase, Position, Reason, Side
from eigentensor.economics import WAD
from eigentensor.task import (
    BondReturned,
    Challenged,
    Closed,
    Ended,
    GameEnded,
    Life,
    Moved,
    Opened,
    State,
    TaskEvent,
    fold,
)
from eigentensor.task.due import NEVER, Verb, actions
from eigentensor_aggregator.watch.machine import Act, Look, Policy, Situation, Verdict, bound_by, decide, own_games
from support.stories.aggregator import (
    CHALLENGER,
    EXECUTOR,
    PARAMETERS,
    ROOT,
    VERIFIER,
    WRONG,
    accepted,
    at,
    committed,
    convicted,
    posted,
    revealed,
)

LOOKS = [None, Look(Verdict.AGREES, ROOT.hex()), Look(Verdict.DIFFERS, WRONG.hex()), Look(Verdict.UNABLE, "no data")]


@st.composite
def histories(draw: st.DrawFn, task: bytes) -> Life:
    """A task with up to three games of anybody, each wherever it may stand, and perhaps an end."""
    happened: list[TaskEvent] = [posted(task=task), accepted(task=task), committed(task=task)]
    happened.append(revealed(draw(st.integers(20, 40)), task))
    for number in range(1, draw(st.integers(0, 3)) + 1):
        player, phase = draw(st.sampled_from([CHALLENGER, VERIFIER])), draw(st.sampled_from(list(Phase)))
        position = Position(task, EXECUTOR, player, phase, draw(st.integers(40, 60)), 80, 80)
        begun = Position(task, EXECUTOR, player, Phase.PUBLISH, 40, 80, 80)
        happened += [Opened(at(40), task, number, player, begun), Challenged(at(40), task, number, player, 24)]
        happened.append(Moved(at(position.since), task, number, position, b""))
        lost = draw(st.sampled_from([None, None, False, True]))
        if lost is not None:
            happened.append(Ended(at(61), task, number, lost, Reason.VERDICT))
            happened.append(GameEnded(at(61), task, number, player, lost))
            if lost:
                happened.append(convicted(61))
                break
    if draw(st.integers(0, 3)) == 0:
        happened.append(Closed(at(70), task, 9, 0))
    life = fold(happened, PARAMETERS)
    assert life is not None
    return life


@st.composite
def situations(draw: st.DrawFn) -> tuple[Policy, Situation]:
    lives = [draw(histories(bytes([n]) * 32)) for n in range(draw(st.integers(1, 5)))]
    policy = Policy(PARAMETERS, CHALLENGER, b"k" * 32, WAD, draw(st.integers(0, 150)))
    looks = {(v.uuid, ROOT): look for v in lives if (look := draw(st.sampled_from(LOOKS))) is not None}
    block = draw(st.integers(20, 150))
    now = Situation(block, draw(st.integers(0, 150)), lives, looks, {})
    rests = {do: draw(st.sampled_from([NEVER, block, block + 1])) for do in decide(policy, now) if draw(st.booleans())}
    return policy, Situation(block, now.funds, lives, looks, rests)


@settings(max_examples=100)
@given(situations())
def test_the_watcher_stakes_only_what_it_may_on_what_it_knows(situation: tuple[Policy, Situation]) -> None:
    policy, now = situation
    actions = decide(policy, now)
    lives = {life.uuid: life for life in now.lives}
    assert max(Counter(actions).values(), default=1) == 1
    assert all(now.rests.get(do, 0) <= now.block for do in actions)
    assert sum(do.act is Act.LOOK for do in actions) <= 1
    bonds = sum(policy.bond(lives[do.task]) for do in actions if do.act is Act.CHALLENGE)
    assert bonds == 0 or bound_by(policy, now) + bonds <= policy.bonds
    for do in actions:
        life = lives[do.task]
        if do.act in (Act.LOOK, Act.CHALLENGE):
            assert life.state is State.REVEALED and now.block < life.challenge_by
            assert not own_games(policy, life) or do.act is Act.LOOK
        if do.act is Act.CHALLENGE:
            assert now.looks[life.uuid, ROOT].verdict is Verdict.DIFFERS and do.claim == life.outputs_root
        if do.act is Act.PLAY:
            game = life.games[do.game]
            assert game.challenger == CHALLENGER and game.executor_lost is None and game.position is not None
            is_over = now.block >= game.position.since + 80 - 1
            assert game.position.phase.side is Side.CHALLENGER or is_over
        if do.act is Act.REFUND:
            assert life.state is State.CONVICTED and life.games[do.game].challenger == CHALLENGER


@settings(max_examples=60)
@given(life=histories(b"\7" * 32), block=st.integers(40, 400))
def test_every_bond_and_every_task_has_a_message_that_frees_it(life: Life, block: int) -> None:
    """INVARIANT 37: as long as something is held there is a block from which a message is due about it."""
    waiting = not life.state.is_terminal
    stranded = life.state is State.CONVICTED and any(game.is_stranded for game in life.games.values())
    assert bool(actions([life], 10**6)) or not (waiting or stranded)
    for number in refunds(life, block):
        game = life.games[number]
        back = life.step(BondReturned(at(block), life.uuid, number, game.challenger, game.bond))
        assert refunds(back, block) == [n for n in refunds(life, block) if n != number]


def refunds(life: Life, block: int) -> list[int]:
    return [action.number for action in actions([life], block) if action.verb is Verb.REFUND]
