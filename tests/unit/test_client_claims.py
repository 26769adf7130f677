"""What an account has coming from games: who gets what, by which message, from which block on."""

from dataclasses import replace
from typing import Any

import pytest

from eigentensor import economics
from eigentensor.chain import Answer, Challenge, Conviction, GameView, Note, Stage, Task
from eigentensor.dispute import Phase, Position, Reason
from eigentensor.task import Cause, Ended, Opened, Place, State
from eigentensor_client.claims import Facts, Message, claims
from support.stories.orders import LOCAL, ORDER

ME, OTHER, EXECUTOR, NOBODY = ("0x" + digit * 40 for digit in "1230")
UUID, PLACE = b"\7" * 32, Place(200, 0, b"h" * 32, b"t" * 32)
PRICE = economics.price(ORDER.min_price, ORDER.max_price, ORDER.ramp_start, ORDER.ramp_length, 105)
BOND, REWARD = economics.bond(LOCAL, PRICE), economics.reward(LOCAL, PRICE)
HALF = economics.stake(LOCAL, PRICE, 0, ORDER.check_rate, ORDER.verifiers) // 2


def facts(
    state: State = State.CONVICTED,
    phase: Phase = Phase.PUBLISH,
    bond: Challenge | None = None,
    winner: str = OTHER,
    **more: Any,
) -> Facts:
    """A game of ours that is not over; the executor is convicted unless `state` says otherwise."""
    opened = Opened(PLACE, UUID, 3, ME, Position(UUID, EXECUTOR, ME, phase, 200, 80, 80))
    known = Facts(
        order=ORDER,
        uuid=UUID,
        task=Task(EXECUTOR, state, 105, 190, ORDER.exec, b"c" * 32, 110, 9, 0, 0, 0),
        game=GameView(opened, (), None),
        bond=bond or Challenge(ME, 0, False),
        conviction=Conviction(Cause.VERDICT, winner, False),
        answers_by=230,
        answers={},
        lock_end=900,
    )
    return replace(known, **more)


def claimed(known: Facts, account: str = ME) -> list[tuple[str, int, int]]:
    return [(claim.message.value, claim.brings, claim.first) for claim in claims(known, account, LOCAL)]


def test_an_executor_that_runs_out_of_time_loses_bond_and_reward_to_the_challenger() -> None:
    assert claimed(facts(State.REVEALED)) == [("timeout", BOND + REWARD, 280)]
    assert claimed(facts(State.REVEALED, Phase.CALL)) == []  # our own clock runs
    assert claimed(facts(State.REVEALED), OTHER) == []
    over = facts(State.REVEALED).game
    ended = replace(over, ended=Ended(PLACE, UUID, 3, False, Reason.CLOCK))
    assert claimed(facts(State.REVEALED, game=ended)) == []


def test_a_crowd_that_convicts_by_the_clock_gets_half_of_its_bonds_and_nothing_of_the_slash() -> None:
    crowd = Conviction(Cause.VERDICT, OTHER, False, crowded=True)
    assert claimed(facts(bond=Challenge(ME, 0, False, crowded=True), conviction=crowd)) == [
        ("refund", BOND - BOND // 2, 0)
    ]
    assert claimed(facts(bond=Challenge(ME, 0, False), conviction=crowd)) == [("refund", BOND, 0)]
    assert claimed(facts(bond=Challenge(ME, 0, False, crowded=True))) == [("refund", BOND, 0)]
    assert claimed(facts(bond=Challenge(ME, 0, True, crowded=True), conviction=replace(crowd, winner=ME))) == []


def test_the_bond_of_an_idle_game_comes_back_to_its_challenger_alone() -> None:
    assert claimed(facts()) == [("refund", BOND, 0)]
    assert claimed(facts(), EXECUTOR) == []
    assert claimed(facts(bond=Challenge(ME, 0, True))) == []


def test_the_winner_slashes_and_gets_half_unless_verifiers_found_it_too() -> None:
    won = facts(bond=Challenge(ME, 0, True), winner=ME)
    assert claimed(won) == [("slash", HALF, 231)]
    (claim,) = claims(won, ME, LOCAL)
    assert (claim.message, claim.last) == (Message.SLASH, 900)
    answers = {index: Answer(operator, Stage.DIFFERED, b"r" * 32) for index, operator in ((0, OTHER), (4, EXECUTOR))}
    assert claimed(replace(won, answers=answers)) == []
    assert claimed(replace(won, answers=answers | {5: Answer(ME, Stage.DIFFERED, b"r" * 32)})) == [
        ("slash", HALF * 2 // 2 // 3, 231)
    ]
    assert claimed(replace(won, conviction=replace(won.conviction, slashed=True))) == []


def test_what_a_slash_took_is_paid_to_its_beneficiaries_once() -> None:
    slashed = facts(bond=Challenge(ME, 0, True), slash=7, note=Note(UUID, 1001, (ME, OTHER)), payable=777)
    assert claimed(slashed) == [("pay", 250, 777)]
    assert claims(slashed, ME, LOCAL)[0].number == 7
    assert claimed(slashed, EXECUTOR) == []
    assert claimed(replace(slashed, note=Note(UUID, 0, ()))) == []


@pytest.mark.parametrize(
    ("stage", "index", "cause", "brings"),
    [
        (Stage.DIFFERED, 2, Cause.VERDICT, BOND + ORDER.check_fee),  # the lowest of those that differed
        (Stage.DIFFERED, 5, Cause.VERDICT, BOND),  # one too many for a fee
        (Stage.LOST, 2, Cause.VERDICT, ORDER.check_fee),
        (Stage.DIFFERED, 5, Cause.SILENCE, BOND + REWARD // 2),
        (Stage.PAID, 2, Cause.VERDICT, None),
    ],
)
def test_an_answer_whose_reveal_opened_the_game_is_settled_after_the_verifiers_time(
    stage: Stage, index: int, cause: Cause, brings: int | None
) -> None:
    rival = 2 if index == 5 else 5
    answers = {index: Answer(ME, stage, b"r" * 32), rival: Answer(OTHER, Stage.DIFFERED, b"r" * 32)}
    known = facts(bond=Challenge(ME, index + 1, False), answers=answers, conviction=Conviction(cause, OTHER, True))
    assert claimed(known) == ([] if brings is None else [("settle", brings, 231)])
